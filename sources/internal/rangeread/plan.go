package rangeread

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/literals"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// Limits of a query.
const (
	minQuery    = 1 << 10
	maxSelected = 4 << 10 // largest number of bytes of the conditions for one label
	minText     = 3       // smallest number of bytes of a text for which a filter is worthwhile
	maxText     = 17      // largest number of bytes of a text that is sent
)

// plan is a set of queries that return every line that the active rules can match. It is immutable.
type plan struct {
	queries   []string
	wanted    map[string]bool // names of labels that may come from structured metadata
	everyLine []string        // names of the rules that need every line of their streams
	// dropped is set if the queries have no filter, because the filter would be too long for the server.
	dropped bool
}

// planner creates plans. It is immutable.
type planner struct {
	dialect  *Dialect
	selector rules.Selector
	naming   labelNames
}

// serves reports whether a stream can satisfy the selector of a rule. Lines about the state of objects are assumed to
// be in no stream, unless the configuration mentions the label component, which such lines have.
func (p planner) serves(from rules.Selector) bool {
	if from.WantsStates() && !p.naming.mentionsLabel(p.selector, "component") {
		return false
	}
	return from.Matches(p.naming.commonLabels(p.selector), true)
}

func (p planner) servedSelectors(r *rules.Rule) (out []rules.Selector) {
	for from := range r.Selectors() {
		if p.serves(from) {
			out = append(out, from)
		}
	}
	return out
}

// makePlan creates the plan for a set of rules. A query has at most most bytes. Without a
// filter, the plan queries everything that the configured selector matches.
func (p planner) makePlan(set *rules.Set, most int, filter bool) plan {
	out := plan{wanted: map[string]bool{}}
	var every []rules.Selector
	var some []group
	for _, r := range set.Rules {
		froms := p.servedSelectors(r)
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
		t, ok := p.ruleTexts(r)
		if !ok {
			every = append(every, froms...)
			out.everyLine = append(out.everyLine, r.Alert)
			continue
		}
		some = append(some, group{froms, t})
	}
	if !filter && len(some)+len(every) > 0 {
		out.queries = []string{p.renderQuery(nil, "")}
		return out
	}
	if len(every) > 0 {
		out.queries = append(out.queries, p.renderQuery(every, ""))
	}
	if len(some) > 0 {
		for _, g := range p.divideGroups(some) {
			out.queries = append(out.queries, p.filterQueries(g.selectors, removeCovered(p.shortenTexts(g.texts)), most)...)
		}
	}
	for _, q := range out.queries {
		if len(q) > most || len(out.queries) > p.dialect.MaxQueries {
			out.queries, out.dropped = []string{p.renderQuery(nil, "")}, true
			break
		}
	}
	slices.Sort(out.everyLine)
	return out
}

// filterQueries returns queries for the lines that contain one of the texts, in streams that
// one of the selectors selects.
func (p planner) filterQueries(selectors []rules.Selector, texts []Text, most int) []string {
	d := p.dialect
	var out, filter []string
	size := 0
	flush := func() {
		if len(filter) > 0 {
			out = append(out, p.renderQuery(selectors, d.Open+strings.Join(filter, d.Or)+d.Close))
		}
		filter, size = nil, 0
	}
	room := most - len(p.renderQuery(selectors, d.Open+d.Close))
	for _, t := range texts {
		e := d.Text(t)
		n := len(e) + len(d.Or)
		if size+n > room {
			flush()
		}
		filter, size = append(filter, e), size+n
	}
	flush()
	return out
}

// renderQuery renders the query for streams that one of the selectors selects. If selectors is
// nil, the query is for all streams.
func (p planner) renderQuery(selectors []rules.Selector, filter string) string {
	var parts []string
	for _, m := range p.selector.Matchers() {
		parts = append(parts, m.String())
	}
	parts = append(parts, `service_name!=`+strconv.Quote(ownService))
	for _, c := range p.commonConditions(selectors) {
		parts = append(parts, c.name+"=~"+strconv.Quote(c.expr))
	}
	return "{" + strings.Join(parts, ", ") + "}" + filter
}

// condition is a regular expression that the value of a stream's label must match.
type condition struct{ name, expr string }

// commonConditions returns conditions of every stream that a selector can select. A stream without the label also
// satisfies a condition, because structured metadata may provide it.
func (p planner) commonConditions(selectors []rules.Selector) []condition {
	exprs := map[string][]string{}
	count := map[string]int{}
	for _, from := range selectors {
		for name, expr := range wantedValues(from) {
			count[name]++
			if !slices.Contains(exprs[name], expr) {
				exprs[name] = append(exprs[name], expr)
			}
		}
	}
	var out []condition
	for _, name := range slices.Sorted(maps.Keys(exprs)) {
		at := p.naming.storedName(name)
		expr := strings.Join(exprs[name], "|") + "|"
		if count[name] < len(selectors) || at == "" || len(expr) > maxSelected {
			continue
		}
		out = append(out, condition{at, expr})
	}
	return out
}

// wantedValues returns, for each label that the selector restricts, a regular expression of the allowed values.
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

