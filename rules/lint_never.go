package rules

import (
	"fmt"
	"slices"
	"strings"
)

// lintNever reports a rule that can never fire. Either no line satisfies the rule, or every line that would trigger it
// also ends or mutes it.
func (l *linter) lintNever() {
	for _, key := range []string{"clear", "unless"} {
		condition := l.rule.Clear
		if key == "unless" {
			condition = l.rule.Unless
		}
		if condition == nil || !l.Keys.IsDecoded(key) || len(l.rule.Steps) == 0 {
			continue
		}
		// The last line of a sequence makes the rule fire.
		last := l.rule.Steps[len(l.rule.Steps)-1]
		if last.From.Equal(condition.From) && implies(last.Matcher, condition.Matcher) {
			does := map[string]string{"clear": "ends", "unless": "mutes"}[key]
			l.addError(l.Keys.Key(key), "never", fmt.Sprintf("every line that triggers the rule also %s it: it never fires", does),
				fmt.Sprintf("choose a text for `%s` that the triggering line does not contain", key))
		}
	}
	for _, s := range l.rule.Steps {
		if m := s.Matcher; m.Not != nil && implies(m, *m.Not) {
			at := l.Keys.Key("match")
			if l.Keys.Has("sequence") {
				at = l.Keys.Key("sequence")
			}
			l.addError(at, "never", "every line that satisfies the rest of the matcher also satisfies `not`: no line matches", "remove `not`, or choose another text for it")
		}
	}
}

// implies reports whether every line that satisfies m also satisfies o with the same captures. It returns false if it
// cannot prove this.
func implies(m, o Matcher) bool {
	if slices.Contains(o.Contains, "") || len(o.Contains)+len(o.Fields)+len(o.Any) == 0 && o.Regex == nil && o.Not == nil {
		return false // the matcher o has errors
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
	case o.In != InSpoken && o.In != InAnywhere && o.In != m.In:
		return false
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
