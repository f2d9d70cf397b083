package episodes

import (
	"regexp"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// lender passes on batches whose texts are in memory that is overwritten as soon as Take
// returns.
type lender struct {
	memory []byte
	values []string
	hits   []matcher.Hit
}

func (l *lender) take(e *Engine, in []matcher.Hit, now time.Time) {
	memory, values := slices.Grow(l.memory[:0], 64<<10), l.values[:0]
	lend := func(s string) string {
		if len(memory)+len(s) >= cap(memory) {
			panic("more text than these lives have")
		}
		memory = append(memory, s...)
		return unsafe.String(unsafe.SliceData(memory[len(memory)-len(s):cap(memory)]), len(s))
	}
	borrowed := append(l.hits[:0], in...)
	for i := range borrowed {
		h := &borrowed[i]
		h.Line, values = lend(h.Line), append(values, h.Values...)
	}
	for i := range values {
		values[i] = lend(values[i])
	}
	for i, rest := 0, values; i < len(borrowed); i++ {
		k := len(borrowed[i].Values)
		borrowed[i].Values, rest = rest[:k:k], rest[k:]
	}
	e.Take(borrowed, now)
	for i := range memory {
		memory[i] = '!'
	}
	for i := range values {
		values[i] = "poison"
	}
	clear(borrowed)
	l.memory, l.values, l.hits = memory, values, borrowed
}

// The engine copies what it keeps of hits: their memory may be used again.
func TestTakeKeepsNothingOfTheCallers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		cfg := Config{MaxActive: 4, UpdateEvery: l.seconds("update every", 0, 20)}
		if rapid.Bool().Draw(t, "redacts") {
			cfg.Redactor = redact.New([]*regexp.Regexp{regexp.MustCompile("password=[a-z]|secret")})
		}
		lends, gives := l.player(cfg), l.player(cfg)
		lends.take = new(lender).take
		l.check(lends, gives, func(what string) {
			got, err := lends.e.Snapshot()
			require.NoError(t, err)
			want, err := gives.e.Snapshot()
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), what)
			require.Equal(t, gives.e.Episodes(at(l.now)), lends.e.Episodes(at(l.now)), what)
			b := &lends.e.in
			require.True(t, b.IsReleased())
			require.Equal(t, window.Hit{}, b.Hit)
		})
	})
}

// A storm costs memory per batch, not per line.
func TestAStormAllocatesLittle(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By = []string{"namespace", "pod"} })
	b := newBench(t, r)
	b.e = b.engine(Config{Fingerprints: 1000, Redactor: redact.New([]*regexp.Regexp{regexp.MustCompile(`password=\S+`)})})
	hits := stormBatch(r, 500)
	round := 0
	storm := func() {
		now := renew(hits, round)
		round++
		b.e.Take(hits, now)
		b.e.AdvanceWatermark("s", now)
	}
	for range 5 {
		storm()
	}
	require.Less(t, testing.AllocsPerRun(10, storm), 10.0)
	require.EqualValues(t, 500*round, b.e.Episodes(at(time.Second))[0].Count)
}
