package victorialogs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a pipeline that counts the lines that it receives.
type sink struct {
	sources.Pipeline
	set  *rules.Set
	prog *matcher.Program
	cut  sync.RWMutex // held for reading while a line and its position are taken

	mu     sync.Mutex
	count  map[string]int // by text
	labels map[string]string
	hits   []matcher.Hit
}

func newSink(t testing.TB, set *rules.Set) *sink {
	t.Helper()
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	return &sink{set: set, prog: prog, count: map[string]int{}, labels: map[string]string{}}
}

func (p *sink) Rules() *rules.Set { return p.set }

func (p *sink) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.mu.Lock()
	p.count[string(rec.Text)]++
	p.labels[string(rec.Text)] = labelText(s.Labels())
	p.hits = append(p.hits, p.prog.Match(s, rec)...)
	p.mu.Unlock()
	commit()
}

func (p *sink) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	find(p.set)
	commit()
}

func (p *sink) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}

// snapshot copies what survives a kill, as the daemon does.
func (p *sink) snapshot(s *Source) (count map[string]int, pos json.RawMessage) {
	p.cut.Lock()
	defer p.cut.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.count), s.Positions()
}

func (p *sink) total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.count {
		n += k
	}
	return n
}

// wrong returns the first texts that did not arrive exactly once, with their counts.
func (p *sink) wrong(texts []string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range texts {
		if n := p.count[t]; n != 1 && len(out) < 10 {
			out = append(out, fmt.Sprintf("%s: %d times", t, n))
		}
	}
	return out
}

func labelText(l matcher.Labels) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l)) {
		out = append(out, k+"="+l[k])
	}
	return strings.Join(out, ",")
}

// run runs a source until stop is called.
func run(t testing.TB, s *Source, p *sink) (stop func()) {
	t.Helper()
	s.Info().UseRules(p.set)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, p) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// pack builds the rules of a pack.
func pack(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	doc, problems := rules.Parse(rules.File{Name: "test.yaml", Data: []byte("pack: {name: test}\nrules:\n" + yaml)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}
