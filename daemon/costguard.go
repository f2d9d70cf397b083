package daemon

import (
	"time"

	"crowsnest/daemon/monitor"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// A rule is quarantined when it took more than its share of a CPU in each of guardSlices
// consecutive slices, a full minute in total. A short burst, such as a backlog after a
// start, quarantines no rule.
const (
	guardSlice  = 10 * time.Second
	guardSlices = 6
	// cheapTry is the duration of a try below which a rule is never costly, however many
	// tries a log storm or a long backlog causes.
	cheapTry = 5 * time.Microsecond
)

// costGuard finds the rules that cost too much. Not safe for concurrent use.
type costGuard struct {
	limit float64 // share of one CPU; 0: no limit

	at     time.Time     // start of the slice
	cpu    time.Duration // of the process, at the start
	before map[string]matcher.Cost
	strike map[string]int // slices in a row above the limit
}

func newCostGuard(limit float64) *costGuard {
	return &costGuard{limit: limit, before: map[string]matcher.Cost{}, strike: map[string]int{}}
}

// costlyRule is a rule that costs too much, and its share of a CPU in the last slice.
type costlyRule struct {
	rule  *rules.Rule
	share float64
}

// due reports whether judge has something to do.
func (g *costGuard) due(now time.Time) bool {
	elapsed := now.Sub(g.at)
	return g.limit != 0 && (elapsed < 0 || elapsed >= guardSlice)
}

// judge returns the rules that cost too much, at the end of a slice; before that it does
// nothing. cpu and costs are the CPU time of the process and of each rule since their
// start.
//
// The time of rules is wall time. When threads wait for a CPU, it is more than they used,
// so the sum over all rules is scaled down to what the process used.
func (g *costGuard) judge(now time.Time, cpu time.Duration, costs []matcher.Cost) []costlyRule {
	elapsed := now.Sub(g.at)
	if !g.due(now) {
		return nil
	}
	// After the start, a clock change or a suspend, the slice is not full.
	whole := elapsed >= 0 && elapsed < 2*guardSlice
	spent, sum := make([]time.Duration, len(costs)), time.Duration(0)
	for i, c := range costs { // less than before if a rule was unloaded for a while
		spent[i] = max(0, c.Spent-g.before[c.Rule.Alert].Spent)
		sum += spent[i]
	}
	scale := 1.0
	if used := cpu - g.cpu; sum > used {
		scale = max(0, used.Seconds()/sum.Seconds())
	}
	var out []costlyRule
	before, strike := make(map[string]matcher.Cost, len(costs)), map[string]int{}
	for i, c := range costs {
		name, used := c.Rule.Alert, scale*spent[i].Seconds()
		cheap := float64(c.Tries-g.before[name].Tries) * cheapTry.Seconds()
		if whole && used > g.limit*elapsed.Seconds() && used > cheap {
			strike[name] = g.strike[name] + 1
		}
		if strike[name] >= guardSlices {
			out = append(out, costlyRule{c.Rule, used / elapsed.Seconds()})
		}
		before[name] = c
	}
	g.at, g.cpu, g.before, g.strike = now, cpu, before, strike
	return out
}

// quarantine quarantines rules that cost too much, and returns all quarantined
// rules. The engine concludes nothing from the absence of their lines.
func (d *Daemon) quarantine(now time.Time) []matcher.Quarantined {
	program := d.pipe.rules.Load().program
	if cpu, ok := processCPU(); ok && d.guard.due(now) {
		for _, c := range d.guard.judge(now, cpu, program.Costs()) {
			program.Quarantine(c.rule, matcher.ReasonCost)
			log := d.component("rules")
			log.Error().Str("rule", c.rule.Alert).Str("reason", string(matcher.ReasonCost)).
				Float64("cpu", c.share).Msg("rule is quarantined: " + monitor.QuarantineReason(matcher.ReasonCost))
		}
	}
	for _, r := range d.engine.Quarantined() {
		program.Quarantine(r, matcher.ReasonPanic)
	}
	quarantined := program.Quarantined()
	for _, g := range quarantined {
		d.engine.Suspend(g.Rule, now)
	}
	return quarantined
}
