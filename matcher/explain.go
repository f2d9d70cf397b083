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
	Envelope string `json:"envelope,omitempty"` // "cri", "docker" or none
	Text     string `json:"text"`               // what conditions look at: without envelope, truncated at MaxLine
	// Selected reports whether the `from` of a part may select the stream; Labels has the
	// result of each condition of the rule's. Parts are explained in any case.
	Selected bool               `json:"selected"`
	Labels   []LabelExplanation `json:"labels"`
	Parts    []PartExplanation  `json:"parts"` // clear, unless, steps
	Fields   []NamedValue       `json:"fields"`
}

// Matches reports whether the line is a hit of any part.
func (e Explanation) Matches() bool {
	return slices.ContainsFunc(e.Parts, PartExplanation.Matches)
}

// LabelExplanation is one condition of `from`. A label that is not stated satisfies it.
type LabelExplanation struct {
	Condition string `json:"condition"` // as it is written
	Value     string `json:"value"`
	Stated    bool   `json:"stated"`
	Held      bool   `json:"held"`
}

// PartExplanation is one matcher of the rule.
type PartExplanation struct {
	Part Part   `json:"-"`
	Name string `json:"part"`
	// Selected reports whether the part may read the stream. Labels has the result of each
	// condition of its `from`, if that is not the rule's.
	Selected   bool               `json:"selected"`
	Labels     []LabelExplanation `json:"labels,omitempty"`
	Held       bool               `json:"held"`
	Conditions []Condition        `json:"conditions"`
	// Values are what a hit would carry. Only of a part that holds.
	Values []NamedValue `json:"values,omitempty"`
}

// Matches reports whether the line is a hit of the part.
func (p PartExplanation) Matches() bool { return p.Selected && p.Held }

// Condition is one thing that a matcher demands.
type Condition struct {
	Kind     string       `json:"kind"` // contains, regex, field, any, branch, not
	Want     string       `json:"want,omitempty"`
	Got      string       `json:"got,omitempty"` // what was found: the match, or the field's value
	Held     bool         `json:"held"`
	Captures []NamedValue `json:"captures,omitempty"`
	Hint     string       `json:"hint,omitempty"` // why it nearly holds
	// Conditions are those inside of any, branch and not.
	Conditions []Condition `json:"conditions,omitempty"`
}

// NamedValue is a value that was found, and where: "capture", "label" or "field".
type NamedValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from,omitempty"`
}

