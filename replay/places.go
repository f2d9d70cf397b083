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

// FileLabel is a label of inputs from unknown places, if there are several. It belongs to a key
// that lacks a value of the rule's `by`: whether that is the failure of another file nobody
// knows. A key with all values is one failure, in whichever files its lines are.
const FileLabel = "file"

var scanIdentity = append(slices.Clone(rules.DefaultIdentity), FileLabel)

// places gives hits of inputs from unknown places to the keys they belong to, and remembers
// what may have ended the failures that are apart.
type places struct {
	unfiled [256]unfiled
	hits    []matcher.Hit // buffer
	ends    map[*rules.Rule][]ending
}

// unfiled is labels without FileLabel.
type unfiled struct{ of, labels matcher.Labels }

// ending is the newest clear line of a rule in a file with these values of `by`.
type ending struct {
	at     time.Time
	file   string
	values []string
}

// maxEndings bounds the clear lines that are remembered of a rule.
const maxEndings = 256

// keyed returns the hits, which are of one input, for an engine. Those of keys that are the same
// in every file have no FileLabel; clear and unless lines are there with it and without. The
// result is valid until the next call.
func (p *places) keyed(hits []matcher.Hit) []matcher.Hit {
	file := hits[0].Labels[FileLabel]
	if file == "" {
		return hits
	}
	labels := p.without(hits[0].Labels)
	p.hits = p.hits[:0]
	for _, h := range hits {
		switch {
		case h.Part < 0:
			p.note(&h, file)
			p.hits = append(p.hits, h)
			h.ID, h.Labels = ^h.ID, labels // no repeat
		case !slices.Contains(h.Values[:len(h.Rule.By)], ""):
			h.Labels = labels
		}
		p.hits = append(p.hits, h)
	}
	return p.hits
}

// without returns labels without FileLabel, mostly the same map for the same labels: engines
// remember what depends on a map.
func (p *places) without(labels matcher.Labels) matcher.Labels {
	address := reflect.ValueOf(labels).Pointer()
	x := &p.unfiled[address/64%uintptr(len(p.unfiled))]
	if x.of == nil || reflect.ValueOf(x.of).Pointer() != address {
		*x = unfiled{labels, maps.Clone(labels)}
		delete(x.labels, FileLabel)
	}
	return x.labels
}

// note remembers a clear line.
func (p *places) note(h *matcher.Hit, file string) {
	if h.Part != matcher.PartClear {
		return
	}
	if p.ends == nil {
		p.ends = map[*rules.Rule][]ending{}
	}
	all, values := p.ends[h.Rule], h.Values[:len(h.Rule.By)]
	i := slices.IndexFunc(all, func(e ending) bool { return e.file == file && slices.Equal(e.values, values) })
	switch {
	case i >= 0:
		all[i].at = times.Later(all[i].at, h.Time)
	case len(all) < maxEndings:
		p.ends[h.Rule] = append(all, ending{h.Time, file, clonedTexts(values)})
	}
}

// clonedTexts copies texts in memory that is used again.
func clonedTexts(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = strings.Clone(t)
	}
	return out
}

// endedElsewhere returns a line of another file that ends a failure which is open in its own, if
// both files are about one place. follows reports whether all lines of a file are later than
// those of another.
func (p *places) endedElsewhere(x *episodes.Episode, follows func(file, other string) bool) (e ending, ok bool) {
	file := x.Labels[FileLabel]
	if file == "" || x.StoppedLines() {
		return e, false
	}
	for _, next := range p.ends[x.Rule] {
		if next.file == file || !next.at.After(x.LastSeen) || !next.concerns(x) || ok && !next.at.Before(e.at) {
			continue
		}
		// Logs of one process follow each other.
		if !slices.ContainsFunc(x.Rule.By, func(name string) bool { return isProcess[name] && x.Labels[name] == "" }) || follows(next.file, file) {
			e, ok = next, true
		}
	}
	return e, ok
}

// String names the line.
func (e *ending) String() string { return e.file + " at " + e.at.UTC().Format(time.RFC3339) }

// isProcess has the labels that name one process of a program.
var isProcess = map[string]bool{"pod": true, "node": true, "node_name": true}

// concerns reports whether no value of a clear line is that of another failure.
func (e *ending) concerns(x *episodes.Episode) bool {
	for i, name := range x.Rule.By {
		if v, of := e.values[i], x.Labels[name]; v != of && v != "" && of != "" && slices.Contains(x.Rule.Clear.Same, name) {
			return false
		}
	}
	return true
}
