package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// State is the state of a cluster.
type State string

// The states of a cluster.
const (
	// Up is a cluster whose daemon answered lately.
	Up State = "up"
	// Unknown is a cluster whose daemon does not answer, or not with something that can be
	// used, or that discovery no longer finds.
	Unknown State = "unknown"
	// Conflict is a cluster whose name is in doubt. What its daemon reports is not used.
	Conflict State = "conflict"
)

// States returns all states.
func States() []State { return []State{Up, Unknown, Conflict} }

// Cluster is what is known about a cluster. If it is not up, what its daemon reported is as
// old as Answered.
type Cluster struct {
	Name  string `json:"name"`
	State State  `json:"-"`
	// Since is the last answer of a cluster that is unknown, or when it was found if it has
	// never answered; else since when it has its state.
	Since time.Time `json:"-"`
	Error string    `json:"-"` // why it is not up
	// Link is the address of its pages for people, without credentials.
	Link     string    `json:"link,omitempty"`
	Answered time.Time `json:"answered,omitzero"` // last answer that was used; zero: never
	Version  string    `json:"version,omitempty"` // of crowsnest
	// Open counts its firing alerts by severity, and Rules lists the rules among them, by
	// name.
	Open  map[string]int `json:"open,omitempty"`
	Rules []Rule         `json:"rules,omitempty"`
}

// Rule is a rule with firing alerts in a cluster.
type Rule struct {
	Name     string    `json:"name"`
	Severity string    `json:"severity"` // the most severe of its alerts
	Open     int       `json:"open"`     // alerts
	Since    time.Time `json:"since"`    // of the oldest of them
	// Affected is what the versions say: yes, no or unknown; "" if the rule names none. A
	// yes of one alert takes precedence over unknown, and that over no.
	Affected string `json:"affected,omitempty"`
	// Versions are running versions of its component, as far as they are known, sorted.
	Versions []string `json:"versions,omitempty"`
}

// Severity orders severities: the most severe has the highest rank.
func Severity(name string) int {
	return slices.Index([]string{"info", "warning", "critical"}, name)
}

// verdicts orders what versions say, the strongest last.
var verdicts = []string{"", "no", "unknown", "yes"}

// Bounds of what is kept of one answer.
const (
	maxRules    = 1000
	maxVersions = 8
	maxVersion  = 64  // bytes
	maxError    = 300 // bytes
)

// tally sums up the alerts of an answer.
type tally struct {
	open  map[string]int
	rules map[string]*Rule
}

func newTally() *tally { return &tally{open: map[string]int{}, rules: map[string]*Rule{}} }

// add counts one firing alert.
func (t *tally) add(e *episode) {
	severity := e.Labels.Severity
	if Severity(severity) < 0 {
		severity = "none"
	}
	t.open[severity]++
	if e.Pack == "" { // not of a rule
		return
	}
	r := t.rules[e.Alert]
	if r == nil {
		r = &Rule{Name: e.Alert, Severity: severity, Since: e.StartsAt.UTC()}
		t.rules[e.Alert] = r
	}
	r.Open++
	if Severity(severity) > Severity(r.Severity) {
		r.Severity = severity
	}
	if e.StartsAt.Before(r.Since) {
		r.Since = e.StartsAt.UTC()
	}
	affected, running := running(e.Annotations.Affected)
	if slices.Index(verdicts, affected) > slices.Index(verdicts, r.Affected) {
		r.Affected = affected
	}
	if running = clean(running, maxVersion); running != "" && len(r.Versions) < maxVersions && !slices.Contains(r.Versions, running) {
		r.Versions = append(r.Versions, running)
	}
}

func (t *tally) list() []Rule {
	out := make([]Rule, 0, len(t.rules))
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		r := *t.rules[name]
		slices.Sort(r.Versions)
		out = append(out, r)
	}
	return out
}

// same reports whether two clusters have reported the same.
func (c *Cluster) same(o *Cluster) bool {
	return c.Link == o.Link && c.Version == o.Version && maps.Equal(c.Open, o.Open) && slices.EqualFunc(c.Rules, o.Rules, func(a, b Rule) bool {
		return a.Name == b.Name && a.Severity == b.Severity && a.Open == b.Open && a.Since.Equal(b.Since) && a.Affected == b.Affected && slices.Equal(a.Versions, b.Versions)
	})
}

// clean returns a text of a daemon on one line, safe to show, with at most n bytes.
func clean(s string, n int) string {
	return text.Shorten(redact.Sanitise(strings.Join(strings.Fields(s), " ")), n)
}

func byName(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) }
