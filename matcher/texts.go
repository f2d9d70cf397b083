package matcher

import (
	"bytes"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
	"crowsnest/rules"
)

// TextInfo is how the prefilter finds the lines of one part of a rule.
type TextInfo struct {
	Part Part
	// Texts are the required literals: every line that the part matches contains one.
	// The prefilter searches for all of them at once, at hardly any cost. FoldCase
	// reports for each whether case is ignored.
	Texts    []string
	FoldCase []bool
	// Escaped is set if the texts belong to fields. A line may then hide letters of
	// theirs: it is an object of JSON that contains `\u00`, and none of the texts.
	Escaped bool
	// EveryLine is set if there is no text to look for: the part is tried on
	// every line of its streams.
	EveryLine bool
}

// Texts returns how the lines of a rule are found, part by part in the order of
// their hits. A part with short texts, or none, makes reading slower.
func Texts(r *rules.Rule) []TextInfo {
	parts, err := compileRule(r, ordinary())
	if err != nil {
		return nil // it has no matchers
	}
	var out []TextInfo
	for _, p := range parts {
		info := TextInfo{Part: p.role, EveryLine: p.texts.everyLine, Escaped: p.texts.ofFields}
		for _, t := range p.texts.texts {
			info.Texts = append(info.Texts, t.Text)
			info.FoldCase = append(info.FoldCase, t.Fold)
		}
		out = append(out, info)
	}
	return out
}

// choice is how lines for a matcher are found.
type choice struct {
	texts     []literals.Text
	cost      float64
	ofFields  bool // letters of a field's name or value, which JSON can escape
	everyLine bool // there is no text to look for
}

// choose returns the texts that occur least in the sample.
func (s *sample) choose(c *cond) choice {
	out, ok := s.best(c)
	for _, t := range out.texts {
		ok = ok && len(t.Text) >= prefilter.MinText
	}
	if !ok {
		return choice{everyLine: true}
	}
	return out
}

// best returns the texts of the cheapest thing that the condition demands. ok is
// false if it demands none.
func (s *sample) best(c *cond) (out choice, ok bool) {
	offer := func(c *literals.Cond, ofFields bool) {
		texts, cost := c.Choose(s.cost)
		if len(texts) > 0 && (!ok || cost < out.cost) {
			out, ok = choice{texts: texts, cost: cost, ofFields: ofFields}, true
		}
	}
	for _, text := range c.contains {
		offer(literals.OfText(string(text)), false)
	}
	offer(c.need, false)
	for _, f := range c.fields {
		if f.name != string(msgKey) { // the message of klog has no name
			offer(literals.OfText(f.name).Pieces(func(c byte) bool { return safeByte(c) && c != '.' }), true)
		}
		if f.regex == nil {
			offer(literals.OfText(f.value).Pieces(safeByte), true)
		} else {
			need, _ := literals.Of(f.regex.String()) // one that cannot be derived demands nothing
			offer(need.Pieces(safeByte), true)
		}
	}
	if len(c.any) > 0 {
		if texts, all := s.bestOfAny(c.any); all && (!ok || texts.cost < out.cost) {
			out, ok = texts, true
		}
	}
	return out, ok
}

func (s *sample) bestOfAny(branches []*cond) (out choice, ok bool) {
	for _, b := range branches {
		c, ok := s.best(b)
		if !ok {
			return out, false
		}
		out.texts = append(out.texts, c.texts...)
		out.cost += c.cost
		out.ofFields = out.ofFields || c.ofFields
	}
	return out, true
}

// hasLetterEscape reports whether a line is a JSON object that may write ASCII letters
// as \u0041.
func hasLetterEscape(line []byte) bool {
	return firstByte(line) == '{' && bytes.Contains(line, []byte(`\u00`))
}
