package loki

import (
	"cmp"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// Limits of queries.
const (
	maxQuery    = 64 << 10 // bytes of a query; Loki accepts 128 KiB, before 2.9 only 5 KiB
	minQuery    = 1 << 10
	maxQueries  = 8
	maxSelected = 4 << 10 // bytes of the conditions for one label
	minText     = 3       // bytes of a text worth filtering for
	maxText     = 17      // bytes of a text that are sent
)

// plan is the set of queries that return every line that the active rules can match.
// It is immutable.
type plan struct {
	queries []string
	// wanted are the labels that structured metadata may provide.
	wanted map[string]bool
	// everyLine are the rules that require every line of their streams.
	everyLine []string
	// dropped reports that the filter was too long for the server.
	dropped bool
}

// planner creates plans. It is immutable.
type planner struct {
	selector rules.Selector
	naming   naming
}

// serves reports whether a stream of this source can satisfy the selector of a rule. Which
// labels streams have is not known, but they do not contain what crowsnest itself writes
// about objects, unless the configuration mentions the label that says so.
func (p planner) serves(from rules.Selector) bool {
	if from.WantsStates() && !p.naming.mentions(p.selector, "component") {
		return false
	}
	return from.Matches(p.naming.known(p.selector), true)
}

// served returns the selectors of a rule that streams of this source can satisfy.
func (p planner) served(r *rules.Rule) (out []rules.Selector) {
	for from := range r.Selectors() {
		if p.serves(from) {
			out = append(out, from)
		}
	}
	return out
}

// make creates the plan for a set of rules, with queries of at most that many bytes.
// Without a filter it queries everything that the configured selector matches.
func (p planner) make(set *rules.Set, most int, filter bool) plan {
	out := plan{wanted: map[string]bool{}}
	var every []rules.Selector
	var some []group
	for _, r := range set.Rules {
		froms := p.served(r)
		if r.Mode == rules.ModeOff || len(froms) == 0 {
			continue
		}
		for _, from := range froms {
			for _, m := range from.Matchers() {
				out.wanted[m.Name] = true
			}
		}
		for _, name := range r.CapturedNames {
			out.wanted[name] = true
		}
		t, ok := p.textsOf(r)
		if !ok {
			every = append(every, froms...)
			out.everyLine = append(out.everyLine, r.Alert)
			continue
		}
		some = append(some, group{froms, t})
	}
	if !filter && len(some)+len(every) > 0 {
		out.queries = []string{p.query(nil, "")}
		return out
	}
	if len(every) > 0 {
		out.queries = append(out.queries, p.query(every, ""))
	}
	if len(some) > 0 {
		for _, g := range p.split(some) {
			out.queries = append(out.queries, p.filtered(g.of, reduce(shorten(g.texts)), most)...)
		}
	}
	for _, q := range out.queries {
		if len(q) > most || len(out.queries) > maxQueries {
			out.queries, out.dropped = []string{p.query(nil, "")}, true
			break
		}
	}
	slices.Sort(out.everyLine)
	return out
}

// filtered returns the queries for the lines of these streams that contain one of the texts.
func (p planner) filtered(of []rules.Selector, texts []text, most int) []string {
	var out, filter []string
	size := 0
	flush := func() {
		if len(filter) > 0 {
			out = append(out, p.query(of, strings.Join(filter, "|")))
		}
		filter, size = nil, 0
	}
	room := most - len(p.query(of, "")) - len(` |~ ""`)
	for _, t := range texts {
		e := t.expr()
		n := len(t.quoted()) - 1 // plus a bar, minus the quotes
		if size+n > room {
			flush()
		}
		filter, size = append(filter, e), size+n
	}
	flush()
	return out
}

// query renders the query for the streams that one of the selectors selects; nil means any.
func (p planner) query(of []rules.Selector, filter string) string {
	var parts []string
	for _, m := range p.selector.Matchers() {
		parts = append(parts, m.String())
	}
	parts = append(parts, `service_name!=`+strconv.Quote(ownService))
	for _, c := range p.conditions(of) {
		parts = append(parts, c.name+"=~"+strconv.Quote(c.expr))
	}
	q := "{" + strings.Join(parts, ", ") + "}"
	if filter != "" {
		q += " |~ " + strconv.Quote(filter)
	}
	return q
}

// condition is what a label of streams must match.
type condition struct{ name, expr string }

// conditions returns what holds for all streams that one of the selectors can select. A
// stream without the label passes: structured metadata may provide it.
func (p planner) conditions(of []rules.Selector) []condition {
	exprs := map[string][]string{}
	count := map[string]int{}
	for _, from := range of {
		for name, expr := range wantedValues(from) {
			count[name]++
			if !slices.Contains(exprs[name], expr) {
				exprs[name] = append(exprs[name], expr)
			}
		}
	}
	var out []condition
	for _, name := range slices.Sorted(maps.Keys(exprs)) {
		at := p.naming.provider(name)
		expr := strings.Join(exprs[name], "|") + "|"
		if count[name] < len(of) || at == "" || len(expr) > maxSelected {
			continue
		}
		out = append(out, condition{at, expr})
	}
	return out
}

// wantedValues returns, for each label that a selector restricts, an expression of the
// allowed values.
func wantedValues(from rules.Selector) map[string]string {
	out := map[string]string{}
	for _, m := range from.Matchers() {
		switch {
		case out[m.Name] != "" || m.Value == "":
		case m.Op == selector.Equal:
			out[m.Name] = regexp.QuoteMeta(m.Value)
		case m.Op == selector.Regexp:
			out[m.Name] = "(?:" + m.Value + ")"
		}
	}
	return out
}

// text is a text that a line contains.
type text struct {
	text string
	fold bool // reports whether text is in lower case and matches ASCII letters in any case
}

// expr returns an expression for the text. The group around it keeps Loki's parser
// from factoring out common prefixes, so that Loki searches for each text separately
// and runs no regular expression.
func (t text) expr() string {
	if t.fold {
		return "((?i)" + regexp.QuoteMeta(t.text) + ")"
	}
	return "(" + regexp.QuoteMeta(t.text) + ")"
}

// quoted returns the expression as a string of LogQL.
func (t text) quoted() string { return strconv.Quote(t.expr()) }

// textsOf returns texts of which every line of this source that the rule can match contains
// one, or false if there are none.
func (p planner) textsOf(r *rules.Rule) (out []text, ok bool) {
	for _, part := range matcher.Texts(r) {
		if !p.serves(part.From) {
			continue
		}
		if part.EveryLine || len(part.Texts) == 0 {
			return nil, false
		}
		for i, s := range part.Texts {
			if s = readable(s); len(s) < minText {
				return nil, false
			}
			out = append(out, text{s, part.FoldCase[i]})
		}
		if part.Escaped {
			out = append(out, text{text: `\u00`}) // JSON may escape a letter
		}
	}
	// The matcher removes NUL bytes before it searches for texts.
	return append(out, text{text: "\x00"}), len(out) > 0
}

// readable returns the longest part without bytes that JSON cannot carry: Loki stores
// them, but its response contains a replacement.
func readable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError) {
		return s
	}
	best := ""
	for _, piece := range strings.FieldsFunc(s, func(r rune) bool { return r == utf8.RuneError }) {
		if len(piece) > len(best) {
			best = piece
		}
	}
	return best
}

