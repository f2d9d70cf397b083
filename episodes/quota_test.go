package episodes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

// tenants lets namespaces write lines.
type tenants struct{ *bench }

func (b tenants) say(d time.Duration, r *rules.Rule, namespace, key string) {
	h := lineHit(r, 0, d, namespace, key)
	h.Labels = matcher.Labels{"namespace": namespace}
	b.take(d, h)
}

// open lists the keys of the open episodes and their rules.
func (b tenants) open(d time.Duration) (out []string) {
	for _, x := range b.e.Episodes(at(d)) {
		if x.EndsAt.IsZero() && !x.Overflow {
			out = append(out, x.Alert+" "+x.Labels["k"])
		}
	}
	slices.Sort(out)
	return out
}

func keyed(name string, severity rules.Severity, change func(*rules.Rule)) *rules.Rule {
	return rule(func(r *rules.Rule) {
		r.Alert, r.Severity, r.By = name, severity, []string{"k"}
		change(r)
	})
}

// A namespace that fills the places of a rule, or of all rules, loses places to one that has
// fewer; the alerts that it loses say that their failures may not be over.
func TestPlacesAreShared(t *testing.T) {
	r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) { r.Limit = 4 })
	b := tenants{newBench(t, r)}
	for i := range 6 {
		b.say(time.Duration(i)*time.Second, r, "evil", fmt.Sprint("e", i))
	}
	require.Equal(t, []string{"A e0", "A e1", "A e2", "A e3"}, b.open(time.Minute))
	b.advance(6 * time.Second)
	b.say(7*time.Second, r, "shop", "s0") // e0 had no trigger for the longest time
	b.say(8*time.Second, r, "shop", "s1")
	b.say(9*time.Second, r, "shop", "s2") // has as many as the other
	b.advance(10 * time.Second)
	require.Equal(t, []string{"A e2", "A e3", "A s0", "A s1"}, b.open(time.Minute))
	displaced := 0
	for _, x := range b.reported {
		if x.Reason == ReasonDisplaced {
			displaced++
			require.Equal(t, StateResolved, x.State)
			require.Contains(t, x.Annotations["ended"], "nobody knows whether the failure is over")
		}
	}
	require.Equal(t, 2, displaced)
	named := func(x Episode) string { return x.Annotations["not_watched"] }
	over := func() Episode {
		all := b.e.Episodes(at(10 * time.Second))
		return all[slices.IndexFunc(all, func(x Episode) bool { return x.Overflow })]
	}
	require.Equal(t, "{k=\"e0\"}\n{k=\"e1\"}", named(over()))
	require.Equal(t, []Eviction{{Namespace: "evil", Rule: "A", Kind: EvictedAlerts, Count: 2, LastAt: at(6 * time.Second)}}, b.e.Stats(at(time.Minute)).Evictions)

	// Its next line finds no place again: nothing flaps.
	b.say(11*time.Second, r, "evil", "e0")
	b.advance(12 * time.Second)
	require.Equal(t, []string{"A e2", "A e3", "A s0", "A s1"}, b.open(time.Minute))
	b.restart(12 * time.Second)
	require.Contains(t, named(over()), "e1", "a restart keeps the names")
}

// A busy rule of a namespace costs its other rules nothing, whichever limit is
// reached.
func TestABusyRuleIsAloneToBlame(t *testing.T) {
	f := func(cfg Config) {
		t.Helper()
		busy := keyed("Busy", rules.SeverityWarning, func(*rules.Rule) {})
		calm := keyed("Calm", rules.SeverityWarning, func(*rules.Rule) {})
		b := tenants{newBench(t, busy, calm)}
		b.e = b.engine(cfg)
		b.say(0, calm, "kube-system", "c0")
		for i := range 20 {
			b.say(time.Second, busy, "kube-system", fmt.Sprint("b", i))
		}
		b.say(2*time.Second, calm, "kube-system", "c1")
		require.Subset(t, b.open(time.Minute), []string{"Calm c0", "Calm c1"})
		require.Len(t, b.open(time.Minute), 8)
	}
	f(Config{MaxActive: 8, MaxPerNamespace: 100})
	f(Config{MaxActive: 100, MaxPerNamespace: 8})
}

// besieged lets many tenants write lines of rules beside infrastructure, all of which has to be
// notified.
type besieged struct {
	tenants
	rules   []*rules.Rule
	clock   time.Duration
	expects []string
	ended   []string
}

