package inforce

import (
	"maps"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// A rule is quarantined if it took more than its share of a CPU in each slice of a full minute. Reading the backlog
// after a start takes less than a minute.
const (
	guardTime   = time.Minute
	guardSlices = 6
	guardSlice  = guardTime / guardSlices
	// cheapTry limits the cost of one evaluation. A rule whose evaluations are cheaper on average never counts as
	// costly, even if a flood of lines or a long backlog causes very many evaluations.
	cheapTry = 5 * time.Microsecond
)

// Guard finds the rules that cost too much. It is not safe for concurrent use.
type Guard struct {
	limit float64 // allowed share of one CPU; zero means no limit

	sliceStart time.Time     // start of the current slice
	cpu        time.Duration // CPU time of the process at the start of the slice
	before     map[string]matcher.Cost
	strike     map[string]int // number of consecutive slices above the limit, by rule or namespace
}

// NewGuard returns a guard that allows each rule this share of one CPU. All rules with the same owner together have
// one share. Zero means no limit.
func NewGuard(limit float64) *Guard {
	return &Guard{limit: limit, before: map[string]matcher.Cost{}, strike: map[string]int{}}
}

// partyCost is the cost of one rule of the operator, or of all rules of a namespace, in one slice.
type partyCost struct {
	used, cheap float64 // used CPU time and the time that always counts as cheap, in seconds
	costliest   CostlyRule
}

// CostlyRule is a rule that costs too much, with its share of a CPU in the last slice.
type CostlyRule struct {
	Rule  *rules.Rule
	Share float64
}

// IsDue reports whether the current slice is over, so that FindCostly must be called.
func (g *Guard) IsDue(now time.Time) bool {
	elapsed := now.Sub(g.sliceStart)
	return g.limit != 0 && (elapsed < 0 || elapsed >= guardSlice)
}

// FindCostly returns the rules that cost too much in the slice that ends now. It returns nil if the slice is not over.
// cpu is the CPU time of the process since its start, and costs are the times that the rules took since then.
//
// The time of a rule is wall time, which includes waiting for a CPU. So the times are scaled down until their sum is at
// most the CPU time of the process.
func (g *Guard) FindCostly(now time.Time, cpu time.Duration, costs []matcher.Cost) []CostlyRule {
	elapsed := now.Sub(g.sliceStart)
	if !g.IsDue(now) {
		return nil
	}
	// A slice is longer or shorter than usual after the start, after a clock change and after a suspend. No rule is
	// judged by such a slice.
	whole := elapsed >= 0 && elapsed < 2*guardSlice
	spent, sum := make([]time.Duration, len(costs)), time.Duration(0)
	for i, c := range costs { // costs may have decreased, if a rule was not loaded for a while
		spent[i] = max(0, c.Spent-g.before[c.Rule.Alert].Spent)
		sum += spent[i]
	}
	scale := 1.0
	if used := cpu - g.cpu; sum > used {
		scale = max(0, used.Seconds()/sum.Seconds())
	}
	before, parties := make(map[string]matcher.Cost, len(costs)), map[string]*partyCost{}
	for i, c := range costs {
		name, used := c.Rule.Alert, scale*spent[i].Seconds()
		party := name
		if c.Rule.Namespace != "" {
			party = "namespace " + c.Rule.Namespace
		}
		p := parties[party]
		if p == nil {
			p = &partyCost{}
			parties[party] = p
		}
		p.used += used
		p.cheap += float64(c.Evaluations-g.before[name].Evaluations) * cheapTry.Seconds()
		if p.costliest.Rule == nil || used/elapsed.Seconds() > p.costliest.Share {
			p.costliest = CostlyRule{c.Rule, used / elapsed.Seconds()}
		}
		before[name] = c
	}
	var out []CostlyRule
	strike := map[string]int{}
	for _, party := range slices.Sorted(maps.Keys(parties)) {
		p := parties[party]
		if whole && p.used > g.limit*elapsed.Seconds() && p.used > p.cheap {
			strike[party] = g.strike[party] + 1
		}
		if strike[party] >= guardSlices {
			out = append(out, p.costliest)
		}
	}
	g.sliceStart, g.cpu, g.before, g.strike = now, cpu, before, strike
	return out
}
