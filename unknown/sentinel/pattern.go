package sentinel

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// Limits of the state of one pattern.
const (
	maxRuns     = 8 // largest number of objects
	maxExamples = 3
	maxOfPods   = 4
	maxObject   = 96
)

// startup is the time in seconds after the start of a pod during which its complaints do not
// count as new, because other programs that the pod needs may not be ready yet.
const startup = 600

// pattern stands for the lines of one component that report the same error. Its texts come
// from the first line. Its other fields can be merged in any order.
type pattern struct {
	Key      uint64         `json:"key"`
	Template redact.Text    `json:"template"`
	Error    redact.Text    `json:"error,omitempty"`
	Level    discover.Level `json:"level"`
	Words    int            `json:"words,omitempty"`
	Passes   bool           `json:"passes,omitempty"`
	Waits    bool           `json:"waits,omitempty"`
	Ends     bool           `json:"ends,omitempty"`
	First    int64          `json:"first"`
	Last     int64          `json:"last"`
	Count    int64          `json:"count"`
	All      slots          `json:"all"` // intervals that contain lines from the time after the start of their pod
	Runs     []run          `json:"runs,omitempty"`
	Pods     []string       `json:"pods,omitempty"` // pods that wrote lines of the pattern first
	Examples []example      `json:"examples,omitempty"`
	// Line is the first line, without secrets, for writing a rule.
	Line redact.Text `json:"line,omitempty"`
	// Alerted is the time when an alert last fired for the pattern.
	Alerted int64 `json:"alerted,omitempty"`

	counts map[string]int64 // number of lines that each agent has counted, by node
	spells []spell
}

// run is the repetition of a pattern for one object.
type run struct {
	Object redact.Text `json:"object"`
	slots
}

// example is a line about one object, without secrets.
type example struct {
	Object redact.Text `json:"object"`
	Line   redact.Text `json:"line"`
}

func (p *pattern) key() string { return string(binary.BigEndian.AppendUint64(nil, p.Key)) }

func (p *pattern) size() int {
	n := 320 + len(p.Template) + len(p.Error) + len(p.Line) + 16*len(p.counts) + 32*len(p.spells)
	for i := range p.Runs {
		n += 48 + len(p.Runs[i].Object)
	}
	for i := range p.Examples {
		n += 32 + len(p.Examples[i].Object) + len(p.Examples[i].Line)
	}
	for _, pod := range p.Pods {
		n += 16 + len(pod)
	}
	return n
}

func (p *pattern) text() redact.Text {
	if p.Error == "" {
		return p.Template
	}
	return p.Template + ": " + p.Error
}

// add counts a line. settled means that the line's pod was no longer starting.
func (p *pattern) add(c *discover.Complaint, object redact.Text, t, weight int64, settled bool) {
	p.Level, p.Words = max(p.Level, c.Level), max(p.Words, c.Words)
	p.Passes, p.Waits, p.Ends = c.Passes, c.Waits, p.Ends || c.Ends
	if p.Count == 0 || t < p.First {
		p.First = t
	}
	p.Last = max(p.Last, t)
	p.Count += weight
	if settled {
		p.All.add(t)
	}
	if r := p.run(object, t); r != nil {
		r.add(t)
	}
	p.spell(hashOf(string(object+"\xff"+c.FirstName)), t)
}

// run returns the run of an object, or nil if there is no room for another object. Other objects do
// not displace a run in progress.
func (p *pattern) run(object redact.Text, t int64) *run {
	object = cleanObject(object)
	if k := slices.IndexFunc(p.Runs, func(r run) bool { return r.Object == object }); k >= 0 {
		return &p.Runs[k]
	}
	if len(p.Runs) < maxRuns {
		p.Runs = append(p.Runs, run{Object: object.Clone()})
		return &p.Runs[len(p.Runs)-1]
	}
	k := slices.IndexFunc(p.Runs, func(r run) bool { return t/slotSeconds-int64(r.Newest) > maxGap })
	if k < 0 {
		return nil
	}
	p.Runs[k] = run{Object: object.Clone()}
	return &p.Runs[k]
}

func cleanObject(object redact.Text) redact.Text {
	return text.Truncate(redact.Sanitise(object), maxObject)
}

// Repetition that a run needs to count as persistent: the number of intervals with a line, and the
// time from the first to the last interval in seconds. Warnings and waits need more repetition than
// errors, because they are often harmless. Failures that usually end with the next attempt, such as
// a conflict, need the most.
const (
	errorIntervals, errorFor     = 4, 30 * 60
	warningIntervals, warningFor = 6, 60 * 60
	passingIntervals, passingFor = 8, 90 * 60
)

var (
	persistentError   = chain{count: errorIntervals, span: errorFor / slotSeconds}
	persistentWarning = chain{count: warningIntervals, span: warningFor / slotSeconds}
	persistentPassing = chain{count: passingIntervals, span: passingFor / slotSeconds}
)

// needs returns the repetition that a run of the pattern needs to count as persistent.
func (p *pattern) needs() chain {
	switch {
	case p.Passes && p.Level < discover.LevelError:
		return chain{count: 1 << 30}
	case p.Passes:
		return persistentPassing
	case p.urgent():
		return persistentError
	}
	return persistentWarning
}

func (p *pattern) urgent() bool { c := p.complaint(); return c.Urgent() }

func (p *pattern) complaint() discover.Complaint {
	return discover.Complaint{Level: p.Level, Words: p.Words, Passes: p.Passes, Waits: p.Waits}
}

