package web

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

const (
	maxGroup  = 5  // maximum number of alerts in the unfolded row of a rule; the rest is on another page
	maxSpaces = 3  // maximum number of namespaces that the row of a rule names
	maxChain  = 16 // maximum length of a chain of causes that is followed
)

// row is one alert, or all alerts of one rule in the list.
type row struct {
	episodes.Episode          // first alert of the row
	Alerts           []member // alerts of the row, at most maxGroup
	Total            int      // number of alerts; 1 means that the row is a single alert
	Pending          int
	Held, Suppressed int
	HowSuppressed    string // "silenced", "inhibited" or both
	Lines            int64
	Began            time.Time // time when the earliest of the failures began, according to its lines
	Spaces           []string  // namespaces, at most maxSpaces
	MoreSpaces       bool
	Symptoms         []symptom // alerts of other rules that these alerts caused and that have no row of their own
	Link             string    // address of the page with all alerts of the rule

	Suppression *history.Suppression // reason why Alertmanager notifies nobody of the first alert; nil if it notifies
	Seen        *Seen                // earlier episodes of the alert; nil if there were none
	Actions     Actions
	Undelivered []Delivery // receivers that do not have the newest state of the alert
	Spark       string     // SVG path of the number of lines per minute in the last hour; empty if unknown
	Steps       remedy
}

type member struct {
	episodes.Episode
	Suppression *history.Suppression
}

type symptom struct {
	Alert, Severity, Link string
	Count                 int
}

// folder combines the alerts of each rule in a list to one row.
type folder struct {
	query       query
	suppression func(*episodes.Episode) *history.Suppression
	flat        bool // whether each alert has a row of its own
}

// foldRows returns the rows of a list, the most severe row first. If the cause of an alert is also in the list and at
// least as severe, the alert is counted in the row of the cause.
func (f folder) foldRows(list []episodes.Episode) []row {
	ranks, notes := make([]rank, len(list)), make([]*history.Suppression, len(list))
	order, at := make([]int, len(list)), make(map[episodes.Fingerprint]int, len(list))
	for i := range list {
		notes[i] = f.suppression(&list[i])
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
			out = append(out, row{Episode: *e, Suppression: notes[i], Link: f.query.withLabel("alertname", e.Alert).pageLink(1)})
		}
		rowOf[i] = k
		out[k].countAlert(e, notes[i])
	}
	for _, i := range order {
		if cause, caused := causes[i]; caused {
			out[rowOf[cause]].addSymptom(&list[i], f.query)
		}
	}
	return out
}

// rank orders alerts. Alerts that are not suppressed come first, then more severe alerts, then firing before pending
// alerts.
type rank [3]int

func newRank(e *episodes.Episode, suppressed bool) rank {
	return rank{boolRank(suppressed), severityRank(e.Labels["severity"]), boolRank(e.State != episodes.StateFiring)}
}

func (r rank) compare(o rank) int { return slices.Compare(r[:], o[:]) }

// canContain reports whether an alert of rank o may be hidden in the row of an alert of rank r. It must not be hidden
// if it ranks higher in any respect.
func (r rank) canContain(o rank) bool { return r[0] <= o[0] && r[1] <= o[1] && r[2] <= o[2] }

// rootCauses finds the symptoms that have no row of their own. For each, it returns the alert in whose row the symptom
// is counted. Keys and values are indexes in list. index contains these indexes by fingerprint.
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
		if steps < maxChain { // otherwise the causes form a cycle, because list may combine snapshots of different times
			out[of] = cause
		}
	}
	return out
}

func (r *row) countAlert(e *episodes.Episode, suppression *history.Suppression) {
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
	if suppression != nil {
		r.Suppressed++
		switch kind := suppression.Kind(); r.HowSuppressed {
		case "", kind:
			r.HowSuppressed = kind
		default:
			r.HowSuppressed = "silenced or inhibited"
		}
	}
	if len(r.Alerts) < maxGroup {
		r.Alerts = append(r.Alerts, member{*e, suppression})
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

// Caused returns the number of symptoms of the row's alerts.
func (r row) Caused() (n int64) {
	for _, x := range r.Symptoms {
		n += int64(x.Count)
	}
	return n
}

// More returns the number of alerts that the row does not show when it is unfolded.
func (r row) More() int { return r.Total - len(r.Alerts) }

// toggleGrouping returns the query with the other grouping: one row for each alert instead of one row for each rule, or
// vice versa.
func (q query) toggleGrouping() query {
	q.flat = !q.flat
	return q
}
