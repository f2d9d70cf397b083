package matcher

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// Explanation states, part by part, why a line matches a rule or not.
type Explanation struct {
	Rule     string `json:"rule"`
	Envelope string `json:"envelope,omitempty"` // kind of the envelope, "cri" or "docker"; empty if there is none
	Text     string `json:"text"`               // text that is matched, without its envelope and truncated at MaxLine
	// Selected reports whether the `from` of at least one part may select the stream. Labels has the result of each
	// condition of the rule's `from`. All parts are explained, even if their `from` does not select the stream.
	Selected bool               `json:"selected"`
	Labels   []LabelExplanation `json:"labels"`
	Parts    []PartExplanation  `json:"parts"` // parts of the rule in the order clear, unless, steps
	Fields   []NamedValue       `json:"fields"`
}

// Matches reports whether the line is a hit of any part.
func (e Explanation) Matches() bool {
	return slices.ContainsFunc(e.Parts, PartExplanation.Matches)
}

// LabelExplanation is the result of one condition of `from`. A condition on a label that is not stated counts as
// satisfied.
type LabelExplanation struct {
	Condition string `json:"condition"` // condition as the rule states it
	Value     string `json:"value"`
	Stated    bool   `json:"stated"`
	IsMet     bool   `json:"held"`
}

// PartExplanation is the result of one matcher of the rule.
type PartExplanation struct {
	Part Part   `json:"-"`
	Name string `json:"part"`
	// Selected reports whether the part may read the stream. Labels has the result of each condition of the part's own
	// `from`. It is empty if the part has none.
	Selected   bool               `json:"selected"`
	Labels     []LabelExplanation `json:"labels,omitempty"`
	IsMet      bool               `json:"held"`
	Conditions []Condition        `json:"conditions"`
	// Values are the values that a hit of the part would have.
	Values []NamedValue `json:"values,omitempty"`
}

// Matches reports whether the line is a hit of the part.
func (p PartExplanation) Matches() bool { return p.Selected && p.IsMet }

// Condition is the result of one requirement of a matcher.
type Condition struct {
	Kind     string       `json:"kind"` // contains, regex, field, any, branch or not
	Want     string       `json:"want,omitempty"`
	Got      string       `json:"got,omitempty"` // text that matched, or the value of the field
	IsMet    bool         `json:"held"`
	Captures []NamedValue `json:"captures,omitempty"`
	Hint     string       `json:"hint,omitempty"` // reason why the condition does not hold although it nearly does
	// Conditions are the requirements inside any, branch or not.
	Conditions []Condition `json:"conditions,omitempty"`
}