// stuck returns the run of the object for which the pattern has persisted longest. It returns
// nil if the pattern does not persist.
func (p *pattern) stuck() *run {
	var out *run
	need := p.needs()
	for i := range p.Runs {
		r := &p.Runs[i]
		if r.newest().atLeast(need.count, need.span) && (out == nil || cmp.Or(cmp.Compare(r.began(), out.began()), cmp.Compare(r.Object, out.Object)) < 0) {
			out = r
		}
	}
	return out
}

func (p *pattern) wantsExample(object redact.Text) bool {
	if len(p.Examples) >= maxExamples {
		return false
	}
	object = cleanObject(object)
	return !slices.ContainsFunc(p.Examples, func(e example) bool { return e.Object == object })
}

func (p *pattern) addExample(object, line redact.Text) {
	p.Examples = append(p.Examples, example{cleanObject(object).Clone(), line})
}

func (p *pattern) addPod(pod string) {
	if pod != "" && len(p.Pods) < maxOfPods && !slices.Contains(p.Pods, pod) {
		p.Pods = append(p.Pods, strings.Clone(pod))
	}
}

// Limits of the intervals. Controllers that retry with growing pauses are silent for up to
// seventeen minutes, which is three intervals, or rarely four.
const (
	slotSeconds = 300
	longestGap  = 25 * 60                    // longest time without a line, in seconds
	maxGap      = longestGap/slotSeconds - 1 // largest distance between two successive intervals with a line
)

// slots is a set of intervals of five minutes that contain a line. It covers the last 64
// intervals. The zero value is empty. Intervals can be added and merged in any order and
// repeatedly.
type slots struct {
	Newest int32  `json:"n"` // number of the newest interval, counted from 1970
	Bits   uint64 `json:"b"` // bit k is set if interval Newest-k contains a line
}

func (s *slots) add(t int64) { s.merge(slots{int32(t / slotSeconds), 1}) }

func (s *slots) merge(o slots) {
	switch d := int64(o.Newest) - int64(s.Newest); {
	case o.Bits == 0:
	case s.Bits == 0 || d >= 64:
		*s = o
	case d >= 0:
		s.Newest, s.Bits = o.Newest, s.Bits<<d|o.Bits
	case d > -64:
		s.Bits |= o.Bits << -d
	}
}

// chain is a sequence of intervals with lines, without a long gap.
type chain struct {
	count int // number of intervals that contain a line
	span  int // number of intervals from the first to the last one
}

// newest returns the chain that ends with the newest interval.
func (s slots) newest() (c chain) {
	for rest := s.Bits; rest != 0; rest &= rest - 1 {
		k := bits.TrailingZeros64(rest)
		if k-c.span > maxGap {
			break
		}
		c.count, c.span = c.count+1, k
	}
	return c
}

// began returns the start of the newest chain, in Unix seconds.
func (s slots) began() int64 { return (int64(s.Newest) - int64(s.newest().span)) * slotSeconds }

func (c chain) atLeast(count, span int) bool { return c.count >= count && c.span >= span }

// Limits in seconds that decide when a complaint repeats in a short recorded log, for which the
// other criteria need too much time.
const (
	maxSpells    = 8    // largest number of objects
	maxPause     = 1200 // longest pause within a spell, in seconds
	repeatsFor   = 180  // shortest time from the first line to the last, in seconds
	waitsFor     = 600  // shortest time from the first line to the last if nothing has failed yet, in seconds
	repeatsEvery = 300  // longest average distance between lines, in seconds
	// repeats is the smallest number of minutes that contain a line, because many lines in one
	// minute are one attempt.
	repeats = 3
)

// spell is an uninterrupted repetition of a pattern for one object. It is not saved, because
// only recorded logs need it.
type spell struct {
	object      uint64 // hash of the object
	first, last int64
	minutes     int // lower bound of the number of minutes that contain a line
}

func (p *pattern) spell(object uint64, t int64) {
	k := slices.IndexFunc(p.spells, func(x spell) bool { return x.object == object })
	switch {
	case k >= 0:
		p.spells[k].add(t)
	case len(p.spells) < maxSpells:
		p.spells = append(p.spells, spell{object, t, t, 1})
	default:
		oldest := slices.MinFunc(p.spells, func(a, b spell) int { return cmp.Compare(a.last, b.last) })
		k = slices.Index(p.spells, oldest)
		p.spells[k] = spell{object, t, t, 1}
	}
}

func (x *spell) add(t int64) {
	switch {
	case t > x.last+maxPause:
		x.first, x.last, x.minutes = t, t, 1
	case t > x.last:
		if t/60 != x.last/60 {
			x.minutes++
		}
		x.last = t
	case t < x.first && t >= x.first-maxPause: // the line comes from another file about the same object
		if t/60 != x.first/60 {
			x.minutes++
		}
		x.first = t
	}
}

// repeats reports whether the pattern repeats for one object up to the end of a log. It must
// have repeated for minutes and often enough, and the time since its last line must not exceed
// the time for which it repeated.
func (p *pattern) repeats(end int64) bool {
	need := int64(repeatsFor)
	if !p.urgent() {
		need = waitsFor
	}
	return slices.ContainsFunc(p.spells, func(x spell) bool {
		took := x.last - x.first
		return x.minutes >= repeats && took >= need && took <= int64(x.minutes-1)*repeatsEvery && end-x.last <= took
	})
}
