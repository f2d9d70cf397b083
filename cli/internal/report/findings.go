package report

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/cli/internal/findings"
)

// Findings returns remarks on rules whose alerts change, and on rules whose effect
// is unknown. A rule that is not in the files has no place.
func (r Report) Findings() []findings.Finding {
	var out []findings.Finding
	for _, rule := range r.Rules {
		f := findings.Finding{File: rule.File, Line: rule.Line, Level: findings.Notice, Rule: rule.Rule}
		if rule.Status == statusRemoved || strings.Contains(rule.File, ":") {
			f.File, f.Line = "", 0
		}
		switch {
		case rule.differs() > 0:
			f.Check = findings.AlertsDiffer
			f.Message = fmt.Sprintf("%s: %s; alerts %d > %d, notifications %d > %d, lines %d > %d", rule.Rule, rule.change(), rule.AlertsBefore,
				rule.AlertsAfter, rule.NotificationsBefore, rule.NotificationsAfter, rule.LinesBefore, rule.LinesAfter)
		case slices.Contains(r.Unseen, rule.Rule):
			f.Check = findings.NoLine
			f.Message = fmt.Sprintf("%s: %s; none of the lines matches it, so its effect is unknown", rule.Rule, rule.Status)
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}