// NamedValue is a value with its origin, which is "capture", "label" or "field".
type NamedValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"from,omitempty"`
}

// Explain reports why a physical line of a stream matches a rule or not. It recognizes an
// envelope around the line. Labels that are not stated satisfy every condition, because a user
// who pastes a line may not know its namespace. The result owns its memory.
func Explain(r *rules.Rule, labels Labels, line []byte) Explanation {
	x := explainer{rule: r, labels: NewStream(labels, StreamOptions{}).Labels()}
	out := Explanation{Rule: r.Alert, Selected: r.Applies(x.labels, true), Labels: x.explainSelector(r.From)}
	line = bytes.ReplaceAll(bytes.TrimSuffix(line, []byte("\n")), []byte{0}, nil)
	e, envelope := readEnvelope(line)
	out.Envelope = envelope
	text := trimCR(e.Text)
	x.line = text[:min(len(text), MaxLine)]
	out.Text = string(x.line)
	x.fields.Reset(x.line)
	x.quotes.Reset(x.line)
	for role, m := range ruleMatchers(r) {
		out.Parts = append(out.Parts, x.explainPart(role, m))
	}
	out.Fields = allFields(&x.fields)
	return out
}

type explainer struct {
	rule   *rules.Rule
	labels Labels
	line   []byte
	fields lines.Fields
	quotes lines.Quotes
}

func (x *explainer) explainSelector(from rules.Selector) []LabelExplanation {
	var out []LabelExplanation
	for _, m := range from.Matchers() {
		v, stated := x.labels[m.Name]
		out = append(out, LabelExplanation{Condition: m.String(), Value: v, Stated: stated, IsMet: !stated || m.Matches(v)})
	}
	return out
}

func (x *explainer) explainPart(role Part, m *rules.Matcher) PartExplanation {
	from := role.SelectorOf(x.rule)
	p := PartExplanation{Part: role, Name: role.Name(x.rule), Selected: from.Matches(x.labels, true)}
	if !from.Equal(x.rule.From) {
		p.Labels = x.explainSelector(from)
	}
	captures := map[string]string{}
	if p.Conditions, p.IsMet = x.explainConditions(m, role.defaultIn(), false, false, captures); !p.IsMet {
		return p
	}
	for _, name := range x.rule.CapturedNames {
		v := NamedValue{Name: name, Value: captures[name], Source: "capture"}
		if v.Value == "" {
			v.Value, v.Source = x.labels[name], "label"
		}
		if v.Value == "" {
			v.Value, v.Source = string(streamField(&x.fields, from, name, true)), "field"
		}
		if v.Value == "" {
			v.Source = ""
		}
		p.Values = append(p.Values, v)
	}
	return p
}

// explainConditions explains a matcher. It adds captured values to captures, except for names that already have a
// value. in and beside are the arguments of condCompiler.compile, and said is the argument of cond.holdsBeside.
func (x *explainer) explainConditions(m *rules.Matcher, in rules.In, said, beside bool, captures map[string]string) (out []Condition, held bool) {
	in = m.In.Within(in)
	voices := placeVoices(in)
	whole := voices == everyVoice || voices&lines.Message != 0 && len(x.quotes.Spans()) == 0
	said = said || whole || statesFields(m, beside)
	for _, text := range m.Contains {
		c, here := x.explainContains(text, voices)
		out, said = append(out, c), said || here
	}
	if m.Regex != nil {
		c, here := x.explainRegex(m.Regex, voices, whole, said || len(m.Any) > 0)
		out, said = append(out, c), said || here
	}
	for _, f := range m.Fields {
		c := x.explainField(f)
		if _, said := x.fields.LookupSaid(f.Name, &x.quotes); c.IsMet && voices != everyVoice && !said {
			c.IsMet, c.Hint = false, "it occurs only in quoted text of another program"
		}
		out = append(out, c)
	}
	held = true
	for _, c := range out {
		held = held && c.IsMet
		for _, v := range c.Captures {
			addCapture(captures, v.Name, v.Value)
		}
	}
	if len(m.Any) > 0 {
		c := x.explainAny(m.Any, in, said, beside || hasTexts(m), captures)
		out, held = append(out, c), held && c.IsMet
	} else if held && !said {
		held = false
		for i := range out {
			out[i].IsMet, out[i].Hint = false, cmp.Or(out[i].Hint, "it is only a name in quoted text of another program")
		}
	}
	if m.Not != nil {
		inner, found := x.explainConditions(m.Not, rules.InAnywhere, false, false, map[string]string{})
		out = append(out, Condition{Kind: "not", IsMet: !found, Conditions: inner})
		held = held && !found
	}
	return out, held
}

func addCapture(captures map[string]string, name, value string) {
	if captures[name] == "" {
		captures[name] = value
	}
}

func (x *explainer) explainContains(text string, voices lines.Voice) (c Condition, said bool) {
	c = Condition{Kind: "contains", Want: text}
	needle := literals.NewNeedle(literals.Text{Text: text})
	c.IsMet, said = findText(&needle, x.line, needle.Index(x.line), &x.quotes, voices)
	if k := needle.Index(x.line); !said && k >= 0 {
		c.Hint = x.describePlace(k, k+len(text))
	}
	if k := strings.Index(strings.ToLower(string(x.line)), strings.ToLower(text)); !c.IsMet && c.Hint == "" && k >= 0 {
		c.Hint = "the line has it, but upper and lower case differ"
	}
	if quoted := strings.ReplaceAll(text, `"`, `\"`); !c.IsMet && c.Hint == "" && quoted != text && bytes.Contains(x.line, []byte(quoted)) {
		c.Hint = `the line has it with its quotes escaped: \"`
	}
	return c, said
}

