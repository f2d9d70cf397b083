package loki

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/test/fakeloki"
	"crowsnest/test/linesink"
)

func soundFor(t *testing.T, set *rules.Set) (hits int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		prog, err := matcher.Compile(set)
		require.NoError(t, err)
		l := fakeloki.New()
		now := time.Now().Add(-10 * time.Minute)
		var want []string
		seen := map[string]bool{} // tests repeat the lines of others
		for _, r := range set.Rules {
			for _, test := range r.Tests {
				for _, in := range test.Input {
					labels := merge(test.Stream, in.Labels)
					key := fmt.Sprint(labels, in.Text)
					if in.Text == "" || seen[key] {
						continue
					}
					seen[key] = true
					for _, line := range variants(strings.ReplaceAll(in.Text, "{{ $value }}", "7")) {
						now = now.Add(time.Millisecond)
						l.Push(fakeloki.Entry{Labels: labels, Time: now, Line: line})
						s := matcher.NewStream(labels, matcher.StreamOptions{})
						want = append(want, hitTexts(prog.Match(s, matcher.Record{Time: now, Text: []byte(line)}))...)
					}
				}
			}
		}
		cfg := config(l)
		cfg.Selector = `{always="there", component=~".*"}` // lines about objects count as well
		b := &bench{t: t, loki: l, sink: linesink.New(set)}
		b.start(cfg, nil)
		b.wait(10 * time.Second)
		require.Empty(t, b.src.Status().Error)
		b.stop()
		got := hitTexts(b.sink.Hits)
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
		hits = len(want)
	})
	return hits
}

func hitTexts(hits []matcher.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, fmt.Sprint(h.Rule.Alert, h.Part, h.Time.UnixNano(), h.Values, h.ID))
	}
	return out
}

// variants are forms in which a line may arrive.
func variants(line string) []string {
	return []string{line, line[:len(line)/2] + "\x00" + line[len(line)/2:], strings.ReplaceAll(line, "e", `\u0065`)}
}

func merge(a, b map[string]string) map[string]string {
	out := map[string]string{"always": "there"}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			if out[k] = v; v == "" {
				delete(out, k)
			}
		}
	}
	return out
}

// A new rule sees new and late lines; unchanged rules see nothing twice.
func TestReload(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		var bad, worse []string
		push := func(n int) {
			for range n {
				bad, worse = append(bad, fmt.Sprint("bad ", len(bad))), append(worse, fmt.Sprint("worse ", len(worse)))
				b.push(bad[len(bad)-1], 0)
				b.push(worse[len(worse)-1], 0)
				b.wait(330 * time.Millisecond)
			}
		}
		b.wait(20 * time.Minute)
		push(30)
		b.wait(5 * time.Second)
		require.Equal(t, 30, b.sink.Total())
		b.push("worse long ago", 10*time.Minute)
		b.wait(34 * time.Second) // a slow round was not long ago
		require.Equal(t, 30, b.sink.Total())
		b.sink.Swap(pack(t, `
- {alert: R, from: '{app="a"}', match: bad, severity: warning}
- {alert: S, from: '{app="a"}', match: worse, severity: warning}
`))
		b.wait(1100 * time.Millisecond)
		b.once("worse long ago") // at once, not with the next slow round
		push(30)
		b.wait(20 * time.Second)
		b.once(bad...)
		b.once(worse...)
		require.Zero(t, b.src.Status().Errors["late_1m"], "what only the new rule wants did not come late")
		b.sink.Swap(rule(t, "S", "worse"))
		push(10)
		b.wait(20 * time.Second)
		b.once(bad[:60]...)
		b.once(worse...)
		require.Equal(t, 131, b.sink.Total())
		for range 50 { // the same rules again and again
			b.sink.Swap(rule(t, "S", "worse"))
			push(1)
		}
		b.wait(20 * time.Second)
		b.once(worse...)
		require.Equal(t, 181, b.sink.Total())
	})
}

func TestWarnings(t *testing.T) {
	f := func(yaml string, change func(l *fakeloki.Loki), want string) {
		t.Helper()
		inLoki(t, change, nil, func(b *bench) {
			b.sink.Swap(pack(t, yaml))
			b.push("bad 1", 0)
			b.wait(time.Minute)
			b.push("bad 2", 0)
			b.wait(time.Minute)
			b.once("bad 1", "bad 2")
			st := b.src.Status()
			require.True(t, st.Up)
			require.Contains(t, st.Error, want)
		})
	}
	nothing := func(*fakeloki.Loki) {}
	f(`- {alert: R, from: '{app="a"}', match: {regex: '\d'}, severity: warning}`, nothing, "(R): add a text with `contains`")
	f(`- {alert: R, from: '{app="a"}', match: bad, severity: warning}`, func(l *fakeloki.Loki) { l.MaxQuery = 60 }, "all lines of the selector are read")
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, "- {alert: R%d, from: '{app=\"a\"}', match: \"bad %03d\", severity: warning}\n", i, i)
	}
	// Loki states what it allows.
	inLoki(t, func(l *fakeloki.Loki) { l.MaxQuery = 2000 }, nil, func(b *bench) {
		b.sink.Swap(pack(t, many.String()))
		var texts []string
		for i := range 200 {
			texts = append(texts, fmt.Sprintf("bad %03d", i))
			b.push(texts[i], 0)
		}
		b.push("good", 0)
		b.wait(time.Minute)
		b.once(texts...)
		require.Equal(t, 200, b.sink.Total())
		require.Empty(t, b.src.Status().Error)
		require.EqualValues(t, 1, b.src.Status().Errors["query_length"])
	})
	// Loki does not know the filter.
	inBubble(t, nil, func(b *bench) {
		b.wait(time.Second)
		b.loki.Set(fakeloki.Status(400, "parse error at line 1, col 5: syntax error: unexpected |~"))
		b.wait(300 * time.Second)
		require.False(t, b.src.Status().Up)
		b.loki.Set(nil)
		b.push("bad", 0)
		b.wait(time.Minute)
		b.once("bad")
		require.Contains(t, b.src.Status().Error, "Loki refuses the query")
	})
}
