package rules

import (
	"slices"

	"crowsnest/rules/selector"
)

const fixForeign = "add `namespace` to `by`, or use `origin: infrastructure`"

// addNamespace makes the clear or unless lines of a rule with `origin: any` share the
// namespace of the failure, so that no namespace ends what another one reports. It
// applies only if the rule states its origin, and comes after the semantic hash, so
// that a rule keeps its open episodes when an origin is added.
func (c *compiler) addNamespace(a *ClearOrUnless) {
	if a == nil || c.RuleSyntax.Origin != OriginAny || !slices.Contains(c.rule.By, "namespace") || slices.Contains(a.Same, "namespace") {
		return
	}
	a.Same, a.NamespaceAdded = append(slices.Clone(a.Same), "namespace"), true
}

// lintOrigin checks which lines can change the episodes of another namespace.
func (l *linter) lintOrigin() {
	switch {
	case l.Keys.Broken("origin") || l.Keys.Missing("origin") || l.rule.Infrastructure || l.namesNamespace():
	case !slices.Contains(l.rule.By, "namespace"):
		if l.Keys.Good("clear") && !l.Keys.Broken("by") {
			l.warnAt(l.Keys.Key("clear"), "foreign-clear", "every namespace is trusted, so a line of one can end the failure of another: `clear` does not share the namespace", fixForeign)
		}
		if l.Keys.Good("unless") && !l.Keys.Broken("by") {
			l.warnAt(l.Keys.Key("unless"), "foreign-unless", "every namespace is trusted, so a line of one can mute the failure of another: `unless` does not share the namespace", fixForeign)
		}
	case slices.ContainsFunc(partsOf(l.rule), func(p rulePart) bool { return slices.Contains(possibleCaptures(*p.matcher), "namespace") }):
		l.warnAt(l.Keys.Key("by"), "forged-namespace", "`namespace` is captured from the line, which may contain any text: the key is not the namespace of the stream",
			"capture it under another name, such as object_namespace")
	}
}

// namesNamespace reports whether the selector itself restricts the namespace.
func (l *linter) namesNamespace() bool {
	return slices.ContainsFunc(l.rule.From.Matchers(), func(m selector.Matcher) bool {
		return m.Name == "namespace" && !m.Matches("any-namespace.of.a.tenant")
	})
}
