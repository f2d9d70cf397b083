package rules

import (
	"slices"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/rules/selector"
)

const fixForeign = "add `namespace` to `by`, or use `origin: infrastructure`"

// addNamespace adds `namespace` to the `same` of a, which is the `clear` or the `unless` of a rule that states `origin:
// any` and has `namespace` in `by`. Otherwise a line of one namespace could end the failure of another namespace.
// addNamespace runs after the semantic hash was computed, so that a rule keeps its open episodes when somebody adds
// `origin: any`.
func (c *compiler) addNamespace(a *ClearOrUnless) {
	if a == nil || c.RuleSyntax.Origin != OriginAny || !slices.Contains(c.rule.By, "namespace") || slices.Contains(a.Same, "namespace") {
		return
	}
	a.Same, a.NamespaceAdded = append(slices.Clone(a.Same), "namespace"), true
}

// lintOrigin checks whether lines of one namespace can join or change the episodes of another namespace.
func (l *linter) lintOrigin() {
	if l.Keys.HasError("origin") || l.Keys.Lacks("origin") || l.rule.Infrastructure || l.Keys.HasError("by") {
		return
	}
	if slices.Contains(l.rule.By, "namespace") {
		forged := func(p rulePart) bool {
			return !namesNamespace(p.from) && slices.Contains(possibleCaptures(*p.matcher), "namespace")
		}
		if slices.ContainsFunc(ruleParts(l.rule), forged) {
			l.addWarning(l.Keys.Key("by"), "forged-namespace", "`namespace` is captured from the line, which may contain any text: the key is not the namespace of the stream",
				"capture it under another name, such as object_namespace")
		}
		return
	}
	foreign := func(p rulePart) bool { return !namesNamespace(p.from) }
	if slices.ContainsFunc(ruleParts(l.rule), foreign) && l.rule.Distinct != "namespace" {
		l.addWarning(l.Keys.Pos, "foreign-key", "the rule trusts every namespace, so a line of one namespace joins the alert of another, and nobody is notified again", fixForeign)
	}
	if a := l.rule.Clear; a != nil && l.Keys.IsDecoded("clear") && !namesNamespace(a.From) {
		l.addWarning(l.Keys.Key("clear"), "foreign-clear", "the rule trusts every namespace, and `clear` does not compare the namespace, so a line of one can end the failure of another", fixForeign)
	}
	if a := l.rule.Unless; a != nil && l.Keys.IsDecoded("unless") && !namesNamespace(a.From) {
		l.addWarning(l.Keys.Key("unless"), "foreign-unless", "the rule trusts every namespace, and `unless` does not compare the namespace, so a line of one can mute the failure of another", fixForeign)
	}
}

// namesNamespace reports whether a selector itself restricts the namespace.
func namesNamespace(s Selector) bool {
	return slices.ContainsFunc(s.Matchers(), func(m selector.Matcher) bool {
		return m.Name == "namespace" && !m.Matches("any-namespace.of.a.tenant")
	})
}

// lintVoices checks rules that read only infrastructure. It warns about a part that can be satisfied by words that a
// component only quotes, such as the name of a tenant's object.
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

// mayBeQuoted reports whether words that the program only quotes can satisfy a matcher. A text at the start of a line
// is not quoted.
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

// States reports whether the field must have a particular value. Otherwise the field only names an object.
func (f Field) States() bool {
	if f.Regex == nil {
		return true
	}
	_, n := f.Regex.Required().Longest()
	return n >= literals.MinRun
}