func (c *besieged) evaluate() {
	c.advance(c.clock)
	for _, x := range c.reported {
		if x.State == StateResolved && (strings.HasPrefix(x.Labels["k"], "kube-system") || strings.HasPrefix(x.Labels["k"], "node")) {
			c.ended = append(c.ended, x.Alert+" "+x.Labels["k"])
		}
	}
	c.reported = nil
}

// infrastructure writes n new failures of each rule in kube-system and of the node.
func (c *besieged) infrastructure(n int) {
	for _, r := range c.rules {
		for i := range n {
			for name, namespace := range map[string]string{"kube-system": "kube-system", "node": ""} {
				key := fmt.Sprintf("%s-%v-%d", name, c.clock, i)
				for range max(1, r.Count) {
					c.clock += time.Millisecond
					c.say(c.clock, r, namespace, key)
				}
				c.expects = append(c.expects, r.Alert+" "+key)
			}
		}
	}
}

func (c *besieged) check(t *testing.T) {
	c.evaluate()
	require.Empty(t, c.ended)
	require.Subset(t, c.open(c.clock), c.expects)
}

// However many namespaces of tenants there are, and whatever they write, each alert of
// infrastructure opens at once and none loses its place, in every kind of rule.
func TestInfrastructureHasPlaces(t *testing.T) {
	for _, x := range []struct {
		namespaces, keys int
		churns           bool
	}{{150, 1, false}, {150, 1, true}, {150, 100, false}, {150, 20, true}, {2000, 1, false}, {2000, 1, true}} {
		t.Run(fmt.Sprintf("%d namespaces, %d keys, churns %v", x.namespaces, x.keys, x.churns), func(t *testing.T) {
			besiege(t, x.namespaces, x.keys, x.churns)
		})
	}
}

func besiege(t *testing.T, n, keys int, churns bool) {
	clears := &rules.ClearOrUnless{Same: []string{"k"}}
	c := &besieged{rules: []*rules.Rule{
		keyed("Warning", rules.SeverityWarning, func(r *rules.Rule) { r.Limit, r.Clear = 100, clears }),
		keyed("Critical", rules.SeverityCritical, func(r *rules.Rule) { r.Limit, r.Clear = 100, clears }),
		keyed("Count", rules.SeverityWarning, func(r *rules.Rule) { r.Limit, r.Count, r.Within, r.Clear = 100, 2, time.Hour, clears }),
	}}
	c.tenants = tenants{newBench(t, c.rules...)}
	list, err := namespaces.Parse(nil)
	require.NoError(t, err)
	c.set.Namespaces = list
	c.e.Swap(c.set, at(0))
	flood := func(first, from int) {
		for i := first; i < n; i++ {
			namespace := fmt.Sprint("tenant-", i)
			for k := range keys {
				key := fmt.Sprintf("t%d-%d", i, from+k)
				for _, r := range c.rules {
					c.clock += time.Microsecond
					c.say(c.clock, r, namespace, key)
					if churns {
						h := lineHit(r, matcher.PartClear, c.clock+1, "clear", key)
						h.Labels = matcher.Labels{"namespace": namespace}
						c.take(c.clock, h)
					}
				}
			}
		}
		c.evaluate()
	}
	c.infrastructure(10)
	flood(0, 0)
	c.infrastructure(20)
	flood(0, 0)
	require.NoError(t, restartWith(c.bench, Config{}))
	flood(0, keys)
	c.infrastructure(15)
	c.check(t)

	// A reload that trusts one more namespace moves its places.
	more, err := namespaces.Parse([]string{"+tenant-0"})
	require.NoError(t, err)
	c.set.Namespaces = more
	c.e.Swap(c.set, at(c.clock))
	c.say(c.clock+time.Millisecond, c.rules[0], "tenant-0", "kube-system-new")
	c.expects = append(c.expects, "Warning kube-system-new")
	flood(1, 0)
	c.check(t)
}

// Critical rules have places that no other rule takes.
func TestCriticalRulesHavePlaces(t *testing.T) {
	warning := keyed("W", rules.SeverityWarning, func(*rules.Rule) {})
	critical := keyed("C", rules.SeverityCritical, func(*rules.Rule) {})
	b := tenants{newBench(t, warning, critical)}
	b.e = b.engine(Config{MaxActive: 8, MaxPerNamespace: 8})
	for i := range 10 {
		b.say(0, warning, fmt.Sprint("ns", i), fmt.Sprint("w", i))
	}
	b.say(time.Second, critical, "ns0", "c0")
	b.say(time.Second, critical, "ns1", "c1")
	b.say(time.Second, critical, "ns2", "c2")
	require.Len(t, b.open(time.Minute), 10)
	require.Subset(t, b.open(time.Minute), []string{"C c0", "C c1"})
}

