package runbook

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/rules"
)

// link links to the page of a rule from that of another one; only the name, if the set does
// not have it.
func link(set *rules.Set, from *rules.Rule, alert string) string {
	to := set.Rule(alert)
	switch {
	case to == nil:
		return alert
	case to.Pack == from.Pack:
		return fmt.Sprintf("[%s](%s.md)", alert, alert)
	}
	return fmt.Sprintf("[%s](../%s/%s.md)", alert, to.Pack, alert)
}

// causes describes which alerts explain that of the rule.
func causes(set *rules.Set, r *rules.Rule) string {
	if len(r.Causes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("It is a symptom of these alerts. If one of them fires, begin there:\n\n")
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(&b, "- %s", link(set, r, c.Alert))
		same := c.Same
		if cause := set.Rule(c.Alert); same == nil && cause != nil {
			same, _ = c.Shared(r, cause.By)
		}
		if len(same) > 0 {
			b.WriteString(" of the same " + names(same))
		}
		if c.Lag > 0 {
			fmt.Fprintf(&b, ", begun earlier or up to %s later", duration(c.Lag))
		} else {
			b.WriteString(", begun earlier")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// symptoms names the alerts that the failure causes.
func symptoms(set *rules.Set, r *rules.Rule) string {
	var out []string
	for _, s := range set.Rules {
		if slices.ContainsFunc(s.Causes, func(c rules.Cause) bool { return c.Alert == r.Alert }) {
			out = append(out, link(set, r, s.Alert))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "It can cause " + strings.Join(out, ", ") + "."
}
