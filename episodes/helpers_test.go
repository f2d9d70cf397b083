package episodes

import (
	"hash/fnv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// rule returns a rule with defaults and this change. It captures the names of its key
// unless change sets others.
func rule(change func(*rules.Rule)) *rules.Rule {
	r := &rules.Rule{
		Alert: "Demo", Severity: rules.SeverityWarning, Mode: rules.ModeOn, Count: 1, Limit: 100,
		Steps: make([]rules.Step, 1), KeepFiringFor: rules.DefaultKeepFiringFor, Hash: "1",
	}
	change(r)
	if r.Clear != nil && r.Expire == 0 {
		r.Expire = rules.DefaultExpire
	}
	if r.CapturedNames == nil {
		r.CapturedNames = r.By
	}
	return r
}

// bench is an engine with one source under a virtual clock.
type bench struct {
	t        require.TestingT
	e        *Engine
	set      *rules.Set
	reported []Episode
}

func newBench(t testing.TB, rs ...*rules.Rule) *bench {
	b := &bench{t: t, set: &rules.Set{Rules: rs}}
	b.e = b.engine(Config{})
	return b
}

func (b *bench) engine(cfg Config) *Engine {
	e := New(cfg)
	e.AddSource("s", rules.Lateness, nil)
	e.Swap(b.set, start)
	return e
}

func lineHit(r *rules.Rule, part matcher.Part, t time.Duration, text string, values ...string) matcher.Hit {
	h := fnv.New64a()
	h.Write([]byte(t.String() + text))
	for _, v := range values {
		h.Write([]byte(v + "\x00"))
	}
	return matcher.Hit{Rule: r, Part: part, Time: at(t), Line: text, Values: values, ID: h.Sum64()}
}

func (b *bench) take(arrival time.Duration, hits ...matcher.Hit) { b.e.Take(hits, at(arrival)) }

// advance moves the watermark to d and evaluates.
func (b *bench) advance(d time.Duration) {
	b.e.AdvanceWatermark("s", at(d))
	b.reported = append(b.reported, b.e.Evaluate(at(d))...)
}

// firing returns the episodes that were reported as firing and not as resolved, by
// fingerprint.
func (b *bench) firing() map[Fingerprint]Episode {
	out := map[Fingerprint]Episode{}
	for _, x := range b.reported {
		switch x.State {
		case StateFiring:
			out[x.Fingerprint] = x
		case StateResolved:
			delete(out, x.Fingerprint)
		}
	}
	return out
}

func (b *bench) restart(now time.Duration) {
	b.reported = append(b.reported, b.e.Evaluate(at(now))...)
	data, err := b.e.Snapshot()
	require.NoError(b.t, err)
	b.e = b.engine(Config{})
	require.NoError(b.t, b.e.Restore(data, at(now)))
}
