package importer

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// stage parses one stage of a pipeline.
func (p *queryParser) stage(q *lineQuery) error {
	t := p.take()
	if len(q.stages) == maxStages {
		return queryErrorf(t.at, "the pipeline has more than %d stages", maxStages)
	}
	if t.kind != tokenSymbol {
		return queryErrorf(t.at, "%s comes where a stage, a range or `)` is expected", t)
	}
	switch t.value {
	case "|=", "!=", "|~", "!~":
		return p.lineFilter(q, t)
	case "|>", "!>":
		return queryErrorf(t.at, "the filter `%s` matches patterns; use `|~` with an expression", t.value)
	case "|":
		return p.piped(q)
	}
	return queryErrorf(t.at, "%s comes where a stage, a range or `)` is expected", t)
}

// lineFilter parses the texts of a line filter.
func (p *queryParser) lineFilter(q *lineQuery, op token) error {
	s := stage{at: op.at, kind: op.value}
	for {
		if t := p.next(); t.value == "ip" && t.kind == tokenWord {
			return queryErrorf(t.at, "`ip` compares addresses, and a rule compares texts")
		}
		text, err := p.text()
		if err != nil {
			return err
		}
		s.text = append(s.text, text)
		or, ok := p.accept("or")
		if !ok {
			break
		}
		if op.value[0] == '!' {
			return queryErrorf(or.at, "`or` after `%s` is easily misread; write one filter for each text", op.value)
		}
	}
	q.stages = append(q.stages, s)
	return nil
}

// piped parses a stage after |.
func (p *queryParser) piped(q *lineQuery) error {
	t := p.next()
	if t.kind == tokenWord {
		switch t.value {
		case "json", "logfmt":
			p.take()
			return p.extraction(q, t)
		case "pattern", "regexp":
			p.take()
			text, err := p.text()
			q.stages = append(q.stages, stage{at: t.at, kind: t.value, text: []string{text}})
			return err
		case "drop":
			p.take()
			return p.drop(t)
		case "unpack", "line_format", "label_format", "decolorize", "keep", "unwrap":
			return queryErrorf(t.at, "the stage `%s` changes lines or labels, and a rule reads them as they are", t.value)
		}
	}
	f, err := p.labelOr()
	q.stages = append(q.stages, stage{at: t.at, kind: "filter", filter: f})
	return err
}

// extraction parses json and logfmt, with the labels that they extract.
func (p *queryParser) extraction(q *lineQuery, t token) error {
	s := stage{at: t.at, kind: t.value, names: map[string]string{}}
	for flag, ok := p.accept("-"); ok; flag, ok = p.accept("-") {
		return queryErrorf(flag.at, "options of `%s` cannot be translated", t.value)
	}
	for p.next().kind == tokenWord && p.next().value != "offset" {
		name, err := p.name()
		if err != nil {
			return err
		}
		path := name
		if _, ok := p.accept("="); ok {
			if path, err = p.text(); err != nil {
				return err
			}
		}
		s.names[name] = path
		if _, ok := p.accept(","); !ok {
			break
		}
	}
	q.stages = append(q.stages, s)
	return nil
}

// drop parses labels that are removed. Only errors may be.
func (p *queryParser) drop(t token) error {
	for {
		name, err := p.name()
		if err != nil {
			return err
		}
		if name != "__error__" && name != "__error_details__" {
			return queryErrorf(t.at, "the stage `drop` removes the label %s: leave it out of `by` instead", name)
		}
		if _, ok := p.accept(","); !ok {
			return nil
		}
	}
}

func (p *queryParser) labelOr() (*labelFilter, error) { return p.labelJoin("or", p.labelAnd, "or") }

func (p *queryParser) labelAnd() (*labelFilter, error) {
	return p.labelJoin("and", p.labelOne, "and", ",")
}

func (p *queryParser) labelJoin(join string, one func() (*labelFilter, error), words ...string) (*labelFilter, error) {
	first, err := one()
	if err != nil {
		return nil, err
	}
	out := &labelFilter{at: first.at, join: join, parts: []*labelFilter{first}}
	for {
		_, ok := p.accept(words...)
		if t := p.next(); !ok && (join == "or" || t.value != "(" && (t.kind != tokenWord || t.value == "or" || t.value == "offset")) {
			break // and may be left out
		}
		f, err := one()
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, f)
	}
	if len(out.parts) == 1 {
		return first, nil
	}
	return out, nil
}

func (p *queryParser) labelOne() (*labelFilter, error) {
	if p.depth++; p.depth > maxQueryDepth {
		return nil, queryErrorf(p.next().at, "the query is nested more than %d deep", maxQueryDepth)
	}
	defer func() { p.depth-- }()
	if _, ok := p.accept("("); ok {
		f, err := p.labelOr()
		if err == nil {
			err = p.expect(")")
		}
		return f, err
	}
	f := &labelFilter{at: p.next().at}
	var err error
	if f.name, err = p.name(); err != nil {
		return nil, err
	}
	op, ok := p.accept("=", "!=", "=~", "!~", "==", ">", ">=", "<", "<=")
	if !ok {
		return nil, p.unexpected("a comparison with the label " + f.name)
	}
	f.op = op.value
	switch t := p.next(); t.kind {
	case tokenText:
		p.take()
		f.value = t.value
		if f.op != "=" && f.op != "!=" && f.op != "=~" && f.op != "!~" {
			return nil, queryErrorf(op.at, "`%s` compares numbers, and %s is a text", f.op, t)
		}
	case tokenNumber:
		p.take()
		f.value, f.number = t.value, true
	case tokenQuantity:
		return nil, queryErrorf(t.at, "the label %s is compared with %s, a duration or a size; a rule compares texts and whole numbers", f.name, t)
	default:
		return nil, queryErrorf(t.at, "the label %s is compared with %s; a rule compares texts and whole numbers", f.name, t)
	}
	return f, nil
}

func (p *queryParser) window() (time.Duration, error) {
	p.take() // [
	t := p.take()
	d, err := model.ParseDuration(t.value)
	if t.kind != tokenQuantity || err != nil || d <= 0 || time.Duration(d) > maxDuration {
		return 0, queryErrorf(t.at, "%s is not a duration such as 5m", t)
	}
	return time.Duration(d), p.expect("]")
}

// selector returns the text of a stream selector.
func (p *queryParser) selector() (string, error) {
	start := p.next().at
	if err := p.expect("{"); err != nil {
		return "", err
	}
	var out []string
	for {
		if _, ok := p.accept("}"); ok {
			break
		}
		name, err := p.name()
		if err != nil {
			return "", err
		}
		op, ok := p.accept("=", "!=", "=~", "!~")
		if !ok {
			return "", p.unexpected("=, !=, =~ or !~")
		}
		value, err := p.text()
		if err != nil {
			return "", err
		}
		out = append(out, name+op.value+strconv.Quote(value))
		if _, ok := p.accept(","); !ok && p.next().value != "}" {
			return "", p.unexpected("`,` or `}`")
		}
	}
	if len(out) == 0 {
		return "", queryErrorf(start, "the selector is empty")
	}
	return "{" + strings.Join(out, ", ") + "}", nil
}