// Text is a text that lines must contain. Fold means that the case of letters does not matter.
type Text = literals.Text

// ruleTexts returns a list of texts for a rule. Every line of this source that the rule can match contains at least one
// text of the list. ok is false if there is no such list.
func (p planner) ruleTexts(r *rules.Rule) (out []Text, ok bool) {
	for _, part := range matcher.Texts(r) {
		if !p.serves(part.From) {
			continue
		}
		if part.EveryLine || len(part.Texts) == 0 {
			return nil, false
		}
		for _, t := range part.Texts {
			if t.Text = longestReadable(t.Text); len(t.Text) < minText {
				return nil, false
			}
			out = append(out, t)
		}
		if part.Escaped {
			out = append(out, Text{Text: `\u00`}) // JSON may contain a letter as an escape that begins with \u00
		}
	}
	// The matcher removes NUL bytes before it searches for texts, so lines with NUL bytes must be requested too.
	return append(out, Text{Text: "\x00"}), len(out) > 0
}

// longestReadable returns the longest part of s without bytes that the server replaces in its JSON response.
func longestReadable(s string) string {
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

// shortenTexts replaces each long text by one of its parts, namely the part that most other texts contain too.
// Unshortened, the texts of all rules would add tens of kilobytes to each query. The parts have maxText bytes, because
// much shorter parts would select many more lines.
func (p planner) shortenTexts(texts []Text) []Text {
	count := map[Text]int{}
	for _, t := range texts {
		for _, part := range textParts(t) {
			count[part]++
		}
	}
	out := make([]Text, 0, len(texts))
	for _, t := range texts {
		best := t
		for _, part := range textParts(t) {
			if count[part] > count[best] || count[part] == count[best] && len(p.dialect.Text(part)) < len(p.dialect.Text(best)) {
				best = part
			}
		}
		out = append(out, best)
	}
	return out
}

// textParts returns the parts of a long ASCII text that are maxText bytes long.
func textParts(t Text) (out []Text) {
	if strings.ContainsFunc(t.Text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return nil
	}
	for i := 0; i+maxText <= len(t.Text); i++ {
		out = append(out, Text{Text: t.Text[i : i+maxText], Fold: t.Fold})
	}
	return out
}

// removeCovered sorts the texts and omits those that contain another text.
func removeCovered(texts []Text) []Text {
	slices.SortStableFunc(texts, func(a, b Text) int { return cmp.Or(cmp.Compare(len(a.Text), len(b.Text)), cmp.Compare(a.Text, b.Text)) })
	return literals.DropContained(texts)
}

const (
	// manyTexts is the number of texts from which on one query is more expensive for the server than two queries with
	// fewer texts. Loki for example searches each line for one text after the other, which takes about 50 ns per text.
	manyTexts = 400
	maxGroups = 5 // largest number of queries into which the texts are divided
)

// group is the content of one query. The query requests the lines that contain one of the
// texts, in streams that one of the selectors selects.
type group struct {
	selectors []rules.Selector
	texts     []Text
}

func (g *group) add(other group) {
	g.selectors, g.texts = append(g.selectors, other.selectors...), append(g.texts, other.texts...)
}

// divideGroups divides the lines that rules need among as few queries as possible. wanted has one group for each rule.
// If there are many texts, some rules get their own queries, namely those that state a value of the most common label.
// The server then searches other streams only for the few texts of the other rules.
func (p planner) divideGroups(wanted []group) []group {
	var all, rest group
	for _, g := range wanted {
		all.add(g)
	}
	name := p.commonLabel(wanted)
	if len(all.texts) <= manyTexts || name == "" {
		return []group{all}
	}
	var out []group
	var last group
	for _, g := range wanted {
		if !wantsLabel(g, name) {
			rest.add(g)
			continue
		}
		next := group{slices.Concat(last.selectors, g.selectors), slices.Concat(last.texts, g.texts)}
		full := len(next.texts) > max(manyTexts, len(all.texts)/(maxGroups-1))
		if len(last.selectors) > 0 && (full || len(p.commonConditions(next.selectors)) == 0) {
			out, last = append(out, last), g
			continue
		}
		last = next
	}
	out = append(out, last)
	if len(rest.selectors) > 0 {
		out = append(out, rest)
	}
	if len(out) > maxGroups {
		return []group{all}
	}
	return out
}

// commonLabel returns the label of streams for which most rules require a value, or "" if there is none.
func (p planner) commonLabel(wanted []group) string {
	count := map[string]int{}
	for _, g := range wanted {
		for name := range wantedValues(g.selectors[0]) {
			if p.naming.storedName(name) != "" && wantsLabel(g, name) {
				count[name]++
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[name] > count[best] {
			best = name
		}
	}
	return best
}

// wantsLabel reports whether every selector of a group requires specific values of a label.
func wantsLabel(g group, name string) bool {
	for _, from := range g.selectors {
		want := wantedValues(from)[name]
		if any, err := regexp.MatchString("^(?:"+want+")$", absentValue); want == "" || any || err != nil {
			return false
		}
	}
	return true
}

// absentValue is a value that no label has.
const absentValue = "\x01"
