package replay

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// FileLabel is a label that distinguishes inputs from unknown places, if there are several. A key that lacks a value of
// the rule's `by` includes this label, because the same key in another file may be another failure. A key with all
// values means the same failure in all files.
const FileLabel = "file"

var scanIdentity = append(slices.Clone(rules.DefaultIdentity), FileLabel)

// places adds FileLabel to hits of inputs from unknown places where it is needed. It also remembers lines of other
// files that may have ended a failure.
type places struct {
	unfiled [256]unfiled
	hits    []matcher.Hit // reused buffer
	ends    map[*rules.Rule][]lastClear
}

// unfiled holds labels that contain FileLabel (original), and the same labels without it.
type unfiled struct{ original, labels matcher.Labels }

// lastClear is the newest clear line of a rule in one file, with the line's values of `by`.
type lastClear struct {
	at     time.Time
	file   string
	values []string
}

// maxEndings is the maximum number of clear lines that are remembered for each rule.
const maxEndings = 256

// keyedHits prepares hits of one input for the engine. Hits whose key has all values lose FileLabel. Hits of clear and
// unless are returned twice, with and without FileLabel. The result is valid until the next call.
func (p *places) keyedHits(hits []matcher.Hit) []matcher.Hit {
	file := hits[0].Labels[FileLabel]
	if file == "" {
		return hits
	}
	labels := p.withoutFile(hits[0].Labels)
	p.hits = p.hits[:0]
	for _, h := range hits {
		switch {
		case h.Part < 0:
			p.noteClear(&h, file)
			p.hits = append(p.hits, h)
			h.ID, h.Labels = ^h.ID, labels // with the same ID, the second hit would count as a repetition
		case !slices.Contains(h.Values[:len(h.Rule.By)], ""):
			h.Labels = labels
		}
		p.hits = append(p.hits, h)
	}
	return p.hits
}

// withoutFile returns labels without FileLabel. For the same labels it usually returns the same map, because engines
// cache results by the address of the map.
func (p *places) withoutFile(labels matcher.Labels) matcher.Labels {
	address := reflect.ValueOf(labels).Pointer()
	x := &p.unfiled[address/64%uintptr(len(p.unfiled))]
	if x.original == nil || reflect.ValueOf(x.original).Pointer() != address {
		*x = unfiled{labels, maps.Clone(labels)}
		delete(x.labels, FileLabel)
	}
	return x.labels
}

func (p *places) noteClear(h *matcher.Hit, file string) {
	if h.Part != matcher.PartClear {
		return
	}
	if p.ends == nil {
		p.ends = map[*rules.Rule][]lastClear{}
	}
	all, values := p.ends[h.Rule], h.Values[:len(h.Rule.By)]
	i := slices.IndexFunc(all, func(e lastClear) bool { return e.file == file && slices.Equal(e.values, values) })
	switch {
	case i >= 0:
		all[i].at = times.Max(all[i].at, h.Time)
	case len(all) < maxEndings:
		values = slices.Clone(values)
		for k, v := range values {
			values[k] = strings.Clone(v) // the memory of a hit is reused
		}
		p.ends[h.Rule] = append(all, lastClear{h.Time, file, values})
	}
}

// endedElsewhere returns a line of another file that ended a failure, provided that both files are from the same place.
// follows reports whether all lines of file are later than all lines of other.
func (p *places) endedElsewhere(x *episodes.Episode, follows func(file, other string) bool) (e lastClear, ok bool) {
	file := x.Labels[FileLabel]
	if file == "" || x.StoppedLines() {
		return e, false
	}
	for _, next := range p.ends[x.Rule] {
		if next.file == file || !next.at.After(x.LastSeen) || !next.concernsEpisode(x) || ok && !next.at.Before(e.at) {
			continue
		}
		// For keys that name a process, the order of the files need not be checked, because logs of one process never
		// overlap.
		if !slices.ContainsFunc(x.Rule.By, func(name string) bool { return isProcess[name] && x.Labels[name] == "" }) || follows(next.file, file) {
			e, ok = next, true
		}
	}
	return e, ok
}

// String returns the file and the time of the line, for people.
func (e *lastClear) String() string { return e.file + " at " + e.at.UTC().Format(time.RFC3339) }

// isProcess contains the labels that identify one process of a program.
var isProcess = map[string]bool{"pod": true, "node": true, "node_name": true}

// concernsEpisode reports whether the clear line and the episode have no different values for a name in `same`. An
// absent value equals every value.
func (e *lastClear) concernsEpisode(x *episodes.Episode) bool {
	for i, name := range x.Rule.By {
		if v, of := e.values[i], x.Labels[name]; v != of && v != "" && of != "" && slices.Contains(x.Rule.Clear.Same, name) {
			return false
		}
	}
	return true
}
