package loki

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/fakeloki"
	"crowsnest/test/linesink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pack = linesink.Pack

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
	sink *linesink.Sink
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
		b := &bench{t: t, loki: l, sink: linesink.New(rule(t, "R", "bad"))}
		b.start(cfg, nil)
		defer func() { b.stop() }()
		f(b)
	})
}

func (b *bench) start(cfg Config, pos json.RawMessage) {
	b.src = New(cfg)[0]
	b.src.Info().UseRules(b.sink.Set)
	b.sink.Users = []sources.Source{b.src}
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
	require.Empty(b.t, b.sink.Wrong(texts))
}
