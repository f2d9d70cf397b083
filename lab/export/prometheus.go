package export

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
)

func toPrometheus(t *translation, episodes bool) {
	r := t.rule
	if episodes {
		t.out.Expr = fmt.Sprintf(`sum(crowsnest_episodes{rule=%q, state="firing"}) > 0`, r.Alert)
		t.out.For = 0 // an episode fires only after this time has passed
	} else {
		t.checkStateless()
		t.translateMatches()
	}
	t.setTexts(nil)
	if len(r.By) > 0 {
		t.warn("the alert states that the rule fires, not for which %s", strings.Join(r.By, ", "))
	}
}

func (t *translation) translateMatches() {
	r := t.rule
	if r.Distinct != "" {
		t.refuse("distinct: the metric counts lines and not values; export --episodes")
	}
	if openingCount(r) > 1 && len(r.By) > 0 {
		t.refuse("count with by: the metric adds up all keys; export --episodes")
	}
	window := r.KeepFiringFor
	if openingCount(r) > 1 {
		window = r.Within
		t.warn("increase() extrapolates: about %d lines", openingCount(r))
	}
	t.out.Expr = fmt.Sprintf("sum(increase(crowsnest_rule_matches_total{rule=%q}[%s])) %s", r.Alert, model.Duration(window), thresholdExpr(openingCount(r)))
}