// Whatever a namespace writes, the lines of others are counted, in every kind of
// window, over a restart and over a swap of the rules.
func TestCountsAreShared(t *testing.T) {
	f := func(name string, change func(*rules.Rule)) {
		t.Run(name, func(t *testing.T) {
			var rs []*rules.Rule
			for i := range 5 {
				rs = append(rs, keyed(fmt.Sprint("R", i), rules.SeverityWarning, func(r *rules.Rule) {
					r.Limit, r.Count, r.Within, r.CapturedNames = 10, 3, time.Hour, []string{"k", "v"}
					change(r)
				}))
			}
			b := tenants{newBench(t, rs...)}
			cfg := Config{MaxKeys: 60, MaxHits: 300, Fingerprints: 100}
			b.e = b.engine(cfg)
			lines := 0
			flood := func(from time.Duration) {
				for i := range 500 {
					lines++
					b.say(from+time.Duration(i)*time.Millisecond, rs[i%5], "evil", fmt.Sprint("e", lines%300))
				}
			}
			victims := func(d time.Duration) {
				for i, r := range rs {
					for ns := range 10 {
						h := lineHit(r, matcher.Part(int(d/time.Minute)%len(r.Steps)), d, "victim", fmt.Sprint("v", ns), d.String())
						h.Labels = matcher.Labels{"namespace": fmt.Sprint("ns", ns)}
						if i == 0 || ns == 0 {
							b.take(d, h)
						}
					}
				}
			}
			flood(0)
			victims(3 * time.Minute)
			flood(3 * time.Minute)
			require.NoError(t, restartWith(b.bench, cfg))
			flood(210 * time.Second)
			victims(4 * time.Minute)
			rs[2].Severity = rules.SeverityCritical
			b.e.Swap(b.set, at(4*time.Minute))
			flood(4 * time.Minute)
			victims(5 * time.Minute)
			open := b.open(6 * time.Minute)
			for ns := range 10 {
				require.Contains(t, open, fmt.Sprint("R0 v", ns))
			}
			for i := range rs {
				require.Contains(t, open, fmt.Sprint("R", i, " v0"))
			}
			for _, x := range b.e.Stats(at(0)).Evictions {
				require.Equal(t, "evil", x.Namespace)
			}
		})
	}
	f("count", func(*rules.Rule) {})
	f("distinct", func(r *rules.Rule) { r.Distinct = "v" })
	f("sequence", func(r *rules.Rule) { r.Sequence, r.Steps, r.Count = true, make([]rules.Step, 3), 1 })
}

func restartWith(b *bench, cfg Config) error {
	s, err := b.e.Snapshot()
	if err != nil {
		return err
	}
	b.e = b.engine(cfg)
	return b.e.Restore(s, at(0))
}

// Many namespaces with one key each are an LRU: none has more than others.
func TestManyNamespaces(t *testing.T) {
	r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) { r.Limit, r.Count, r.Within = 100, 2, time.Hour })
	b := tenants{newBench(t, r)}
	b.say(0, r, "shop", "mine")
	for i := range 10_000 {
		d := time.Duration(i) * time.Millisecond
		b.say(d, r, fmt.Sprint("ns", i), fmt.Sprint("k", i))
		if i == 900 {
			b.say(d, r, "shop", "mine")
		}
	}
	require.Contains(t, b.open(time.Minute), "A mine")
	require.Equal(t, 1000, b.e.limits.windows.Tenants(quota.Ordinary))
	require.LessOrEqual(t, len(b.e.Stats(at(0)).Evictions), quota.MaxLosses+1)
	n := int64(0)
	for _, x := range b.e.Stats(at(0)).Evictions {
		n += x.Count
	}
	require.EqualValues(t, 10_000-1000, n)
}

// A window whose lines no longer count is not a loss.
func TestOldWindowsAreNoLoss(t *testing.T) {
	r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) { r.Limit, r.Count, r.Within = 1, 2, time.Minute })
	b := tenants{newBench(t, r)}
	for i := range 50 {
		d := time.Duration(i) * time.Minute
		b.say(d, r, "ns", fmt.Sprint("k", i))
		b.advance(d)
	}
	st := b.e.Stats(at(time.Hour))
	require.EqualValues(t, 40, st.Rules[0].Evicted)
	require.Empty(t, st.Evictions)
}