// Explain reports why a physical line of a stream matches a rule, or not. It recognises
// an envelope around the line. Labels that are not stated satisfy every condition: the
// user who pastes a line may not know its namespace. The result owns its memory.
func Explain(r *rules.Rule, labels Labels, line []byte) Explanation {
	x := explainer{rule: r, labels: NewStream(labels, StreamOptions{}).Labels()}
	out := Explanation{Rule: r.Alert, Selected: r.Applies(x.labels, true), Labels: x.selector(r.From)}
	line = bytes.ReplaceAll(bytes.TrimSuffix(line, []byte("\n")), []byte{0}, nil)
	e, envelope := enveloped(line)
	out.Envelope = envelope
	text := trimCR(e.Text)
	x.line = text[:min(len(text), MaxLine)]
	out.Text = string(x.line)
	x.fields.Reset(x.line)
	x.quotes.Reset(x.line)
	for role, m := range matchersOf(r) {
		out.Parts = append(out.Parts, x.part(role, m))
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

// selector explains the conditions of a selector.
func (x *explainer) selector(from rules.Selector) []LabelExplanation {
	var out []LabelExplanation
	for _, m := range from.Matchers() {
		v, stated := x.labels[m.Name]
		out = append(out, LabelExplanation{Condition: m.String(), Value: v, Stated: stated, Held: !stated || m.Matches(v)})
	}
	return out
}

func (x *explainer) part(role Part, m *rules.Matcher) PartExplanation {
	from := role.From(x.rule)
	p := PartExplanation{Part: role, Name: role.Name(x.rule), Selected: from.Matches(x.labels, true)}
	if !from.Equal(x.rule.From) {
		p.Labels = x.selector(from)
	}
	captures := map[string]string{}
	if p.Conditions, p.Held = x.matcher(m, role.defaultIn(), captures); !p.Held {
		return p
	}
	for _, name := range x.rule.CapturedNames {
		v := NamedValue{Name: name, Value: captures[name], From: "capture"}
		if v.Value == "" {
			v.Value, v.From = x.labels[name], "label"
		}
		if v.Value == "" {
			v.Value, v.From = string(fieldOf(&x.fields, from, name, true)), "field"
		}
		if v.Value == "" {
			v.From = ""
		}
		p.Values = append(p.Values, v)
	}
	return p
}

// matcher explains a matcher that stands alone. in is the default of its place.
func (x *explainer) matcher(m *rules.Matcher, in rules.In, captures map[string]string) ([]Condition, bool) {
	return x.conditions(m, in, false, false, captures)
}

// conditions explains a matcher. It adds the captured values to captures, except for
// names that already have one. in is the place of the matcher around it, said is as in
// cond.holdsBeside, beside as in condCompiler.compile.
func (x *explainer) conditions(m *rules.Matcher, in rules.In, said, beside bool, captures map[string]string) (out []Condition, held bool) {
	in = m.In.Within(in)
	voices := voicesOf(in)
	whole := voices == everyVoice || voices&lines.Message != 0 && len(x.quotes.Spans()) == 0
	said = said || whole || states(m, beside)
	for _, text := range m.Contains {
		c, here := x.contains(text, voices)
		out, said = append(out, c), said || here
	}
	if m.Regex != nil {
		c, here := x.regex(m.Regex, voices, whole, said || len(m.Any) > 0)
		out, said = append(out, c), said || here
	}
	for _, f := range m.Fields {
		c := x.field(f)
		if _, said := x.fields.LookupSaid(f.Name, &x.quotes); c.Held && voices != everyVoice && !said {
			c.Held, c.Hint = false, "it is only in the words of others"
		}
		out = append(out, c)
	}
	held = true
	for _, c := range out {
		held = held && c.Held
		for _, v := range c.Captures {
			add(captures, v.Name, v.Value)
		}
	}
	if len(m.Any) > 0 {
		c := x.any(m.Any, in, said, beside || hasTexts(m), captures)
		out, held = append(out, c), held && c.Held
	} else if held && !said {
		held = false
		for i := range out {
			out[i].Held, out[i].Hint = false, cmp.Or(out[i].Hint, "only a name in the words of others")
		}
	}
	if m.Not != nil {
		inner, found := x.matcher(m.Not, rules.InAnywhere, map[string]string{})
		out = append(out, Condition{Kind: "not", Held: !found, Conditions: inner})
		held = held && !found
	}
	return out, held
}

func add(captures map[string]string, name, value string) {
	if captures[name] == "" {
		captures[name] = value
	}
}

func (x *explainer) contains(text string, voices lines.Voice) (c Condition, said bool) {
	c = Condition{Kind: "contains", Want: text}
	needle := literals.NewNeedle(literals.Text{Text: text})
	c.Held, said = findText(&needle, x.line, needle.Index(x.line), &x.quotes, voices)
	if k := needle.Index(x.line); !said && k >= 0 {
		c.Hint = x.place(k, k+len(text))
	}
	if k := strings.Index(strings.ToLower(string(x.line)), strings.ToLower(text)); !c.Held && c.Hint == "" && k >= 0 {
		c.Hint = "the line has it in another case"
	}
	if quoted := strings.ReplaceAll(text, `"`, `\"`); !c.Held && c.Hint == "" && quoted != text && bytes.Contains(x.line, []byte(quoted)) {
		c.Hint = `the line has it with its quotes escaped: \"`
	}
	return c, said
}

// place says where a text is that does not count.
func (x *explainer) place(from, to int) string {
	for _, s := range x.quotes.Spans() {
		if s.From >= to || s.To <= from {
			continue
		}
		switch {
		case s.Voice == lines.Error:
			return fmt.Sprintf("it is only in the error, the field `%s`", s.Field)
		case len(s.Field) == 0:
			return "it is only in a quotation in the message"
		case lines.VoiceOf(s.Field) == lines.Quotation:
			return fmt.Sprintf("it is only in the value of `%s`", s.Field)
		}
		return fmt.Sprintf("it is only in a quotation in `%s`", s.Field)
	}
	return "it is only in the message"
}

func (x *explainer) regex(re *literals.Expression, voices lines.Voice, whole, said bool) (Condition, bool) {
	c := Condition{Kind: "regex", Want: re.String()}
	if whole {
		c.search(re.Regexp(), x.line)
		said = c.Held
	} else {
		m := findExpression(re, x.line, &x.quotes, voices, said)
		if texts := textsOf(re); texts != nil { // the matcher looks for these alone
			found, here := findAny(texts, x.line, &x.quotes, voices, said)
			if m.said = here; found && m.loc == nil {
				m.loc = re.Regexp().FindIndex(x.line)
			} else if !found && m.loc != nil {
				m.loc, m.unsaid = nil, m.loc[:2]
			}
		}
		if said = m.said; m.loc != nil {
			c.found(re.SubexpNames(), x.line, m.loc)
		} else if m.unsaid != nil {
			c.Hint = fmt.Sprintf("of %q: %s", x.line[m.unsaid[0]:m.unsaid[1]], x.place(m.unsaid[0], m.unsaid[1]))
		}
	}
	if !c.Held && c.Hint == "" {
		if any, err := regexp.Compile("(?i)" + re.String()); err == nil && any.Match(x.line) {
			c.Hint = "it matches in another case"
		}
	}
	return c, said
}

func (c *Condition) search(re *regexp.Regexp, in []byte) {
	if loc := re.FindSubmatchIndex(in); loc != nil {
		c.found(re.SubexpNames(), in, loc)
	}
}

// found notes a match, by the places of its groups.
func (c *Condition) found(names []string, in []byte, loc []int) {
	c.Held = true
	if c.Got == "" {
		c.Got = string(in[loc[0]:loc[1]])
	}
	for i, name := range names {
		if name != "" && loc[2*i] < loc[2*i+1] {
			c.Captures = append(c.Captures, NamedValue{Name: name, Value: string(in[loc[2*i]:loc[2*i+1]]), From: "capture"})
		}
	}
}

func (x *explainer) field(f rules.Field) Condition {
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
		c.Held = c.Got == f.Value
	} else {
		c.search(f.Regex.Regexp(), v)
	}
	return c
}

// any explains every branch, and takes the captures of the first that holds.
func (x *explainer) any(branches []rules.Matcher, in rules.In, said, beside bool, captures map[string]string) Condition {
	c := Condition{Kind: "any"}
	for i := range branches {
		own := map[string]string{}
		inner, held := x.conditions(&branches[i], in, said, beside, own)
		held = held && (said || !unsure(voicesOf(branches[i].In.Within(in)), voicesOf(in), beside))
		c.Conditions = append(c.Conditions, Condition{Kind: "branch", Held: held, Conditions: inner})
		if held && !c.Held {
			c.Held = true
			for name, value := range own {
				add(captures, name, value)
			}
		}
	}
	return c
}
