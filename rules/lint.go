package rules

import (
	"fmt"
	"slices"
	"time"

	"crowsnest/strictyaml"
)

// lint checks the rule as a whole for keys that are valid but have no effect, or
// not the effect that they suggest.
func (c *compiler) lint() {
	c.lintWindow()
	c.lintDurations()
	c.lintDistinct()
	c.lintLimit()
	c.lintScope()
	c.lintBy()
	c.lintCaptures()
	c.lintDiffers()
	c.lintOrigin()
	c.lintNever()
	c.lintSteps()
	c.lintCost()
}

// lintWindow checks count and within.
func (c *compiler) lintWindow() {
	sequence := c.Keys.Has("sequence")
	counted := c.good("count")
	switch {
	case counted && sequence:
		c.errorAt(c.Keys.Key("count"), "no-effect", "`count` has no effect on a sequence", "remove it")
	case counted && c.Count > 1 && c.Keys.Missing("within"):
		c.missing("count", "needs-within", fmt.Sprintf("`count: %d` needs `within`", c.Count), "add the window of the count: within: 10m")
	}
	if c.good("within") {
		c.checkWithin(c.Within, c.Keys.Value("within"), "`within`")
	}
	switch {
	case sequence && c.Keys.Missing("within"):
		c.missing("sequence", "needs-within", "`sequence` needs `within`", "add the longest time from its first line to its last: within: 10m")
	case c.good("within") && !sequence && c.Keys.Has("match") && c.rule.Count == 1 && !c.Keys.Has("distinct") && !c.Keys.Broken("count") && !c.likely("count") && !c.loosened():
		c.errorAt(c.Keys.Key("within"), "no-effect", "`within` has no effect without `count` or `sequence`", "remove it, or add `count`")
	}
}

// loosened reports whether an override changed the count that the rule's own
// window belongs to.
func (c *compiler) loosened() bool {
	return c.Keys.Key("count").File() != c.file && c.Keys.Key("within").File() == c.file
}

// likely reports whether an unknown key is probably a misspelling of this one.
func (c *compiler) likely(key string) bool { return !c.Keys.Has(key) && !c.Keys.Missing(key) }

func (c *compiler) checkWithin(d time.Duration, at strictyaml.Pos, name string) {
	if d < Lateness {
		c.warnAt(at, "below-lateness", fmt.Sprintf("%s is %s, shorter than the lateness of sources (%s)", name, duration(d), duration(Lateness)), "use at least "+duration(Lateness))
	}
}

// lintDurations checks for, keep_firing_for and expire.
func (c *compiler) lintDurations() {
	cleared := c.Keys.Has("clear")
	if c.good("for") && c.For > 0 && c.For < Lateness {
		c.warnAt(c.Keys.Value("for"), "below-lateness", fmt.Sprintf("`for` is %s, shorter than the lateness of sources (%s)", duration(c.For), duration(Lateness)), "use at least "+duration(Lateness))
	}
	if cleared && c.Keys.Has("keep_firing_for") {
		c.errorAt(c.Keys.Key("keep_firing_for"), "no-effect", "`keep_firing_for` has no effect with `clear`: the clear line ends the episode", "remove it, or use `expire` for an upper bound")
	} else if c.good("keep_firing_for") && c.KeepFiringFor < Lateness {
		c.warnAt(c.Keys.Value("keep_firing_for"), "below-lateness", fmt.Sprintf("`keep_firing_for` is %s, shorter than the lateness of sources (%s)", duration(c.KeepFiringFor), duration(Lateness)), "use at least "+duration(Lateness))
	}
	if c.Keys.Has("expire") && !cleared && !c.likely("clear") {
		c.errorAt(c.Keys.Key("expire"), "no-effect", "`expire` has no effect without `clear`", "use `keep_firing_for` for the quiet time after which the alert resolves, or add `clear`")
	}
	if cleared && !c.Keys.Broken("for") && !c.Keys.Broken("expire") && c.rule.For >= c.rule.Expire {
		at := c.Keys.Value("for")
		if !c.Keys.Has("for") || c.Keys.Value("expire").File() != c.file {
			at = c.Keys.Value("expire")
		}
		c.errorAt(at, "for-expire", fmt.Sprintf("`for` (%s) is not shorter than `expire` (%s): the episode ends before it fires", duration(c.rule.For), duration(c.rule.Expire)), "make `for` shorter, or `expire` longer")
	}
}

