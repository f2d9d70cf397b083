package matcher

import (
	"slices"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
	"crowsnest/rules"
)

// TextInfo describes how the prefilter finds the lines of one part of a rule.
type TextInfo struct {
	Part Part
	// From selects the streams of the part.
	From rules.Selector
	// Texts are the required literals. Every line that the part matches contains one of them.
	// The prefilter searches for all of them at once, which costs very little.
	Texts []literals.Text
	// Escaped is set if the texts belong to fields. A JSON line can hide their letters with
	// escapes. Then it contains `\u00` instead of the texts.
	Escaped bool
	// EveryLine is set if there is no text to search for, so that the part is tried on every
	// line of its streams.
	EveryLine bool
}

// Texts returns how the lines of a rule are found, for each part in the order of their hits.
// Parts with short texts, or without texts, make reading slower.
func Texts(r *rules.Rule) []TextInfo {
	parts, err := compileRule(r, ordinary())
	if err != nil {
		return nil // the part has no matchers
	}
	var out []TextInfo
	for _, p := range parts {
		out = append(out, TextInfo{Part: p.role, From: p.role.SelectorOf(r), EveryLine: len(p.texts.Texts) == 0, Escaped: p.texts.Escapable, Texts: p.texts.Texts})
	}
	return out
}

// chooseRarest returns the texts that occur least in the sample. It returns none if one of them
// is too short to search for.
func (s *sample) chooseRarest(c *literals.Cond) literals.Choice {
	out := c.Choose(s.searchCost)
	if slices.ContainsFunc(out.Texts, func(t literals.Text) bool { return len(t.Text) < prefilter.MinText }) {
		return literals.Choice{}
	}
	return out
}

// chooseAgain chooses texts for a part again. A part that its texts decide keeps them. A part
// whose texts are known is not tried on every line.
func (s *sample) chooseAgain(pt *part) literals.Choice {
	if pt.decided || len(pt.texts.Texts) == 0 {
		return pt.texts
	}
	if out := s.chooseRarest(pt.requiredTexts()); len(out.Texts) > 0 {
		return out
	}
	return pt.texts
}
