package matcher

import (
	"slices"
	"time"

	"crowsnest/internal/metric"
)

// Metrics returns metrics of the time that rules cost. It omits rules with a total time below least.
func Metrics(costs func() []Cost, least time.Duration) metric.Collector {
	read := func() []Cost {
		return slices.DeleteFunc(costs(), func(c Cost) bool { return c.Spent < least })
	}
	return metric.NewEach(read, []string{"rule"}, func(c Cost) []string { return []string{c.Rule.Alert} },
		metric.Counter("rule_seconds_total", "Time spent evaluating the rule, estimated from samples.", func(c Cost) time.Duration { return c.Spent }),
		metric.Counter("rule_tries_total", "Lines on which at least one part of the rule was tried, estimated from samples.", func(c Cost) int64 { return c.Evaluations }),
	)
}
