package sentinel

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// Bounds of the state of one pattern.
const (
	maxRuns     = 8 // number of objects
	maxExamples = 3
	maxOfPods   = 4
	maxObject   = 96
)

// startup is the time in seconds after the start of a pod during which its complaints do not
// count as new, because what the pod needs may not be there yet.
const startup = 600

// pattern stands for the lines of one component that report the same error. Its texts come from
// the first line. Everything else can be merged in any order.
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
	All      slots          `json:"all"` // intervals with lines that were not written at the start of a pod
	Runs     []run          `json:"runs,omitempty"`
	Pods     []string       `json:"pods,omitempty"` // pods that wrote it first
	Examples []example      `json:"examples,omitempty"`
	// Line is the first line, without secrets, for writing a rule.
	Line redact.Text `json:"line,omitempty"`
	// Alerted is the time when an alert last fired for the pattern.
	Alerted int64 `json:"alerted,omitempty"`

	counts map[string]int64 // number of lines that each agent has counted
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

// size estimates the memory of the pattern in bytes.
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

// text returns the message and its error.
func (p *pattern) text() redact.Text {
	if p.Error == "" {
		return p.Template
	}
	return p.Template + ": " + p.Error
}

// add counts a line. settled means that the start of the line's pod was over.
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
	p.spell(hashOf(string(object+"\xff"+c.Thing)), t)
}

// run returns the run of an object, or nil if there is no room for another object. A run that
// is active is tracked to its end.
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

// Repetition that a run needs to count as persistent. count is the number of intervals with a
// line, and span is the number of intervals from the first to the last.
var (
	persistentError   = chain{count: 4, span: 6}  // half an hour
	persistentWarning = chain{count: 6, span: 12} // an hour, because warnings and waits are often harmless
	persistentPassing = chain{count: 8, span: 18} // for a failure that usually ends with the next attempt, such as a conflict
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

// urgent reports whether the pattern is an error by its level or by its words.
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