// describePlace explains why the text start:end does not count at its position.
func (x *explainer) describePlace(start, end int) string {
	for _, s := range x.quotes.Spans() {
		if s.From >= end || s.To <= start {
			continue
		}
		switch {
		case s.Voice == lines.Error:
			return fmt.Sprintf("the text is only in the error (field `%s`)", s.Field)
		case len(s.Field) == 0:
			return "it is only in a quotation in the message"
		case lines.VoiceOf(s.Field) == lines.Quotation:
			return fmt.Sprintf("it is only in the value of `%s`", s.Field)
		}
		return fmt.Sprintf("it is only in a quotation in `%s`", s.Field)
	}
	return "it is only in the message"
}

func (x *explainer) explainRegex(re *literals.Expression, voices lines.Voice, whole, said bool) (Condition, bool) {
	c := Condition{Kind: "regex", Want: re.String()}
	if whole {
		c.searchRegex(re.Regexp(), x.line)
		said = c.IsMet
	} else {
		m := findExpression(re, x.line, &x.quotes, voices, said)
		if texts := soughtTexts(re); texts != nil { // an expression that only searches for these texts
			found, here := findAny(texts, x.line, &x.quotes, voices, said)
			if m.said = here; found && m.loc == nil {
				m.loc = re.Regexp().FindIndex(x.line)
			} else if !found && m.loc != nil {
				m.loc, m.unsaid = nil, m.loc[:2]
			}
		}
		if said = m.said; m.loc != nil {
			c.noteMatch(re.SubexpNames(), x.line, m.loc)
		} else if m.unsaid != nil {
			c.Hint = fmt.Sprintf("of %q: %s", x.line[m.unsaid[0]:m.unsaid[1]], x.describePlace(m.unsaid[0], m.unsaid[1]))
		}
	}
	if !c.IsMet && c.Hint == "" {
		if any, err := regexp.Compile("(?i)" + re.String()); err == nil && any.Match(x.line) {
			c.Hint = "it matches if upper and lower case are ignored"
		}
	}
	return c, said
}

func (c *Condition) searchRegex(re *regexp.Regexp, in []byte) {
	if loc := re.FindSubmatchIndex(in); loc != nil {
		c.noteMatch(re.SubexpNames(), in, loc)
	}
}

func (c *Condition) noteMatch(names []string, in []byte, loc []int) {
	c.IsMet = true
	if c.Got == "" {
		c.Got = string(in[loc[0]:loc[1]])
	}
	for i, name := range names {
		if name != "" && loc[2*i] < loc[2*i+1] {
			c.Captures = append(c.Captures, NamedValue{Name: name, Value: string(in[loc[2*i]:loc[2*i+1]]), Source: "capture"})
		}
	}
}

func (x *explainer) explainField(f rules.Field) Condition {
	c := Condition{Kind: "field", Want: f.Name + "=" + f.Value}
	if f.Regex != nil {
		c.Want = f.Name + "=~" + f.Regex.String()
	}
	v, ok := x.fields.Lookup(f.Name)
	if !ok {
		c.Hint = "the line does not have the field"
		for have := range x.fields.All() {
			if strings.EqualFold(have, f.Name) {
				c.Hint += "; it has " + have
			}
		}
		return c
	}
	c.Got = string(v)
	if f.Regex == nil {
		c.IsMet = c.Got == f.Value
	} else {
		c.searchRegex(f.Regex.Regexp(), v)
	}
	return c
}

