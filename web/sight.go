package web

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/rules"
)

// blindFor is how long ago a rule may have seen a line whose stream is gone: pods
// of jobs come and go.
const blindFor = time.Hour

// sight is what rules can see of the streams that are followed.
type sight struct {
	set     *rules.Set
	streams map[string]int // by rule
	// filtered tells that a source hands on only lines that a rule may match: a
	// rule that saw none need not be blind.
	filtered bool
	now      time.Time

	names []string         // labels that rules ask for
	kinds map[string]*kind // of streams, by the values of these labels
}

// kind is the streams that differ only in labels that no rule asks for.
type kind struct {
	labels map[string]string
	n      int // streams
	rules  int // that apply to them
}

// key is the values of the labels that rules ask for.
func (s sight) key(labels map[string]string) string {
	var key strings.Builder
	for _, name := range s.names {
		key.WriteString(labels[name])
		key.WriteByte(0)
	}
	return key.String()
}

// counted returns the sources with the number of rules that apply to each stream.
func (s sight) counted(all []Source) []Source {
	for _, src := range all {
		for i, st := range src.Streams {
			if k := s.kinds[s.key(st.Labels)]; k != nil {
				src.Streams[i].Rules = k.rules
			}
		}
	}
	return all
}

// look finds which rules apply to which streams. Streams that differ only in
// labels that no rule asks for are looked at once: there may be hundreds of them,
// and hundreds of rules.
func look(set *rules.Set, all []Source, now time.Time) sight {
	s := sight{set: set, streams: make(map[string]int, len(set.Rules)), now: now}
	asked := map[string]bool{"namespace": true} // the origin
	for _, r := range set.Rules {
		for _, m := range r.From.Matchers() {
			asked[m.Name] = true
		}
	}
	s.names, s.kinds = slices.Sorted(maps.Keys(asked)), map[string]*kind{}
	for _, src := range all {
		s.filtered = s.filtered || src.Filtered
		for _, st := range src.Streams {
			key := s.key(st.Labels)
			if s.kinds[key] == nil {
				s.kinds[key] = &kind{labels: st.Labels}
			}
			s.kinds[key].n++
		}
	}
	for _, r := range set.Rules {
		for _, k := range s.kinds {
			if r.Mode != rules.ModeOff && set.Reads(r, k.labels, false) {
				k.rules++
				s.streams[r.Alert] += k.n
			}
		}
	}
	return s
}

// The values of what a rule sees.
const (
	seesLines = "ok"
	isBlind   = "blind"  // no stream that it applies to is followed, and none was lately
	isUnseen  = "unseen" // no line came to it, and the source does not tell which streams there are
)

// of tells what a rule sees. seen is when a stream that it applies to was last
// read.
func (s sight) of(r *rules.Rule, seen time.Time) string {
	switch lately := !seen.IsZero() && s.now.Sub(seen) < blindFor; {
	case s.streams[r.Alert] > 0, lately:
		return seesLines
	case !s.filtered:
		return isBlind
	case seen.IsZero():
		return isUnseen
	}
	return seesLines
}
