package loki

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/fakeloki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is one line that a pipeline received.
type line struct {
	stream string
	at     time.Time
	text   string
}

// sink is a pipeline that counts what it receives.
type sink struct {
	sources.Pipeline
	cut sync.RWMutex

	mu        sync.Mutex
	set       *rules.Set
	prog      *matcher.Program
	count     map[string]int // by text
	lines     []line
	hits      []matcher.Hit
	watermark map[string]time.Time
	proofs    int
	marks     int
	users     []*Source
	quiet     bool // only counts
}

func newSink(set *rules.Set) *sink {
	p := &sink{count: map[string]int{}, watermark: map[string]time.Time{}}
	p.swap(set)
	return p
}

func (p *sink) swap(set *rules.Set) {
	p.cut.Lock()
	defer p.cut.Unlock()
	prog, err := matcher.Compile(set)
	if err != nil {
		panic(err)
	}
	p.set, p.prog = set, prog
	for _, s := range p.users {
		s.Info().UseRules(set)
	}
}

func (p *sink) Rules() *rules.Set { return p.set }

func (p *sink) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.mu.Lock()
	p.count[string(rec.Text)]++
	if p.quiet {
		p.mu.Unlock()
		commit()
		return
	}
	p.lines = append(p.lines, line{labelText(s.Labels()), rec.Time, string(rec.Text)})
	p.hits = append(p.hits, p.prog.Match(s, rec)...)
	p.mu.Unlock()
	commit()
}

func (p *sink) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	find(p.set)
	commit()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks++
}

func (p *sink) AdvanceWatermark(source string, t time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark[source] = t
	p.proofs++
}

// snapshot copies what survives a kill, as the daemon does.
func (p *sink) snapshot(s *Source) (count map[string]int, pos json.RawMessage) {
	p.cut.Lock()
	defer p.cut.Unlock()
	return maps.Clone(p.count), s.Positions()
}

func labelText(l matcher.Labels) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l)) {
		out = append(out, k+"="+l[k])
	}
	return strings.Join(out, ",")
}

// wrong returns the texts that did not arrive exactly once, with their counts.
func (p *sink) wrong(texts []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, t := range texts {
		if n := p.count[t]; n != 1 {
			out = append(out, fmt.Sprintf("%s: %d times", t, n))
		}
	}
	return out
}

func (p *sink) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, k := range p.count {
		n += k
	}
	return n
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

// rule is one rule that matches a text in streams of app="a".
func rule(t testing.TB, name, text string) *rules.Set {
	t.Helper()
	return pack(t, fmt.Sprintf("- {alert: %s, from: '{app=\"a\"}', match: %q, severity: warning}\n", name, text))
}

// bench is a source with a fake Loki, in virtual time.
type bench struct {
	t    *testing.T
	loki *fakeloki.Loki
	src  *Source
	sink *sink
	stop func()
}

// config reads often, so that every minute has many rounds of both kinds.
func config(l *fakeloki.Loki) Config {
	return Config{rangeread.Config{
		URL: "http://loki:3100", Selector: `{app=~".+"}`, Transport: l.Transport(),
		FastInterval: time.Second, SlowInterval: 15 * time.Second,
	}}
}

// usual sets the default intervals.
func usual(c *Config) { c.FastInterval, c.SlowInterval = 0, 0 }

// inBubble runs f with a running source whose rules match lines with "bad".
func inBubble(t *testing.T, change func(c *Config), f func(b *bench)) {
	t.Helper()
	inLoki(t, func(*fakeloki.Loki) {}, change, f)
}

// inLoki does the same with a Loki that setUp prepares.
func inLoki(t *testing.T, setUp func(l *fakeloki.Loki), change func(c *Config), f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := fakeloki.New()
		setUp(l)
		cfg := config(l)
		if change != nil {
			change(&cfg)
		}
		require.NoError(t, cfg.Validate())
		b := &bench{t: t, loki: l, sink: newSink(rule(t, "R", "bad"))}
		b.start(cfg, nil)
		defer func() { b.stop() }()
		f(b)
	})
}

func (b *bench) start(cfg Config, pos json.RawMessage) {
	b.src = New(cfg)[0]
	b.src.Info().UseRules(b.sink.set)
	b.sink.users = []*Source{b.src}
	require.NoError(b.t, b.src.Restore(pos))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.src.Run(ctx, b.sink) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, <-done)
	})
}

// wait advances virtual time.
func (b *bench) wait(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
	synctest.Wait()
}

// saved is the state that a source saves.
type saved struct {
	Covered int64  `json:"covered"`
	Keys    []byte `json:"keys"`
}

func (b *bench) saved() (pos saved) {
	b.t.Helper()
	require.NoError(b.t, json.Unmarshal(b.src.Positions(), &pos))
	return pos
}

// remembered returns the number of saved keys, which are all keys of a small memory.
func (b *bench) remembered() int {
	n := 0
	for keys := b.saved().Keys; len(keys) > 0; {
		_, k := binary.Varint(keys)
		count, m := binary.Uvarint(keys[k:])
		n += int(count)
		keys = keys[k+m+8*int(count):]
	}
	return n
}

var labelsA = map[string]string{"app": "a"}

// push stores a line of the stream app="a" with the time now minus age.
func (b *bench) push(text string, age time.Duration) {
	b.loki.Push(fakeloki.Entry{Labels: labelsA, Time: time.Now().Add(-age), Line: text})
}

func (b *bench) once(texts ...string) {
	b.t.Helper()
	require.Empty(b.t, b.sink.wrong(texts))
}