// explainAny explains every branch, and uses the captures of the first branch that holds.
func (x *explainer) explainAny(branches []rules.Matcher, in rules.In, said, beside bool, captures map[string]string) Condition {
	c := Condition{Kind: "any"}
	for i := range branches {
		own := map[string]string{}
		inner, held := x.explainConditions(&branches[i], in, said, beside, own)
		held = held && (said || !isUnsure(placeVoices(branches[i].In.Within(in)), placeVoices(in), beside))
		c.Conditions = append(c.Conditions, Condition{Kind: "branch", IsMet: held, Conditions: inner})
		if held && !c.IsMet {
			c.IsMet = true
			for name, value := range own {
				addCapture(captures, name, value)
			}
		}
	}
	return c
}

// String renders the explanation for a terminal, one item per line:
//
//	CAPIConditionAggregationFailing: the line matches
//	  from
//	    ok  container="manager"
//	  match: holds
//	    ok  contains "Failed to aggregate"
//	    no  field Cluster="default/c1" (it is "default/c2")
//	  values
//	    capi_cluster = "default/c2" (capture)
func (e Explanation) String() string {
	t := &explanationText{}
	verdict := "the line does not match"
	switch {
	case e.Matches():
		verdict = "the line matches"
	case !e.Selected:
		verdict = "the rule does not read this stream"
	}
	t.writeLine(0, "%s: %s", e.Rule, verdict)
	if e.Envelope != "" {
		t.writeLine(1, "text behind the %s envelope: %q", e.Envelope, e.Text)
	}
	t.writeSelector(1, e.Labels)
	for _, p := range e.Parts {
		t.writePart(p)
	}
	t.writeLine(1, "fields of the line")
	t.writeValues(e.Fields, false)
	return t.b.String()
}

type explanationText struct{ b strings.Builder }

func (t *explanationText) writeLine(depth int, format string, args ...any) {
	t.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

func (t *explanationText) writeMark(depth int, held bool, text string) {
	mark := "no"
	if held {
		mark = "ok"
	}
	t.writeLine(depth, "%s  %s", mark, text)
}

func (t *explanationText) writeSelector(depth int, all []LabelExplanation) {
	t.writeLine(depth, "from")
	for _, l := range all {
		note := ""
		if !l.Stated {
			note = " (the label is not stated, which satisfies it)"
		} else if !l.IsMet {
			note = fmt.Sprintf(" (it is %q)", l.Value)
		}
		t.writeMark(depth+1, l.IsMet, l.Condition+note)
	}
}

func (t *explanationText) writePart(p PartExplanation) {
	verdict := "does not hold"
	if p.IsMet {
		verdict = "holds"
	}
	if p.Labels != nil && !p.Selected {
		verdict += ", and does not read this stream"
	}
	t.writeLine(1, "%s: %s", p.Name, verdict)
	if p.Labels != nil {
		t.writeSelector(2, p.Labels)
	}
	t.writeConditions(2, p.Conditions)
	if len(p.Values) > 0 {
		t.writeLine(1, "values of %s", p.Name)
		t.writeValues(p.Values, true)
	}
}

func (t *explanationText) writeConditions(depth int, all []Condition) {
	for _, c := range all {
		text := c.Kind
		if c.Kind == "contains" {
			text += fmt.Sprintf(" %q", c.Want)
		} else if c.Want != "" {
			text += " " + c.Want
		}
		var notes []string
		if c.Kind == "field" && c.Got != "" && !c.IsMet {
			notes = append(notes, fmt.Sprintf("it is %q", c.Got))
		}
		if c.Hint != "" {
			notes = append(notes, c.Hint)
		}
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		t.writeMark(depth, c.IsMet, text)
		t.writeConditions(depth+1, c.Conditions)
	}
}

func (t *explanationText) writeValues(all []NamedValue, origin bool) {
	if len(all) == 0 {
		t.writeLine(2, "none")
	}
	for _, v := range all {
		switch {
		case !origin:
			t.writeLine(2, "%s = %q", v.Name, v.Value)
		case v.Source == "":
			t.writeLine(2, "%s has no value", v.Name)
		default:
			t.writeLine(2, "%s = %q (%s)", v.Name, v.Value, v.Source)
		}
	}
}