// Windows of thousands of lines share their bound among namespaces: one namespace that fills
// many of them loses its own lines, and the count of another one is exact.
func TestLargeWindowsAreShared(t *testing.T) {
	r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) {
		r.Count, r.Within, r.Limit = 3000, time.Hour, 5000
	})
	b := tenants{newBench(t, r)}
	b.e = b.engine(Config{MaxHits: 5000})
	say := func(namespace, key string, i int) {
		d := time.Duration(i) * time.Millisecond
		h := lineHit(r, 0, d, "line", key)
		h.Labels = matcher.Labels{"namespace": namespace}
		b.take(d, h)
	}
	for i := range 2999 {
		say("shop", "orders", i)
		for k := range 20 {
			say("evil", fmt.Sprint("e", k), i)
		}
	}
	require.Empty(t, b.e.rules["A"].open)
	require.Equal(t, "evil", b.e.Evictions()[0].Namespace)
	require.Len(t, b.e.Evictions(), 1)
	b.advance(time.Minute)
	require.Empty(t, b.firing())
	say("shop", "orders", 2999)
	b.advance(time.Minute)
	require.Len(t, b.firing(), 1)
	for _, x := range b.firing() {
		require.EqualValues(t, 3000, x.Count)
	}
}

// Many lines or long values of one namespace take no more memory than the bounds allow,
// with and without open episodes. The lines of other namespaces stay.
func TestLongValuesAreBounded(t *testing.T) {
	f := func(name string, change func(*rules.Rule)) {
		t.Run(name, func(t *testing.T) {
			r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) {
				r.Limit, r.Within, r.CapturedNames = 50, time.Hour, []string{"k", "v"}
				change(r)
			})
			b := tenants{newBench(t, r)}
			b.e = b.engine(Config{MaxHits: 1000})
			say := func(namespace, key, value string, i int) {
				d := time.Duration(i) * time.Millisecond
				h := lineHit(r, matcher.Part(i%len(r.Steps)), d, "line", key, fmt.Sprint(i, value))
				h.Labels = matcher.Labels{"namespace": namespace}
				b.take(d, h)
			}
			long := fmt.Sprintf("%01000d", 0)
			for i := range 3 {
				say("shop", "open", "short", i)
			}
			say("shop", "waits", "short", 3)
			for i := range 20_000 {
				say("evil", fmt.Sprint("e", i/3%70), long, i+4)
			}
			bytes := 0
			for _, ep := range b.e.rules["A"].open {
				bytes += ep.window.bytes()
			}
			require.Positive(t, bytes)
			require.LessOrEqual(t, bytes, 1000*window.ExtraBytes)
			bytes = 0
			for _, x := range b.e.rules["A"].windows.Items {
				bytes += x.Value.bytes()
				require.Equal(t, x.Value.Size(), x.Size)
			}
			require.LessOrEqual(t, bytes, 1000*window.ExtraBytes)
			require.Equal(t, "evil", b.e.Evictions()[0].Namespace)
			require.Len(t, b.e.Evictions(), 1)
			require.Equal(t, 3, b.e.rules["A"].open["open"].window.lineCount())
			require.Equal(t, 1, b.e.rules["A"].windows.Items["waits"].Value.lineCount())
			exact := 0
			for _, ep := range b.e.rules["A"].open {
				exact += ep.window.Size()
			}
			require.Equal(t, exact, b.e.limits.slots.Used[quota.Ordinary][quota.InSize])
		})
	}
	f("distinct", func(r *rules.Rule) { r.Count, r.Distinct = 3, "v" })
	f("sequence", func(r *rules.Rule) { r.Sequence, r.Steps = true, make([]rules.Step, 3) })
}

func (w *keyWindow) lineCount() int {
	n := len(w.Window.Values)
	for _, hs := range w.Steps {
		n += len(hs)
	}
	return n
}

func (w *keyWindow) bytes() int {
	n := 0
	for _, hs := range append(slices.Clone(w.Steps), w.Window.Values) {
		for _, h := range hs {
			for _, v := range h.Values {
				n += len(v)
			}
		}
	}
	return n
}

