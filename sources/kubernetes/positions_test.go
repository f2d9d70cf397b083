package kubernetes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// TestRestoreGoesOn: after a stop and restart at any time, no line is lost or
// duplicated.
func TestRestoreGoesOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		idle := b.pod("demo", "quiet")
		idle.write(time.Now(), "only one")
		var want []string
		var saved json.RawMessage
		for i := range 20 {
			b.start(saved)
			for j := range 100 {
				text := fmt.Sprintf("line %d.%d", i, j)
				log.write(time.Now(), text)
				want = append(want, text)
				b.pass(time.Duration(rand.N(30)) * time.Millisecond)
			}
			b.pass(time.Duration(rand.N(3000)) * time.Millisecond)
			b.stop()
			saved = b.src.Positions()
			log.write(time.Now(), fmt.Sprintf("away %d", i))
			want = append(want, fmt.Sprintf("away %d", i))
			b.pass(time.Duration(rand.N(20)) * time.Second)
		}
		b.start(saved)
		b.pass(10 * time.Second)
		b.want("demo/p/c", want...)
		b.want("demo/quiet/c", "only one")
		require.Less(b, len(saved), 8<<10)
	})
}

// TestManyLinesAtOnce: more lines than are remembered, saved and read again: none
// is lost.
func TestManyLinesAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(5 * time.Second)
		var want []string
		at := time.Now()
		write := func(n int, step time.Duration) {
			for range n {
				at = at.Add(step)
				text := fmt.Sprintf("line %d", len(want))
				log.write(at, text)
				want = append(want, text)
			}
		}
		write(3*maxRecent, 50*time.Microsecond) // 0.6 s
		b.pass(time.Second)
		b.api.cut("log", false)
		write(10, time.Microsecond)
		b.pass(10 * time.Second)
		b.want("demo/p/c", want...)
		b.stop()
		saved := b.src.Positions()
		require.Less(b, len(saved), 8<<10)
		write(10, time.Microsecond)
		b.start(saved)
		b.pass(10 * time.Second)
		b.want("demo/p/c", want...)
	})
}

// TestClockStepsBack: setting back a node's clock loses nothing. If it is set back by
// more than the look-back period, the kubelet itself skips lines.
func TestClockStepsBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(5 * time.Second)
		log.write(time.Now(), "before")
		b.pass(time.Second)
		log.write(time.Now().Add(-time.Minute), "set back")
		b.pass(time.Second)
		b.api.cut("log", false)
		log.write(time.Now().Add(-time.Minute), "after a cut")
		b.pass(5 * time.Second)
		b.api.cut("log", true)
		b.pass(5 * time.Second)
		log.restart()
		log.write(time.Now().Add(-time.Minute), "restarted")
		b.api.set("demo", "p", restarted(1))
		b.api.set("demo", "p", func(c *fakeContainer) { c.started = c.started.Add(-time.Minute); c.before = c.before.Add(-time.Minute) })
		b.pass(10 * time.Second)
		got := b.pipe.texts("demo/p/c")
		for _, text := range []string{"before", "set back", "after a cut", "restarted"} {
			require.Contains(b, got, text)
		}
	})
}

func TestRestoreDamaged(t *testing.T) {
	f := func(text string, ok bool, streams int) {
		t.Helper()
		s := New(Config{})
		err := s.Restore(json.RawMessage(text))
		require.Equal(t, ok, err == nil, text)
		require.Len(t, s.saved, streams, text)
		s.Positions()
	}
	f("", true, 0)
	f("null", true, 0)
	f("{}", true, 0)
	f("[]", false, 0)
	f(`{"streams":{"a/b/c/d":{"id":"x","newest":5,"lines":"AAAA"}}}`, true, 1)
	f(`{"streams":{"a/b/c/d":{"id":"x","newest":5,"lines":"%%"}}}`, true, 1)
	f(`{"streams":{"a/b/c":{"id":"x"}}}`, true, 0)
	f(`{"streams":{"a/b/c/d":{"id":""}}}`, true, 0)
	f(`{"streams":{"a/b/c/d":{"id":"x","newest":-5}}}`, true, 0)
	f(`{"streams":{"a/b/c/d":{"id":"x","newest":"y"}}}`, false, 0)
	f(`{"losses":{"removed":{"count":3}}}`, true, 0)
}

