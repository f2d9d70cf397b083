package casefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes/render"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Limits of the lines that a case contains.
const (
	firstLines = 6 // maximum number of first lines for each rule, part and log
	lastLines  = 4
	maxGroups  = 5_000
	maxRaw     = 2 << 10 // maximum length of a line in bytes before it is redacted
	maxEntries = 500
)

// Recorder keeps matched lines of a scan for the timeline. These are the first and the newest lines for each rule, part
// and log. Its memory is limited. It is not safe for concurrent use.
type Recorder struct {
	redact  *redact.Redactor
	groups  map[groupKey]*lineGroup
	omitted int64 // number of lines in groups that exceed the limit
}

// NewRecorder returns a recorder. The redactor must hide all data that must not leave the cluster.
func NewRecorder(r *redact.Redactor) *Recorder {
	return &Recorder{redact: r, groups: map[groupKey]*lineGroup{}}
}

// groupKey identifies the lines of one part of a rule in one log.
type groupKey struct {
	rule *rules.Rule
	part matcher.Part
	log  string
}

type lineGroup struct {
	source string
	labels matcher.Labels
	first  []keptLine
	last   []keptLine // newest lines, ordered by time
	count  int64
}

type keptLine struct {
	at    time.Time
	raw   string // line before redaction; "" after it is redacted
	clean redact.Text
}

// Add records hits of an input. It can be used as replay.ScanOptions.OnHits.
func (r *Recorder) Add(file string, hits []matcher.Hit) {
	for i := range hits {
		r.add(file, &hits[i])
	}
}

func (r *Recorder) add(file string, h *matcher.Hit) {
	k := groupKey{h.Rule, h.Part, logName(file, h.Labels)}
	g := r.groups[k]
	if g == nil {
		if len(r.groups) == maxGroups {
			r.omitted++
			return
		}
		g = &lineGroup{source: logKind(h.Labels), labels: maps.Clone(h.Labels)}
		r.groups[k] = g
	}
	g.count++
	l := keptLine{at: h.Time, raw: h.Line}
	if h.Untimed {
		l.at = time.Time{}
	}
	if len(g.first) < firstLines {
		g.first = append(g.first, r.finishLine(l))
		return
	}
	if len(l.raw) > maxRaw {
		l = r.finishLine(l)
	} else {
		l.raw = strings.Clone(l.raw)
	}
	if len(g.last) == lastLines {
		copy(g.last, g.last[1:])
		g.last = g.last[:lastLines-1]
	}
	g.last = append(g.last, l)
}

func (r *Recorder) finishLine(l keptLine) keptLine {
	if l.raw != "" {
		l.raw, l.clean = "", text.Truncate(r.redact.Text(l.raw), render.MaxLine).Map(safeLine).Clone()
	}
	return l
}

// redactText redacts a text that is not a log line, such as a path.
func (r *Recorder) redactText(s string) string { return safeLine(string(r.redact.Text(s))) }

// Kinds of logs.
const (
	sourcePods    = "pod log"
	sourceJournal = "journal"
	sourceEvents  = "Events"
	sourceObjects = "objects"
	sourceFiles   = "log"
)

// logKind returns the kind of a log from its labels. Only lines that crowsnest itself writes
// have the label component.
func logKind(l matcher.Labels) string {
	switch {
	case l["component"] == "events":
		return sourceEvents
	case l["component"] != "":
		return sourceObjects
	case l["unit"] != "" || l["identifier"] != "" || l["transport"] != "":
		return sourceJournal
	case l["namespace"] != "" || l["pod"] != "" || l["container"] != "":
		return sourcePods
	}
	return sourceFiles
}

func logName(file string, l matcher.Labels) string {
	var parts []string
	add := func(values ...string) {
		values = slices.DeleteFunc(values, func(s string) bool { return s == "" })
		if len(values) > 0 {
			parts = append(parts, strings.Join(values, "/"))
		}
	}
	switch logKind(l) {
	case sourcePods:
		add(l["namespace"], l["pod"], l["container"])
	case sourceJournal:
		add(cmp.Or(l["unit"], l["identifier"], l["transport"]))
	case sourceEvents:
		add(cmp.Or(l["namespace"], "cluster-wide"))
	case sourceObjects:
		add(l["component"], l["namespace"])
	default:
		add(file)
	}
	if node := cmp.Or(l["node"], l["node_name"]); node != "" {
		add("node " + node)
	}
	if l["cluster"] != "" {
		add("cluster " + l["cluster"])
	}
	return strings.Join(parts, ", ")
}

// lineEntries returns the kept lines as entries, ordered by time. A line that matches several parts becomes one entry.
func (r *Recorder) lineEntries(failures []Failure, rulesOf []*rules.Rule) []Entry {
	type place struct {
		at   time.Time
		log  string
		line redact.Text
	}
	at := map[place]int{}
	var out []Entry
	for _, k := range slices.SortedFunc(maps.Keys(r.groups), compareGroups) {
		g := r.groups[k]
		rest := g.count - int64(len(g.first)) - int64(len(g.last))
		for i, l := range slices.Concat(g.first, g.last) {
			l = r.finishLine(l)
			told := partText(k)
			if rest > 0 && i == len(g.first) {
				told += fmt.Sprintf("; %s of them before it are omitted", text.GroupThousands(rest))
			}
			p := place{l.at, k.log, l.clean}
			e, known := at[p]
			if !known {
				e, at[p] = len(out), len(out)
				out = append(out, Entry{Time: optionalTime(l.at), Kind: kindLine, Source: g.source, Log: r.redactText(k.log), Line: l.clean, FailureIDs: []int{}})
			} else {
				told = "; " + told
			}
			out[e].Text += told
			for n := range failures {
				if belongsTo(k, g, l.at, &failures[n], rulesOf[n]) && !slices.Contains(out[e].FailureIDs, failures[n].ID) {
					out[e].FailureIDs = append(out[e].FailureIDs, failures[n].ID)
				}
			}
		}
	}
	return out
}

func compareGroups(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.rule.Alert, b.rule.Alert), cmp.Compare(a.part, b.part))
}

func partText(k groupKey) string {
	switch {
	case k.part == matcher.PartClear:
		return k.rule.Alert + ": reports the recovery"
	case k.part == matcher.PartUnless:
		return k.rule.Alert + ": announces planned work, or rules the failure out"
	case k.rule.Sequence:
		return fmt.Sprintf("%s: step %d of %d", k.rule.Alert, int(k.part)+1, len(k.rule.Steps))
	}
	return k.rule.Alert + ": matches"
}

// belongsTo reports whether a line belongs to a failure. The line must match the rule of the failure, and its time must
// be within the failure. Labels that both have must be equal.
func belongsTo(k groupKey, g *lineGroup, t time.Time, f *Failure, rule *rules.Rule) bool {
	if rule != k.rule || t.Before(f.Since.Add(-rule.Within)) || hasEnded(f, t) {
		return false
	}
	for name, value := range g.labels {
		if own, ok := f.Labels[name]; ok && placeNouns[name] != "" && own != value {
			return false
		}
	}
	return true
}
