package sentinel

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/quota"
)

const (
	version = 1
	// exportEvery is the interval at which Export encodes the state again if no alert has
	// changed. A killed process loses the lines that it counted since then. A few lost lines
	// are harmless, because a pattern counts as a failure only after it has repeated for
	// minutes.
	exportEvery = 15 * time.Second
	maxNoted    = 16 // largest number of agents whose lines of one pattern are counted separately
)

// savedState is the encoded form of the state, and of an agent's report.
type savedState struct {
	Version int `json:"v"`
	// UpTo is the time up to which all lines are included in a report. It is set only in a
	// report.
	UpTo int64 `json:"up_to,omitempty"`
	// Read contains the components that have never complained, by namespace. An entry consists
	// of the component's key and the minute since which its lines are read.
	Read       map[string]string `json:"read,omitempty"`
	Components []savedComponent  `json:"components,omitempty"`
	Fired      []int64           `json:"fired,omitempty"`
	Nodes      map[string]int64  `json:"nodes,omitempty"`
}

type savedComponent struct {
	Labels   map[string]string `json:"labels"`
	Since    int64             `json:"since"`
	Pods     []podSeen         `json:"pods,omitempty"`
	Image    string            `json:"image,omitempty"`
	Before   string            `json:"before,omitempty"`
	ImageAt  int64             `json:"image_at,omitempty"`
	Last     int64             `json:"last,omitempty"`
	Alert    *alert            `json:"alert,omitempty"`
	Patterns []savedPattern    `json:"patterns,omitempty"`
}

type savedPattern struct {
	pattern
	Counts map[string]int64 `json:"counts,omitempty"`
}

// Export returns the state for the next process. Unless an alert changed, it may be some
// seconds old. The caller must not change the bytes.
func (s *Sentinel) Export() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.clock - s.encodedAt; s.encoded != nil && !s.changed && age >= 0 && age < int64(exportEvery.Seconds()) {
		return s.encoded, nil
	}
	out := savedState{Version: version, Fired: s.fired, Nodes: s.nodes, Read: s.readSince()}
	for c := range s.complainingComponents() {
		x := c.saved()
		kept := map[uint64]bool{}
		for _, f := range s.find(c, s.clock) {
			kept[f.pattern.Key] = true
		}
		if c.alert != nil {
			for _, key := range c.alert.Patterns {
				kept[key] = true
			}
		}
		for _, p := range c.byUse() {
			y := savedPattern{pattern: *p, Counts: p.counts}
			if !kept[p.Key] {
				// Only patterns of open alerts keep their texts. The next line of another
				// pattern supplies new ones.
				y.Line, y.Examples = "", nil
			}
			x.Patterns = append(x.Patterns, y)
		}
		out.Components = append(out.Components, x)
	}
	slices.SortFunc(out.Components, func(a, b savedComponent) int { return strings.Compare(keyOf(a.Labels), keyOf(b.Labels)) })
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode unknown failures: %w", err)
	}
	s.encoded, s.encodedAt, s.changed = b, s.clock, false
	return b, nil
}

// Flush makes the next call of Export encode the newest state.
func (s *Sentinel) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
}

func (c *component) saved() savedComponent {
	return savedComponent{
		Labels: c.labels, Since: c.since, Pods: slices.Clone(c.podsSeen), Image: c.image, Before: c.previousImage, ImageAt: c.imageAt, Last: c.last, Alert: c.alert,
	}
}

// byUse returns the patterns of a component, the least recently used one first.
func (c *component) byUse() (out []*pattern) {
	if c.patterns != nil {
		for item := range c.patterns.Values() {
			out = append(out, item.Value)
		}
	}
	return out
}

// readSince returns the components that have never complained, in the form of savedState.Read.
func (s *Sentinel) readSince() map[string]string {
	all := map[string][]byte{}
	for _, group := range s.components {
		for item, party := range group.Values() {
			if c := item.Value; c.patterns == nil && c.alert == nil {
				all[party] = binary.BigEndian.AppendUint32(append(all[party], c.key...), uint32(c.since/60))
			}
		}
	}
	out := map[string]string{}
	for party, b := range all {
		out[party] = base64.RawStdEncoding.EncodeToString(b)
	}
	return out
}