// Alerts that lines open and clear in turn are bounded over time; other rules of the
// namespace, and other namespaces, are not affected.
func TestChurnIsBounded(t *testing.T) {
	clears := func(r *rules.Rule) { r.Clear = &rules.ClearOrUnless{Same: []string{"k"}} }
	busy, calm := keyed("Busy", rules.SeverityWarning, clears), keyed("Calm", rules.SeverityWarning, clears)
	b := tenants{newBench(t, busy, calm)}
	b.e = b.engine(Config{MaxPerNamespace: 10})
	flap := func(d time.Duration, r *rules.Rule, namespace, key string) {
		b.say(d, r, namespace, key)
		h := lineHit(r, matcher.PartClear, d+1, "clear", key)
		h.Labels = matcher.Labels{"namespace": namespace}
		b.take(d, h)
	}
	opened := func() (n int) {
		for _, x := range b.e.Evaluate(at(0)) {
			if x.State == StateFiring && !x.Overflow {
				n++
			}
		}
		return n
	}
	for i := range 100 {
		flap(time.Duration(i)*time.Millisecond, busy, "evil", fmt.Sprint(i))
	}
	require.Equal(t, 40, opened())
	require.Contains(t, b.e.rules["Busy"].overflow.limitText, "namespace evil opened 40 alerts")
	for i := range 5 {
		flap(time.Second, calm, "evil", fmt.Sprint(i))
		flap(time.Second, busy, "shop", fmt.Sprint("s", i))
	}
	require.Equal(t, 10, opened())
	for i := range 100 {
		flap(2*keepResolved, busy, "evil", fmt.Sprint(i))
	}
	require.Equal(t, 40, opened())
}

// A clear line ends an alert that lost its place, also for receivers that still have it, and
// also after a restart.
func TestClearEndsADisplacedAlert(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint(restarts), func(t *testing.T) { testClearOfDisplaced(t, restarts) })
	}
}

func testClearOfDisplaced(t *testing.T, restarts bool) {
	t.Helper()
	r := keyed("A", rules.SeverityWarning, func(r *rules.Rule) { r.Limit, r.Clear = 2, &rules.ClearOrUnless{Same: []string{"k"}} })
	b := tenants{newBench(t, r)}
	b.say(0, r, "evil", "e0")
	b.say(time.Second, r, "evil", "e1")
	b.advance(2 * time.Second)
	b.say(3*time.Second, r, "shop", "s0")
	b.advance(4 * time.Second)
	require.Equal(t, []string{"A e1", "A s0"}, b.open(time.Minute))
	clears := func(d time.Duration) {
		h := lineHit(r, matcher.PartClear, d, "clear", "e0")
		h.Labels = matcher.Labels{"namespace": "evil"}
		b.take(d, h)
		b.advance(d + time.Second)
	}
	ends := func() (out []Reason) {
		for _, x := range b.reported {
			if x.Labels["k"] == "e0" && x.State == StateResolved {
				out = append(out, x.Reason)
			}
		}
		return out
	}
	require.Equal(t, []Reason{ReasonDisplaced}, ends())
	if restarts {
		b.restart(4 * time.Second)
		b.restart(4 * time.Second)
	}
	clears(5 * time.Second)
	clears(7 * time.Second)
	require.Equal(t, []Reason{ReasonDisplaced, ReasonClear}, slices.Compact(ends()))
	last := b.reported[slices.IndexFunc(b.reported, func(x Episode) bool { return x.Labels["k"] == "e0" && x.Reason == ReasonClear })]
	require.Equal(t, at(5*time.Second), last.EndsAt)
	require.NotContains(t, last.Annotations, "ended")
	listed := 0
	for _, x := range b.e.Episodes(at(10 * time.Second)) {
		if x.Labels["k"] == "e0" {
			listed++
			require.Equal(t, ReasonClear, x.Reason)
		}
	}
	require.Equal(t, 1, listed)
}

// Where every namespace may write lines of a rule, the text of one never replaces that of
// another, and the origin names both.
func TestTextOfAnotherNamespace(t *testing.T) {
	r := keyed("A", rules.SeverityCritical, func(*rules.Rule) {})
	b := tenants{newBench(t, r)}
	b.say(0, r, "kube-system", "k")
	b.say(time.Second, r, "evil", "k")
	b.say(2*time.Second, r, "evil", "k")
	b.restart(2 * time.Second)
	b.say(3*time.Second, r, "worse", "k")
	got := b.e.Episodes(at(time.Minute))[0]
	require.EqualValues(t, 4, got.Count)
	require.EqualValues(t, "kube-system", got.Line) // say writes the namespace as the line
	require.Equal(t, "namespace kube-system and 2 other logs, also in namespace evil, worse", got.Origin)
}
