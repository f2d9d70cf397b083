package rules

import (
	"slices"
	"strings"

	"crowsnest/internal/literals"
)

// lintVoices checks whether words that a component only quotes, such as the name of an object
// of a tenant, are enough for a part of a rule for infrastructure.
func (l *linter) lintVoices() {
	if !l.rule.Infrastructure {
		return
	}
	for _, p := range partsOf(l.rule) {
		key := p.name
		if l.rule.Sequence && !l.Keys.Has(key) {
			key = "sequence"
		}
		if l.Keys.Good(key) && quotable(*p.matcher, InSpoken) {
			l.warnAt(l.Keys.Key(key), "words-of-others", "the texts count anywhere in a line, so a user whose text the component quotes can raise the alert",
				"remove `in: anywhere`, name the `field` that has the text, or state a text beside it that the component says itself")
		}
	}
}

// quotable reports whether a line may satisfy a matcher of which the program says nothing itself.
// A text at the start of a line is no quotation.
func quotable(m Matcher, in In) bool {
	in = m.In.Within(in)
	texts := len(m.Contains) > 0 || m.Regex != nil
	atStart := m.Regex != nil && strings.HasPrefix(m.Regex.String(), "^")
	if texts && (in != InAnywhere || atStart) || slices.ContainsFunc(m.Fields, Field.States) {
		return false
	}
	if len(m.Any) == 0 {
		return texts
	}
	return slices.ContainsFunc(m.Any, func(b Matcher) bool { return quotable(b, in) })
}

// States reports whether the field must have a stated value or text. Otherwise it may have any
// value, which only names an object.
func (f Field) States() bool {
	if f.Regex == nil {
		return true
	}
	_, n := f.Regex.Required().Longest()
	return n >= literals.MinRun
}
