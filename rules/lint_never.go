package rules

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/rules/selector"
	"crowsnest/strictyaml"
)

// lintNever finds a rule that can never fire: every line that would trigger it
// also ends or mutes it, or no line can satisfy it.
func (c *compiler) lintNever() {
	c.lintSelector()
	for _, key := range []string{"clear", "unless"} {
		condition := c.rule.Clear
		if key == "unless" {
			condition = c.rule.Unless
		}
		if condition == nil || !c.good(key) || len(c.rule.Steps) == 0 {
			continue
		}
		// The last line of a sequence is the one that fires.
		last := c.rule.Steps[len(c.rule.Steps)-1].Matcher
		if implies(last, condition.Matcher) {
			does := map[string]string{"clear": "ends", "unless": "mutes"}[key]
			c.errorAt(c.Keys.Key(key), "never", fmt.Sprintf("every line that triggers the rule also %s it: it never fires", does),
				fmt.Sprintf("choose a text for `%s` that the triggering line does not contain", key))
		}
	}
	for _, s := range c.rule.Steps {
		if m := s.Matcher; m.Not != nil && implies(m, *m.Not) {
			c.errorAt(c.matchKey(), "never", "every line that satisfies the rest of the matcher also satisfies `not`: no line matches", "remove `not`, or choose another text for it")
		}
	}
}

// matchKey returns the position of the trigger.
func (c *compiler) matchKey() strictyaml.Pos {
	if c.Keys.Has("sequence") {
		return c.Keys.Key("sequence")
	}
	return c.Keys.Key("match")
}

// lintSelector reports a selector whose conditions on one label contradict.
func (c *compiler) lintSelector() {
	ms := c.rule.From.Matchers()
	for _, m := range ms {
		i := slices.IndexFunc(ms, func(o selector.Matcher) bool { return o.Name == m.Name && !o.Matches(m.Value) })
		if m.Op == selector.Equal && i >= 0 && c.good("from") {
			c.errorAt(c.Keys.Value("from"), "never", fmt.Sprintf("no stream satisfies both %s and %s", m, ms[i]), "remove one of them")
			return
		}
	}
}

// implies reports whether every line that satisfies m also satisfies o, with the
// same captures. It may return false where that is hard to prove.
func implies(m, o Matcher) bool {
	if slices.Contains(o.Contains, "") || len(o.Contains)+len(o.Fields)+len(o.Any) == 0 && o.Regex == nil && o.Not == nil {
		return false // o has errors
	}
	if impliesDirectly(m, o) {
		return true
	}
	// Otherwise each alternative of m must imply o.
	return len(m.Any) > 0 && !slices.ContainsFunc(m.Any, func(one Matcher) bool {
		one.Contains = slices.Concat(one.Contains, m.Contains)
		one.Fields = slices.Concat(one.Fields, m.Fields)
		return !implies(one, o)
	})
}

func impliesDirectly(m, o Matcher) bool {
	for _, text := range o.Contains {
		if !slices.ContainsFunc(m.Contains, func(t string) bool { return strings.Contains(t, text) }) {
			return false
		}
	}
	for _, f := range o.Fields {
		if !slices.ContainsFunc(m.Fields, func(g Field) bool { return fieldText(g) == fieldText(f) }) {
			return false
		}
	}
	switch {
	case o.Regex != nil && (m.Regex == nil || m.Regex.String() != o.Regex.String()):
		return false
	case o.Not != nil && (m.Not == nil || !implies(*o.Not, *m.Not)):
		return false
	}
	return len(o.Any) == 0 || slices.ContainsFunc(o.Any, func(one Matcher) bool { return implies(m, one) })
}

func fieldText(f Field) string {
	if f.Regex != nil {
		return f.Name + "\x00~" + f.Regex.String()
	}
	return f.Name + "\x00" + f.Value
}
