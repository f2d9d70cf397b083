package web

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/episodes"
)

const (
	maxGroup  = 5  // alerts in the unfolded row of a rule; the others are one click away
	maxSpaces = 3  // namespaces that such a row names
	maxChain  = 16 // length of a chain of causes that is followed
)

// row is one alert, or all alerts of one rule in the list.
type row struct {
	episodes.Episode          // the first of the alerts
	Alerts           []member // at most maxGroup alerts
	Total            int      // number of alerts; 1 means that the row is that alert
	Pending          int
	Held, Silenced   int
	Lines            int64
	Began            time.Time // beginning of the earliest alert, as far as lines show it
	Spaces           []string  // namespaces, at most maxSpaces
	MoreSpaces       bool
	Symptoms         []symptom // alerts of other rules that these alerts caused, and that have no row of their own
	Link             string    // the page with all alerts of the rule

	Silence     *Silencing // silence of the first alert; nil if it is not silenced
	Seen        *Seen      // nil if there was no earlier episode
	Actions     Actions
	Undelivered []Delivery // receivers that do not have its newest state
	Spark       string     // SVG path of its lines per minute in the last hour; empty if unknown
	Steps       remedy
}

type member struct {
	episodes.Episode
	Silenced bool
}

type symptom struct {
	Alert, Severity, Link string
	Count                 int
}

// folder folds lists of alerts to one row for each rule.
type folder struct {
	query    query
	silenced func(*episodes.Episode) *Silencing
	flat     bool // whether each alert has a row of its own
}

// foldRows returns the rows of a list, the most severe first. An alert whose cause is in the list and as
// severe is counted in the row of the cause.
func (f folder) foldRows(list []episodes.Episode) []row {
	ranks, notes := make([]rank, len(list)), make([]*Silencing, len(list))
	order, at := make([]int, len(list)), make(map[episodes.Fingerprint]int, len(list))
	for i := range list {
		notes[i] = f.silenced(&list[i])
		ranks[i], order[i], at[list[i].Fingerprint] = newRank(&list[i], notes[i] != nil), i, i
	}
	slices.SortFunc(order, func(i, j int) int {
		if c := ranks[i].compare(ranks[j]); c != 0 {
			return c
		}
		return cmp.Or(newerFirst(&list[i], &list[j]), i-j)
	})
	causes := map[int]int{}
	if !f.flat {
		causes = rootCauses(list, ranks, at)
	}
	byRule, rowOf := map[string]int{}, make([]int, len(list))
	var out []row
	for _, i := range order {
		if _, caused := causes[i]; caused {
			continue
		}
		e := &list[i]
		k, ok := byRule[e.Alert]
		if !ok || f.flat {
			k, byRule[e.Alert] = len(out), len(out)
			out = append(out, row{Episode: *e, Silence: notes[i], Link: f.query.withLabel("alertname", e.Alert).pageLink(1)})
		}
		rowOf[i] = k
		out[k].countAlert(e, notes[i] != nil)
	}
	for _, i := range order {
		if cause, caused := causes[i]; caused {
			out[rowOf[cause]].addSymptom(&list[i], f.query)
		}
	}
	return out
}

// rank orders alerts: first those that are not silenced, then by severity, then firing before pending.
type rank [3]int

func newRank(e *episodes.Episode, silenced bool) rank {
	return rank{boolRank(silenced), severityRank(e.Labels["severity"]), boolRank(e.State != episodes.StateFiring)}
}

func (r rank) compare(o rank) int { return slices.Compare(r[:], o[:]) }

// canContain reports whether the row of an alert with rank r may contain an alert with rank o.
// It may not if something more severe could be missed.
func (r rank) canContain(o rank) bool { return r[0] <= o[0] && r[1] <= o[1] && r[2] <= o[2] }

// rootCauses returns, for each symptom without a row of its own, the alert in whose row it is counted. Both
// are places in the list, which index has by fingerprint.
func rootCauses(list []episodes.Episode, ranks []rank, index map[episodes.Fingerprint]int) map[int]int {
	direct := map[int]int{}
	for i := range list {
		c := list[i].Cause
		if c == nil {
			continue
		}
		if k, listed := index[c.Fingerprint]; listed && ranks[k].canContain(ranks[i]) {
			direct[i] = k
		}
	}
	out := map[int]int{}
	for of, cause := range direct {
		steps := 0
		for next, more := direct[cause]; more && steps < maxChain; next, more = direct[cause] {
			cause = next
			steps++
		}
		if steps < maxChain { // snapshots of different times may form a circle
			out[of] = cause
		}
	}
	return out
}

func (r *row) countAlert(e *episodes.Episode, silenced bool) {
	r.Total++
	r.Lines += e.Count
	if at := e.ActiveAt(); r.Began.IsZero() || at.Before(r.Began) {
		r.Began = at
	}
	if e.State == episodes.StatePending {
		r.Pending++
	}
	if e.OnHold && isEpisodeOpen(*e) {
		r.Held++
	}
	if silenced {
		r.Silenced++
	}
	if len(r.Alerts) < maxGroup {
		r.Alerts = append(r.Alerts, member{*e, silenced})
	}
	switch space := e.Labels["namespace"]; {
	case space == "" || slices.Contains(r.Spaces, space):
	case len(r.Spaces) == maxSpaces:
		r.MoreSpaces = true
	default:
		r.Spaces = append(r.Spaces, space)
	}
}

func (r *row) addSymptom(e *episodes.Episode, q query) {
	k := slices.IndexFunc(r.Symptoms, func(x symptom) bool { return x.Alert == e.Alert })
	if k < 0 {
		k = len(r.Symptoms)
		r.Symptoms = append(r.Symptoms, symptom{Alert: e.Alert, Severity: e.Labels["severity"], Link: q.withLabel("alertname", e.Alert).pageLink(1)})
	}
	r.Symptoms[k].Count++
}

// Caused counts the symptoms.
func (r row) Caused() (n int64) {
	for _, x := range r.Symptoms {
		n += int64(x.Count)
	}
	return n
}

// More is the number of alerts that the row does not unfold to.
func (r row) More() int { return r.Total - len(r.Alerts) }

// toggleGrouping returns the query with a row for each alert instead of each rule, or vice versa.
func (q query) toggleGrouping() query {
	q.flat = !q.flat
	return q
}
