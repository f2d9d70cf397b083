package matcher

import (
	"sync/atomic"
	"time"

	"crowsnest/rules"
)

// meter counts the panics of one rule and measures its cost. It is safe for concurrent use.
//
// Reading the clock costs as much as a cheap evaluation, so only some evaluations are timed. For lines shorter than
// longLine, one evaluation in mask+1 is chosen randomly, and its time counts mask+1 times. The cheaper the rule, the
// larger mask is. Evaluations of long lines are always timed, because they are rare and cost the most.
type meter struct {
	state atomic.Int32  // number of panics, or the constant costly
	mask  atomic.Uint32 // mask that selects the timed evaluations; a power of two minus one
	mean  atomic.Int64  // moving average of the timed evaluations, in ns
	tries atomic.Int64
	spent atomic.Int64 // total time of the evaluations, in ns
}

const (
	// maxPanics is the number of panics after which a rule is quarantined. The whole rule is quarantined, because
	// without one of its parts the other parts would lead to wrong conclusions.
	maxPanics = 3
	// costly is the value of meter.state for a rule that is quarantined because of its cost.
	costly = 1 << 20

	longLine = 4 << 10
	maxMask  = 63 // largest mask; at most six bits, see drawSample
	// worthTiming is the evaluation time, in ns, for which reading the clock each time is acceptable. Reading it takes
	// about 50 ns.
	worthTiming = 4096
)

func (m *meter) isQuarantined() bool { return m.state.Load() >= maxPanics }

// drawSample decides whether the next evaluation is timed. It returns 0 if the evaluation is not timed, and otherwise
// the number of evaluations that the timed one represents.
func (sc *scratch) drawSample(m *meter, length int) int64 {
	if length >= longLine {
		return 1
	}
	mask := m.mask.Load()
	sc.dice = sc.dice*6364136223846793005 + 1442695040888963407
	if uint32(sc.dice>>58)&mask != 0 { // the highest bits are the most random
		return 0
	}
	return int64(mask) + 1
}

// addSample records a timed evaluation on a line of length bytes, which counts as weight evaluations. Time above maxTry
// is not counted, because then the machine was suspended or the thread was not scheduled.
func (m *meter) addSample(r *rules.Rule, took time.Duration, weight int64, length int) {
	if took > minTry { // computing the limit takes longer than most evaluations
		took = min(took, maxTry(r, length))
	}
	ns := int64(max(0, took))
	m.tries.Add(weight)
	m.spent.Add(ns * weight)
	if length >= longLine {
		return
	}
	mean := m.mean.Load()
	if mean == 0 {
		mean = ns
	} else {
		mean += (ns - mean) / 16
	}
	m.mean.Store(mean) // a lost concurrent update only makes the average less smooth
	mask := uint32(0)
	for mask < maxMask && mean*int64(mask+1) < worthTiming {
		mask = mask<<1 | 1
	}
	m.mask.Store(mask)
}

// minTry is the lowest value of maxTry.
const minTry = 50 * time.Microsecond

// maxTry returns an upper bound for the time of one evaluation on a line of length bytes. It adds the worst case of the
// rule's expressions and a generous allowance for all other work.
func maxTry(r *rules.Rule, length int) time.Duration {
	return minTry + time.Duration(length)*(100*time.Nanosecond+r.MaxLineTime()/MaxLine)
}

// Cost is the time spent evaluating one rule.
type Cost struct {
	Rule *rules.Rule
	// Evaluations is the number of evaluations of the rule's parts on lines, and Spent is the time that they took. Both are
	// estimates from samples and never decrease.
	Evaluations int64
	Spent       time.Duration
}

// Costs returns the cost of each rule so far, in the order of the rules. All costs are zero unless the program is from
// CompileTimed.
func (p *Program) Costs() []Cost {
	out := make([]Cost, len(p.rules))
	for i, r := range p.rules {
		out[i] = Cost{Rule: r, Evaluations: p.meters[i].tries.Load(), Spent: time.Duration(p.meters[i].spent.Load())}
	}
	return out
}

// Reason is the reason why a rule is quarantined.
type Reason string

// Reasons for which rules are quarantined.
const (
	ReasonPanic Reason = "panic" // its evaluation panicked several times
	ReasonCost  Reason = "cost"  // the rule took too much CPU time
)

// Quarantined is a rule that is no longer evaluated.
type Quarantined struct {
	Rule   *rules.Rule
	Reason Reason
}

// Quarantined returns the rules that are no longer evaluated, in the order of the rules.
func (p *Program) Quarantined() []Quarantined {
	var out []Quarantined
	for i, r := range p.rules {
		switch state := p.meters[i].state.Load(); {
		case state >= costly:
			out = append(out, Quarantined{r, ReasonCost})
		case state >= maxPanics:
			out = append(out, Quarantined{r, ReasonPanic})
		}
	}
	return out
}

// Quarantine stops the evaluation of a rule. An evaluation that is in progress is completed. A panic does not replace
// an earlier reason. Quarantine does nothing if the program does not contain the rule.
func (p *Program) Quarantine(r *rules.Rule, why Reason) {
	for i := range p.rules {
		switch m := &p.meters[i]; {
		case p.rules[i] != r:
		case why == ReasonCost:
			m.state.Store(costly)
		case !m.isQuarantined():
			m.state.Store(maxPanics)
		}
	}
}

// CopyCounters copies the counters of old. Rules keep their cost by name. An unchanged rule stays quarantined. Neither
// program may be in use during the call.
func (p *Program) CopyCounters(old *Program) {
	before := map[string]int{}
	for i, r := range old.rules {
		before[r.Alert] = i
	}
	for i, r := range p.rules {
		k, ok := before[r.Alert]
		if !ok {
			continue
		}
		from, to := &old.meters[k], &p.meters[i]
		to.tries.Store(from.tries.Load())
		to.spent.Store(from.spent.Load())
		if old.rules[k].Hash == r.Hash {
			to.state.Store(from.state.Load())
			to.mean.Store(from.mean.Load())
			to.mask.Store(from.mask.Load())
		}
	}
}