// shorten replaces each long text by a part of it, the one that most other texts contain too,
// because the texts of all rules would be tens of kilobytes in each query. A part that is much
// shorter than maxText would select many more lines.
func shorten(texts []text) []text {
	count := map[text]int{}
	for _, t := range texts {
		for part := range t.parts() {
			count[part]++
		}
	}
	out := make([]text, 0, len(texts))
	for _, t := range texts {
		best := t
		for part := range t.parts() {
			if count[part] > count[best] || count[part] == count[best] && len(part.quoted()) < len(best.quoted()) {
				best = part
			}
		}
		out = append(out, best)
	}
	return out
}

// parts yields the parts of maxText bytes of a longer text in ASCII.
func (t text) parts() iter.Seq[text] {
	return func(yield func(text) bool) {
		if strings.ContainsFunc(t.text, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return
		}
		for i := 0; i+maxText <= len(t.text); i++ {
			if !yield(text{t.text[i : i+maxText], t.fold}) {
				return
			}
		}
	}
}

// reduce sorts the texts and omits those that contain another one.
func reduce(texts []text) []text {
	slices.SortFunc(texts, func(a, b text) int {
		return cmp.Or(cmp.Compare(len(a.text), len(b.text)), cmp.Compare(a.text, b.text), boolInt(b.fold)-boolInt(a.fold))
	})
	var out []text
	for _, t := range texts {
		if !slices.ContainsFunc(out, func(o text) bool { return o.covers(t) }) {
			out = append(out, t)
		}
	}
	return out
}

// covers reports whether every line that contains other also contains t.
func (t text) covers(other text) bool {
	switch {
	case t.fold:
		return strings.Contains(asciiLower(other.text), t.text)
	case other.fold:
		return false // other matches in any case
	}
	return strings.Contains(other.text, t.text)
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