// TestGone: the deletion of a pod is reported, also if it happened while nobody
// watched; a pod that is only deselected is not.
func TestGone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.cfg.Selector = "app=web"
		put := func(name, uid, app string) *fakeLog {
			b.api.put(fakePod{ns: "demo", name: name, uid: uid, node: "n", labels: map[string]string{"app": app}, containers: []fakeContainer{{
				name: "c", id: "id-" + uid, phase: running, started: time.Now(),
			}}})
			return b.api.log("demo", name, "c")
		}
		put("a", "1", "web").write(time.Now(), "a")
		put("b", "1", "web").write(time.Now(), "b")
		put("c", "1", "web").write(time.Now(), "c")
		put("other", "1", "db").write(time.Now(), "not selected")
		b.start()
		b.pass(5 * time.Second)
		require.Empty(b, b.pipe.texts("demo/other/c"))
		b.api.log("demo", "a", "c").write(time.Now(), "last words")
		b.api.remove("demo", "a")
		b.pass(30 * time.Second)
		b.want("demo/a/c", "a", "last words")
		require.Equal(b, []string{"demo/a"}, b.pipe.podDeleted)
		put("b", "1", "retired")
		b.pass(30 * time.Second)
		require.Equal(b, []string{"demo/a"}, b.pipe.podDeleted)
		require.Equal(b, 1, b.api.open("log"))
		b.stop()

		saved := b.src.Positions()
		b.api.remove("demo", "c")
		put("c", "2", "web").write(time.Now(), "its successor")
		b.start(saved)
		b.pass(10 * time.Second)
		require.Equal(b, []string{"demo/a", "demo/c"}, b.pipe.podDeleted)
		require.EqualValues(b, 1, b.src.Status().Losses["removed"].Count, "its end was not read")
		b.want("demo/c/c", "c", "its successor")
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
	})
}

// TestRules: the source follows only containers that a rule selects, from the moment
// the rule does.
func TestRules(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p").write(time.Now(), "line")
		b.pod("demo", "q").write(time.Now(), "line")
		select_ := func(text string) *rules.Set {
			sel, err := selector.Parse(text)
			require.NoError(b, err)
			return &rules.Set{Rules: []*rules.Rule{{Alert: "A", From: sel, Steps: []rules.Step{{From: sel}}}}}
		}
		b.rules = select_(`{pod="q"}`)
		b.start()
		b.pass(5 * time.Second)
		require.Empty(b, b.pipe.texts("demo/p/c"))
		b.want("demo/q/c", "line")
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
		b.src.Info().UseRules(select_(`{pod="p"}`))
		b.pass(5 * time.Second)
		b.want("demo/p/c", "line")
		require.Equal(b, 1, b.api.open("log"))
		b.api.log("demo", "q", "c").write(time.Now(), "meanwhile")
		b.pass(time.Minute)
		b.src.Info().UseRules(select_(`{namespace="demo"}`))
		b.pass(5 * time.Second)
		b.want("demo/q/c", "line", "meanwhile")
	})
}

// TestNamespaces: each is queried by itself, so that a Role in it suffices.
func TestNamespaces(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.cfg = Config{Namespaces: []string{"a", "b"}, FieldSelector: "spec.nodeName=node-1"}
		b.pod("a", "p").write(time.Now(), "line")
		b.pod("b", "p").write(time.Now(), "line")
		b.pod("c", "p").write(time.Now(), "line")
		b.start()
		b.pass(5 * time.Second)
		b.want("a/p/c", "line")
		b.want("b/p/c", "line")
		require.Empty(b, b.pipe.texts("c/p/c"))
		require.Equal(b, 2, b.api.count("list"))
		require.Equal(b, "spec.nodeName=node-1", b.api.queries[0].Get("fieldSelector"))
		require.True(b, b.src.Status().Up)
	})
}

// TestProof: there is no watermark before every log was opened, except that of an unavailable
// log.
func TestProof(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p")
		b.pod("demo", "q")
		b.api.breaks(answers("p/log", fakeAnswer{code: 500}))
		b.start()
		b.pass(30 * time.Second)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), time.Second)
		require.Equal(b, map[string]time.Time{"demo/p/c": {}}, b.pipe.lag())
		b.api.breaks(nil)
		b.pass(time.Minute)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
		b.pod("demo", "new")
		b.api.breaks(answers("new/log", fakeAnswer{code: 500}))
		appeared := time.Now()
		b.pass(30 * time.Second)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), time.Second)
		require.WithinDuration(b, appeared, b.pipe.lag()["demo/new/c"], time.Second)
		b.api.remove("demo", "new")
		b.pass(5 * time.Second)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
	})
}