// entryBytes is the size of an entry in the result of readSince.
const entryBytes = 8 + 4

// rememberRead restores the components that readSince returned.
func (s *Sentinel) rememberRead(all map[string]string) error {
	for _, party := range slices.Sorted(maps.Keys(all)) {
		b, err := base64.RawStdEncoding.DecodeString(all[party])
		if err != nil || len(b) > entryBytes*2*maxComponents {
			return errors.New("the list of components cannot be decoded")
		}
		group := s.components[s.class(party[strings.LastIndexByte(party, '/')+1:])]
		for ; len(b) >= entryBytes; b = b[entryBytes:] {
			key, since := string(b[:8]), 60*int64(binary.BigEndian.Uint32(b[8:]))
			if x := group.Items[key]; x != nil {
				x.Value.since = min(x.Value.since, since)
				group.Touch(&x.Entry, x.Value.party)
				continue
			}
			group.Add(key, party, &component{key: key, party: party, since: since}, 1)
		}
	}
	return nil
}

// Import restores the result of Export. It must be called before the first Take.
func (s *Sentinel) Import(b []byte) error {
	var in savedState
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the failures that no rule describes: %w", err)
	}
	if in.Version != version {
		return fmt.Errorf("read the failures that no rule describes: format version %d is not supported", in.Version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rememberRead(in.Read); err != nil {
		return fmt.Errorf("read the failures that no rule describes: %w", err)
	}
	s.fired = in.Fired
	maps.Copy(s.nodes, in.Nodes)
	for i := range in.Components {
		x := &in.Components[i]
		c := s.component(x.Labels, x.Since)
		s.restore(c, x)
	}
	return nil
}

func (s *Sentinel) restore(c *component, x *savedComponent) {
	c.podsSeen, c.image, c.previousImage, c.imageAt, c.last = x.Pods, x.Image, x.Before, x.ImageAt, x.Last
	for i := range x.Patterns {
		p := x.Patterns[i].pattern
		p.counts = x.Patterns[i].Counts
		s.patternsOf(c).Add(p.key(), c.party, &p, p.size())
	}
	if c.alert = x.Alert; c.alert != nil {
		s.open++
	}
}

// Bounds of a report.
const (
	reportPatterns = 128
	reportWithin   = 2 * 3600 // age in seconds up to which patterns are reported; older ones are in earlier reports
	// MaxReport bounds the size of a report in bytes.
	MaxReport = 384 << 10
)

type candidate struct {
	c *component
	p *pattern
}

// Summary returns the state of this process for Merge in another process. upTo is the time up
// to which all lines have been read, or zero if it is not known.
func (s *Sentinel) Summary(upTo time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := max(s.clock, upTo.Unix())
	var all []candidate
	for c := range s.complainingComponents() {
		for _, p := range c.byUse() {
			if p.Count > 0 && now-p.Last < reportWithin {
				all = append(all, candidate{c, p})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.p.Level, b.p.Level), cmp.Compare(a.p.Last, b.p.Last), strings.Compare(a.c.key, b.c.key), cmp.Compare(a.p.Key, b.p.Key))
	})
	for n := reportPatterns; ; n /= 2 {
		some := quota.KeepNewest(slices.Clone(all), n, func(x candidate) string { return x.c.party }, s.infrastructure)
		if b := s.report(some, upTo); len(b) <= MaxReport || n == 0 {
			return b
		}
	}
}

func (s *Sentinel) report(some []candidate, upTo time.Time) []byte {
	out := savedState{Version: version, UpTo: max(0, upTo.Unix()), Read: s.readSince()}
	at := map[string]int{}
	for c := range s.complainingComponents() {
		at[c.key] = len(out.Components)
		x := c.saved()
		x.Alert, x.Last = nil, 0
		out.Components = append(out.Components, x)
	}
	for _, x := range some {
		y := &out.Components[at[x.c.key]]
		y.Patterns = append(y.Patterns, savedPattern{pattern: *x.p})
	}
	slices.SortFunc(out.Components, func(a, b savedComponent) int { return strings.Compare(keyOf(a.Labels), keyOf(b.Labels)) })
	b, _ := json.Marshal(out) // texts, numbers and maps of them can always be marshaled
	return b
}
