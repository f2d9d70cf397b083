package rules

import (
	"slices"
	"strings"

	"crowsnest/internal/literals"
)

// lintVoices checks rules that read infrastructure. It warns about a part that can be satisfied
// by words that a component only quotes, such as the name of a tenant's object.
func (l *linter) lintVoices() {
	if !l.rule.Infrastructure {
		return
	}
	for _, p := range ruleParts(l.rule) {
		key := p.name
		if l.rule.Sequence && !l.Keys.Has(key) {
			key = "sequence"
		}
		if l.Keys.IsDecoded(key) && mayBeQuoted(*p.matcher, InSpoken) {
			l.addWarning(l.Keys.Key(key), "words-of-others", "the texts count anywhere in a line, so a user whose text the component quotes can raise the alert",
				"remove `in: anywhere`, name the `field` that has the text, or state a text beside it that the component says itself")
		}
	}
}

// mayBeQuoted reports whether a line may satisfy a matcher only by words that the program
// quotes. A text at the start of a line is not a quotation.
func mayBeQuoted(m Matcher, in In) bool {
	in = m.In.Within(in)
	texts := len(m.Contains) > 0 || m.Regex != nil
	atStart := m.Regex != nil && strings.HasPrefix(m.Regex.String(), "^")
	if texts && (in != InAnywhere || atStart) || slices.ContainsFunc(m.Fields, Field.States) {
		return false
	}
	if len(m.Any) == 0 {
		return texts
	}
	return slices.ContainsFunc(m.Any, func(b Matcher) bool { return mayBeQuoted(b, in) })
}

// States reports whether the field must have a particular value or text. A field that may have
// any value only names an object.
func (f Field) States() bool {
	if f.Regex == nil {
		return true
	}
	_, n := f.Regex.Required().Longest()
	return n >= literals.MinRun
}
