package matcher

import (
	"slices"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
	"crowsnest/rules"
)

// TextInfo is how the prefilter finds the lines of one part of a rule.
type TextInfo struct {
	Part Part
	// From selects the streams of the part.
	From rules.Selector
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
		return nil // the part has no matchers
	}
	var out []TextInfo
	for _, p := range parts {
		info := TextInfo{Part: p.role, From: p.role.From(r), EveryLine: len(p.texts.Texts) == 0, Escaped: p.texts.Escapable}
		for _, t := range p.texts.Texts {
			info.Texts = append(info.Texts, t.Text)
			info.FoldCase = append(info.FoldCase, t.Fold)
		}
		out = append(out, info)
	}
	return out
}

// choose returns the texts that occur least in the sample, or none if one of them is
// too short to search for.
func (s *sample) choose(c *literals.Cond) literals.Choice {
	out := c.Choose(s.cost)
	if slices.ContainsFunc(out.Texts, func(t literals.Text) bool { return len(t.Text) < prefilter.MinText }) {
		return literals.Choice{}
	}
	return out
}

// rechoose chooses again for a part. A part that its texts decide has no others. Nor is one
// tried on every line whose texts are known.
func (s *sample) rechoose(pt *part) literals.Choice {
	if pt.decided || len(pt.texts.Texts) == 0 {
		return pt.texts
	}
	if out := s.choose(pt.required()); len(out.Texts) > 0 {
		return out
	}
	return pt.texts
}