func (c *compiler) lintDistinct() {
	if !c.good("distinct") {
		return
	}
	at := c.Keys.Key("distinct")
	switch {
	case c.Keys.Has("sequence"):
		c.errorAt(at, "no-effect", "`distinct` has no effect on a sequence", "remove it")
	case c.Distinct == "":
		c.errorAt(c.Keys.Value("distinct"), "empty-value", "`distinct` is empty", "write the name of the values to count")
	case slices.Contains(c.By, c.Distinct):
		c.errorAt(c.Keys.Value("distinct"), "never", fmt.Sprintf("`distinct: %s` is also in `by`: all lines of a key have the same %s, so the rule never fires", c.Distinct, c.Distinct), "remove it from one of them")
	case c.Keys.Missing("count"):
		c.missing("distinct", "needs-count", "`distinct` needs `count` of at least 2", "add the number of different values: count: 3")
	case c.good("count") && c.Count == 1:
		c.errorAt(c.Keys.Value("count"), "needs-count", "`distinct` needs `count` of at least 2", "add the number of different values: count: 3")
	}
}

func (c *compiler) lintLimit() {
	if c.good("limit") && len(c.By) == 0 && !c.Keys.Broken("by") && c.Keys.Missing("by") {
		c.warnAt(c.Keys.Key("limit"), "no-effect", "`limit` has no effect without `by`: there is only one key", "remove it")
	}
}

func (c *compiler) lintScope() {
	if !c.good("scope") || c.Keys.Broken("by") || c.Keys.Broken("clear") || c.Keys.Broken("unless") || c.RuleSyntax.Scope == c.rule.Scope {
		return
	}
	message, fix := "the rule can be decided on a single node: its key has `pod`", "remove `scope`, or write scope: node"
	if c.rule.Scope == ScopeCluster {
		message = "the rule cannot be decided on a single node: " + whyCluster(c.rule)
		fix = "remove `scope`, or write scope: cluster"
	}
	c.errorAt(c.Keys.Value("scope"), "scope", message, fix)
}

// computeScope returns ScopeNode if all lines of a key are on one node.
func computeScope(r *Rule) Scope {
	if whyCluster(r) == "" {
		return ScopeNode
	}
	return ScopeCluster
}

// whyCluster returns why a single node cannot decide the rule, "" if it can.
func whyCluster(r *Rule) string {
	switch {
	case !slices.Contains(r.By, "pod"):
		return "`by` has no `pod`"
	case r.Clear != nil && !slices.Contains(r.Clear.Same, "pod"):
		return "`clear.same` has no `pod`, so another node's line may clear it"
	case r.Unless != nil && !slices.Contains(r.Unless.Same, "pod"):
		return "`unless.same` has no `pod`, so another node's line may mute it"
	}
	for _, m := range matchersOf(r) {
		if slices.Contains(possibleCaptures(m), "pod") {
			return "`pod` is captured from the line, so it may not be the pod that logs it"
		}
	}
	return ""
}

// matchersOf returns every matcher of a rule.
func matchersOf(r *Rule) []Matcher {
	var out []Matcher
	for _, s := range r.Steps {
		out = append(out, s.Matcher)
	}
	if r.Clear != nil {
		out = append(out, r.Clear.Matcher)
	}
	if r.Unless != nil {
		out = append(out, r.Unless.Matcher)
	}
	return out
}
