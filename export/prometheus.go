package export

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
)

// toPrometheus translates a rule to an alerting rule of Prometheus over the metrics of
// crowsnest.
func toPrometheus(t *translation, episodes bool) {
	r := t.rule
	if episodes {
		t.out.Expr = fmt.Sprintf(`sum(crowsnest_episodes{rule=%q, state="firing"}) > 0`, r.Alert)
		t.out.For = 0 // an episode fires after it has passed
	} else {
		t.checkStateless()
		t.fromMatches()
	}
	t.texts(nil)
	if len(r.By) > 0 {
		t.warn("the alert states that the rule fires, not for which %s", strings.Join(r.By, ", "))
	}
}

func (t *translation) fromMatches() {
	r := t.rule
	if r.Distinct != "" {
		t.refuse("distinct: the metric counts lines and not values; export --episodes")
	}
	if number(r) > 1 && len(r.By) > 0 {
		t.refuse("count with by: the metric adds up all keys; export --episodes")
	}
	window := r.KeepFiringFor
	if number(r) > 1 {
		window = r.Within
		t.warn("increase() extrapolates: about %d lines", number(r))
	}
	t.out.Expr = fmt.Sprintf("sum(increase(crowsnest_rule_matches_total{rule=%q}[%s])) %s", r.Alert, model.Duration(window), threshold(number(r)))
}
