// Package linesink is a pipeline for tests of sources. It keeps what it receives.
package linesink

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Line is one line that a pipeline received.
type Line struct {
	Stream string // labels of the stream, sorted
	Time   time.Time
	Text   string
}

// Sink is a pipeline that counts what it receives. A test holds Mu while it reads a field during Run.
type Sink struct {
	sources.Pipeline
	cut  sync.RWMutex // held for reading while a line and its position are taken
	prog *matcher.Program

	Mu        sync.Mutex
	Set       *rules.Set
	Count     map[string]int // number of lines, by text
	Lines     []Line
	Hits      []matcher.Hit
	Watermark map[string]time.Time // by source or member
	Proofs    int                  // number of watermarks
	Marks     int                  // number of calls of Ingest
	Users     []sources.Source     // sources that Swap passes the rules to
	Quiet     bool                 // whether lines are only counted
}

// New returns a sink with rules.
func New(set *rules.Set) *Sink {
	p := &Sink{Count: map[string]int{}, Watermark: map[string]time.Time{}}
	p.Swap(set)
	return p
}

// Swap changes the rules. It panics if they do not compile, because the test wrote them.
func (p *Sink) Swap(set *rules.Set) {
	p.cut.Lock()
	defer p.cut.Unlock()
	prog, err := matcher.Compile(set)
	if err != nil {
		panic(err)
	}
	p.Set, p.prog = set, prog
	for _, s := range p.Users {
		s.Info().UseRules(set)
	}
}

// Rules implements sources.Pipeline.
func (p *Sink) Rules() *rules.Set { return p.Set }

// Match implements sources.Pipeline.
func (p *Sink) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.Mu.Lock()
	p.Count[string(rec.Text)]++
	if !p.Quiet {
		p.Lines = append(p.Lines, Line{labelText(s.Labels()), rec.Time, string(rec.Text)})
		p.Hits = append(p.Hits, p.prog.Match(s, rec)...)
	}
	p.Mu.Unlock()
	commit()
}

// Ingest implements sources.Pipeline.
func (p *Sink) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	find(p.Set)
	commit()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Marks++
}

// AdvanceWatermark implements sources.Pipeline.
func (p *Sink) AdvanceWatermark(source string, t time.Time, _ ...matcher.LaggingStream) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Watermark[source] = t
	p.Proofs++
}

// Snapshot copies what survives a kill, as the daemon does.
func (p *Sink) Snapshot(s sources.Source) (count map[string]int, pos json.RawMessage) {
	p.cut.Lock()
	defer p.cut.Unlock()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return maps.Clone(p.Count), s.Positions()
}

// Wrong returns the texts that did not arrive exactly once, with their counts.
func (p *Sink) Wrong(texts []string) (out []string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, t := range texts {
		if n := p.Count[t]; n != 1 {
			out = append(out, fmt.Sprintf("%s: %d times", t, n))
		}
	}
	return out
}

// Total returns the number of lines.
func (p *Sink) Total() (n int) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, k := range p.Count {
		n += k
	}
	return n
}

// StreamOf returns the labels of the stream of the first line with a text.
func (p *Sink) StreamOf(text string) string {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	i := slices.IndexFunc(p.Lines, func(l Line) bool { return l.Text == text })
	if i < 0 {
		return ""
	}
	return p.Lines[i].Stream
}

func labelText(l matcher.Labels) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l)) {
		out = append(out, k+"="+l[k])
	}
	return strings.Join(out, ",")
}

// Pack builds the rules of a pack.
func Pack(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	doc, problems := rules.Parse(rules.File{Name: "test.yaml", Data: []byte("pack: {name: test}\nrules:\n" + yaml)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}
