package rules

import "slices"

const fixForeign = "add `namespace` to `by`, or use `origin: infrastructure`"

// addNamespace has a clear or unless line of a rule that believes everybody share
// the namespace of the failure: nobody ends what another namespace reports. It
// applies where the rule states its origin, and comes after the semantic hash, so
// that a rule which is given an origin keeps what it has open.
func (c *compiler) addNamespace(a *ClearOrUnless) {
	if a == nil || c.RuleSyntax.Origin != OriginAny || !contains(c.rule.By, "namespace") || contains(a.Same, "namespace") {
		return
	}
	a.Same, a.NamespaceAdded = append(slices.Clone(a.Same), "namespace"), true
}

// lintOrigin checks whose lines the rule believes.
func (c *compiler) lintOrigin() {
	switch {
	case c.Keys.Broken("origin") || c.Keys.Missing("origin") || c.rule.Infrastructure || c.namesNamespace():
	case !contains(c.rule.By, "namespace"):
		if c.good("clear") && !c.Keys.Broken("by") {
			c.warnAt(c.Keys.Key("clear"), "foreign-clear", "every namespace is believed, and a line of one can end the failure of another: `clear` shares no namespace", fixForeign)
		}
		if c.good("unless") && !c.Keys.Broken("by") {
			c.warnAt(c.Keys.Key("unless"), "foreign-unless", "every namespace is believed, and a line of one can mute the failure of another: `unless` shares no namespace", fixForeign)
		}
	case slices.ContainsFunc(matchersOf(c.rule), func(m Matcher) bool { return contains(possibleCaptures(m), "namespace") }):
		c.warnAt(c.Keys.Key("by"), "forged-namespace", "`namespace` is captured from the line, and a line can say anything: the key is not the namespace that it comes from",
			"capture it under another name, such as object_namespace")
	}
}

// namesNamespace reports whether the selector itself restricts the namespace.
func (c *compiler) namesNamespace() bool {
	return slices.ContainsFunc(c.rule.From.matchers, func(m LabelMatcher) bool {
		return m.Name == "namespace" && !m.Matches("any-namespace.of.a.tenant")
	})
}
