package runbook

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/rules"
)

// linkTo returns a link from one rule's page to another's, or only the name if set lacks the other rule.
func linkTo(set *rules.Set, from *rules.Rule, alert string) string {
	to := set.Rule(alert)
	switch {
	case to == nil:
		return alert
	case to.Pack == from.Pack:
		return fmt.Sprintf("[%s](%s.md)", alert, alert)
	}
	return fmt.Sprintf("[%s](../%s/%s.md)", alert, to.Pack, alert)
}

func describeCauses(set *rules.Set, r *rules.Rule) string {
	if len(r.Causes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("It is a symptom of these alerts. If one of them fires, begin there:\n\n")
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(&b, "- %s", linkTo(set, r, c.Alert))
		same := c.Same
		if cause := set.Rule(c.Alert); same == nil && cause != nil {
			same, _ = c.SharedLabels(r, cause.By)
		}
		if len(same) > 0 {
			b.WriteString(" of the same " + formatNames(same))
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

func nameSymptoms(set *rules.Set, r *rules.Rule) string {
	var out []string
	for _, s := range set.Rules {
		if slices.ContainsFunc(s.Causes, func(c rules.Cause) bool { return c.Alert == r.Alert }) {
			out = append(out, linkTo(set, r, s.Alert))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "It can cause " + strings.Join(out, ", ") + "."
}
