package web

import (
	"fmt"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// Cause is the alert that an episode is a symptom of, in the format of the API.
type Cause struct {
	Fingerprint string            `json:"fingerprint"`
	Alert       string            `json:"alert"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
}

func toCause(c *episodes.Cause) *Cause {
	if c == nil {
		return nil
	}
	return &Cause{Fingerprint: c.Fingerprint.String(), Alert: c.Alert, Severity: c.Severity, Labels: notNilMap(c.Labels), Summary: c.Summary, StartsAt: c.StartsAt}
}

// symptomsOf returns the open episodes of each cause, in their order.
func symptomsOf(all []episodes.Episode) map[episodes.Fingerprint][]episodes.Episode {
	out := map[episodes.Fingerprint][]episodes.Episode{}
	for _, e := range all {
		if e.Cause != nil && open(e) {
			out[e.Cause.Fingerprint] = append(out[e.Cause.Fingerprint], e)
		}
	}
	return out
}

// row is an episode of a list in which symptoms follow their causes.
type row struct {
	episodes.Episode
	Depth    int   // how many causes of it are above it
	Symptoms int64 // in the whole list below it
	Seen     *Seen // nil: never before

	Head    *groupHead // of the group that begins with the row; nil: another row begins it
	Grouped bool       // the heading of its group says its place

	Actions     Actions
	Undelivered []Delivery // receivers that do not have its state
	Spark       string     // path of its lines per minute in the last hour; "": not known
	Recent      uint64     // lines in the last hour
	Steps       remedy
}

// maxDepth bounds how far a row moves to the right.
const maxDepth = 3

// Indent is the class that moves a symptom below its cause.
func (r row) Indent() string {
	if r.Depth == 0 {
		return ""
	}
	return fmt.Sprintf("below-%d", min(r.Depth, maxDepth))
}

// grouped puts symptoms below their causes. A cause with its symptoms has the place of the
// first of them in the list, so that nothing severe moves down.
func grouped(list []episodes.Episode) []row {
	at := map[episodes.Fingerprint]int{}
	for i, e := range list {
		at[e.Fingerprint] = i
	}
	below := map[int][]int{}
	cause := func(i int) (int, bool) {
		c := list[i].Cause
		if c == nil {
			return 0, false
		}
		k, ok := at[c.Fingerprint]
		return k, ok && k != i
	}
	for i := range list {
		if k, ok := cause(i); ok {
			below[k] = append(below[k], i)
		}
	}
	out := make([]row, 0, len(list))
	done := make([]bool, len(list))
	var add func(i, depth int) int64
	add = func(i, depth int) (n int64) {
		if done[i] {
			return 0
		}
		done[i] = true
		out = append(out, row{Episode: list[i], Depth: depth})
		self := len(out) - 1
		for _, k := range below[i] {
			n += add(k, depth+1)
		}
		out[self].Symptoms = n
		return n + 1
	}
	for i := range list {
		root := i
		for range list { // a circle would end at any of its alerts
			k, ok := cause(root)
			if !ok {
				break
			}
			root = k
		}
		add(root, 0)
		add(i, 0)
	}
	return out
}

// SymptomOf is a cause of a rule in the format of the API.
type SymptomOf struct {
	Alert string `json:"alert"`
	// Same are the labels that must agree; absent: the names that are in the keys of both
	// rules.
	Same []string `json:"same,omitempty"`
	// AnyLabels is set if no label must agree.
	AnyLabels bool    `json:"anyLabels,omitempty"`
	Lag       float64 `json:"lag,omitempty"` // in seconds
	// Text says the same for people.
	Text string `json:"-"`
}

func toSymptomOf(r *rules.Rule) []SymptomOf {
	var out []SymptomOf
	for i := range r.Causes {
		c := &r.Causes[i]
		out = append(out, SymptomOf{Alert: c.Alert, Same: c.Same, AnyLabels: c.Same != nil && len(c.Same) == 0, Lag: c.Lag.Seconds(), Text: c.Text()})
	}
	return out
}

// causing returns the names of the rules that are symptoms of each rule.
func causing(set *rules.Set) map[string][]string {
	out := map[string][]string{}
	for _, r := range set.Rules {
		for i := range r.Causes {
			if of := r.Causes[i].Alert; !slices.Contains(out[of], r.Alert) {
				out[of] = append(out[of], r.Alert)
			}
		}
	}
	return out
}
