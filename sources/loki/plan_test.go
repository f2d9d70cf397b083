package loki

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
	"crowsnest/rules/selector"
	"crowsnest/test/fakeloki"
)

func plannerOf(t testing.TB, cfg Config, tenant string) planner {
	t.Helper()
	sel, err := selector.Parse(cfg.Selector)
	require.NoError(t, err)
	return planner{selector: sel, naming: newNaming(cfg, tenant)}
}

func TestPlan(t *testing.T) {
	f := func(selector, yaml string, want ...string) {
		t.Helper()
		p := plannerOf(t, Config{Selector: selector, Labels: map[string]string{"k8s_namespace_name": "namespace"}}, "")
		require.Equal(t, want, p.makePlan(pack(t, yaml), maxQuery, true).queries)
	}
	one := `{alert: A, from: '{container="syncer"}', severity: info, `
	f(`{cluster="x"}`, "- "+one+`match: lease lost}`, `{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(lease lost)"`)
	f(`{cluster="x"}`, "- "+one+`match: lease lost, clear: {contains: "got it, (now)"}, for: 1m}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(lease lost)|(got it, \\(now\\))"`)
	f(`{cluster="x"}`, "- "+one+`match: lease lost, unless: {contains: planned, within: 5m}}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(planned)|(lease lost)"`)
	f(`{cluster="x"}`, "- "+one+`sequence: [first, second], within: 5m}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(first)|(second)"`)
	f(`{cluster="x"}`, "- "+one+`match: {regex: "(?i)etcd (down|out)"}}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|((?i)etcd out)|((?i)etcd down)"`)
	f(`{cluster="x"}`, "- "+one+`match: {field: {Cluster: seldom}}}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(\\\\u00)|(seldom)"`)
	// A rule without a text: its streams are read completely, the others are not.
	f(`{cluster="x"}`, "- "+one+`match: {regex: '\d+'}}`+"\n- {alert: B, from: '{namespace=~\"a|b\"}', severity: info, match: lease lost}\n",
		`{cluster="x", service_name!="crowsnest", container=~"syncer|"}`,
		`{cluster="x", service_name!="crowsnest", k8s_namespace_name=~"(?:a|b)|"} |~ "(\x00)|(lease lost)"`)
	// A condition that one rule lacks cannot be required.
	f(`{cluster="x"}`, "- "+one+"match: lease lost}\n"+`- {alert: B, from: '{namespace="a", container!="x"}', severity: info, match: lease gone}`,
		`{cluster="x", service_name!="crowsnest"} |~ "(\x00)|(lease gone)|(lease lost)"`)
	f(`{cluster="x"}`, "- "+one+"match: lease lost}\n"+`- {alert: B, from: '{container="a.b", namespace!="x"}', severity: info, match: lease lost now}`,
		`{cluster="x", service_name!="crowsnest", container=~"syncer|a\\.b|"} |~ "(\x00)|(lease lost)"`)
	// Rules for other streams, or that are off, need nothing.
	f(`{container="other"}`, "- "+one+"match: lease lost}\n")
	f(`{cluster="x"}`, "- "+one+"match: lease lost, enabled: false}\n")
	f(`{cluster="x"}`, "- "+one+"match: lease lost, enabled: silent}\n", `{cluster="x", service_name!="crowsnest", container=~"syncer|"} |~ "(\x00)|(lease lost)"`)
}

// Streams in Loki do not have the lines that crowsnest writes about objects, unless the
// configuration mentions their label.
func TestServesStates(t *testing.T) {
	f := func(want bool, from, configured string, labels map[string]string) {
		t.Helper()
		sel, err := selector.Parse(from)
		require.NoError(t, err)
		require.Equal(t, want, plannerOf(t, Config{Selector: configured, Labels: labels}, "").serves(sel))
	}
	all := `{cluster=~".+"}`
	f(false, `{component="conditions"}`, all, nil)
	f(false, `{component=~"events|phases", namespace="a"}`, all, nil)
	f(true, `{component="etcd"}`, all, nil)
	f(true, `{component=~"|conditions", container="manager"}`, all, nil)
	f(true, `{component!="conditions", container="manager"}`, all, nil)
	f(true, `{component="events"}`, `{component="events"}`, nil)
	f(false, `{component="leases"}`, `{component="events"}`, nil)
	f(true, `{component="events"}`, `{component=~".+"}`, nil)
	f(true, `{component="events"}`, all, map[string]string{"kind": "component"})
	f(true, `{unit="kubelet.service"}`, all, nil)
}

// Long filters are split, very long ones dropped.
func TestPlanSize(t *testing.T) {
	var yaml strings.Builder
	for i := range 200 {
		fmt.Fprintf(&yaml, "- {alert: R%03d, from: '{app=\"a\"}', severity: info, match: the %03d. text of them}\n", i, i)
	}
	set, p := pack(t, yaml.String()), plannerOf(t, Config{Selector: `{app="a"}`}, "")
	f := func(most, queries int, dropped bool) {
		t.Helper()
		plan := p.makePlan(set, most, true)
		require.Len(t, plan.queries, queries)
		require.Equal(t, dropped, plan.dropped)
		all := strings.Join(plan.queries, "")
		for i := range 200 {
			require.Equal(t, !dropped, strings.Contains(all, fmt.Sprintf("(the %03d\\\\. text", i)))
		}
		for _, q := range plan.queries {
			require.LessOrEqual(t, len(q), max(most, 100))
		}
	}
	f(maxQuery, 1, false)
	f(6000, 1, false)
	f(3000, 2, false)
	f(1024, 5, false)
	f(500, 1, true)
	f(50, 1, true)
}

// A long text is replaced by the part that others have too, and otherwise by one that needs no
// escapes.
func TestShorten(t *testing.T) {
	got := shortenTexts([]text{
		{Text: "x failed to create the pod"}, {Text: "it failed to create"}, {Text: "short", Fold: true},
		{Text: "[0]: no space left on it"}, {Text: "no space left on \u00fc", Fold: true}, {Text: "error calling webhook", Fold: true},
	})
	require.Equal(t, []text{
		{Text: " failed to create"}, {Text: " failed to create"}, {Text: "short", Fold: true},
		{Text: ": no space left o"}, {Text: "no space left on \u00fc", Fold: true}, {Text: "error calling web", Fold: true},
	}, got)
}

func TestReduce(t *testing.T) {
	f := func(in []text, want ...text) {
		t.Helper()
		require.Equal(t, want, removeCovered(in))
	}
	f([]text{{Text: "abcd"}, {Text: "bc"}}, text{Text: "bc"})
	f([]text{{Text: "abcd", Fold: true}, {Text: "bc"}}, text{Text: "bc"}, text{Text: "abcd", Fold: true})
	f([]text{{Text: "aBCd"}, {Text: "bc", Fold: true}}, text{Text: "bc", Fold: true})
	f([]text{{Text: "abc"}, {Text: "abc", Fold: true}, {Text: "abc"}}, text{Text: "abc", Fold: true})
	f([]text{{Text: "abc"}, {Text: "xyz"}}, text{Text: "abc"}, text{Text: "xyz"})
}

func TestReadable(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, longestReadable(in))
	}
	f("lease", "lease")
	f("é", "é")
	f("a\xfflonger", "longer")
	f("longer\uFFFDa", "longer")
	f("\xff", "")
}

// For every rule of the shipped packs and of the language: the plan's queries return
// each line of its tests that it matches, and the line has the same hits.
func TestFilterIsSound(t *testing.T) {
	files, problems := rulefiles.ReadPaths([]string{"../../rules/packs", "../../testdata/language"})
	require.Empty(t, problems.Errors())
	n := 0
	for _, file := range files {
		doc, problems := rules.Parse(file)
		if doc.IsOverrides() || len(problems.Errors()) > 0 {
			continue
		}
		set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.Empty(t, problems.Errors(), file.Name)
		n += soundFor(t, set)
	}
	require.Greater(t, n, 300)
}

func soundFor(t *testing.T, set *rules.Set) int {
	t.Helper()
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	l := fakeloki.New()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
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
					for _, h := range prog.Match(s, matcher.Record{Time: now, Text: []byte(line)}) {
						want = append(want, fmt.Sprint(h.Rule.Alert, h.Part, h.Time.UnixNano(), h.Values, h.ID))
					}
				}
			}
		}
	}
	cfg := config(l)
	cfg.Timeout = 5 * time.Minute                      // the fake server matches all lines of a pack, slowly with the race detector
	cfg.Selector = `{always="there", component=~".*"}` // lines about objects count as well
	got := hitsThrough(t, cfg, prog, set, now)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	return len(want)
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

// hitsThrough runs the queries of the plan, and matches the result.
func hitsThrough(t *testing.T, cfg Config, prog *matcher.Program, set *rules.Set, end time.Time) []string {
	t.Helper()
	s := newSource(cfg.withDefaults(), "loki", "")
	s.plannedRules, s.plan = set, s.planner.makePlan(set, maxQuery, true)
	seen := newMemory(0, maxKeys)
	var out []string
	s.rangeReader.onEntries = func(a *answer, _, _ int64) {
		s.byIndex = make([]*stream, len(a.streams))
		for i := range a.entries {
			e := &a.entries[i]
			if key := a.hashEntry(&s.hash, "", e); !seen.has(e.ts, key) {
				seen.add(e.ts, key)
				st := s.stream(a, e).s
				for _, h := range prog.Match(st, matcher.Record{Time: time.Unix(0, e.ts).UTC(), Text: e.line}) {
					out = append(out, fmt.Sprint(h.Rule.Alert, h.Part, h.Time.UnixNano(), h.Values, h.ID))
				}
			}
		}
	}
	s.rangeReader.failed = func(f *failure) { t.Fatal(f.err) }
	for _, q := range s.plan.queries {
		for c := (cursor{logql: q, at: end.Add(-time.Hour).UnixNano(), end: end.Add(time.Hour).UnixNano()}); !c.isDone(); {
			require.Nil(t, s.rangeReader.step(t.Context(), &c))
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
		require.Equal(t, 30, b.sink.total())
		b.push("worse long ago", 10*time.Minute)
		b.wait(34 * time.Second) // a slow round was not long ago
		require.Equal(t, 30, b.sink.total())
		b.sink.swap(pack(t, `
- {alert: R, from: '{app="a"}', match: bad, severity: warning}
- {alert: S, from: '{app="a"}', match: worse, severity: warning}
`))
		b.wait(1100 * time.Millisecond)
		b.once("worse long ago") // at once, not with the next slow round
		push(30)
		b.wait(20 * time.Second)
		b.once(bad...)
		b.once(worse...)
		require.Zero(t, b.src.Status().Errors[late1m], "what only the new rule wants did not come late")
		b.sink.swap(rule(t, "S", "worse"))
		push(10)
		b.wait(20 * time.Second)
		b.once(bad[:60]...)
		b.once(worse...)
		require.Equal(t, 131, b.sink.total())
		for range 50 { // the same rules again and again
			b.sink.swap(rule(t, "S", "worse"))
			push(1)
		}
		b.wait(20 * time.Second)
		b.once(worse...)
		require.Equal(t, 181, b.sink.total())
	})
}

func TestWarnings(t *testing.T) {
	f := func(yaml string, change func(l *fakeloki.Loki), want string) {
		t.Helper()
		inLoki(t, change, nil, func(b *bench) {
			b.sink.swap(pack(t, yaml))
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
		b.sink.swap(pack(t, many.String()))
		var texts []string
		for i := range 200 {
			texts = append(texts, fmt.Sprintf("bad %03d", i))
			b.push(texts[i], 0)
		}
		b.push("good", 0)
		b.wait(time.Minute)
		b.once(texts...)
		require.Equal(t, 200, b.sink.total())
		require.Empty(t, b.src.Status().Error)
		require.EqualValues(t, 1, b.src.Status().Errors[reasonQuery])
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

// Many rules are divided among few queries. Each line that a rule of the shipped packs can
// match is in one of them, and the lines of other containers are searched for few texts.
func TestShippedPacks(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	p := plannerOf(t, Config{Selector: `{cluster="x"}`}, "")
	plan := p.makePlan(set, maxQuery, true)
	require.Empty(t, plan.everyLine)
	require.LessOrEqual(t, len(plan.queries), maxGroups)
	sent := 0
	for _, q := range plan.queries {
		require.Less(t, len(q), maxQuery/2)
		sent += len(q) + uncachedRoom
	}
	rounds := 24*time.Hour/defaultFastInterval + 24*time.Hour/defaultSlowInterval
	require.Less(t, sent*int(rounds), 200_000_000, "bytes of queries a day")
	require.Less(t, len(plan.queries)*int(rounds), 24*60*60/2, "queries a day")

	var wanted []group
	for _, r := range set.Rules {
		if froms := p.servedSelectors(r); r.Mode != rules.ModeOff && len(froms) > 0 {
			texts, ok := p.ruleTexts(r)
			require.True(t, ok, r.Alert)
			wanted = append(wanted, group{froms, texts})
		}
	}
	groups := p.divideGroups(wanted)
	require.Len(t, groups, len(plan.queries))
	searched := func(labels map[string]string) (texts []text) {
		for _, g := range groups {
			if !slices.ContainsFunc(p.commonConditions(g.selectors), func(c condition) bool {
				return !regexp.MustCompile("^(?:" + c.expr + ")$").MatchString(labels[c.name])
			}) {
				texts = append(texts, shortenTexts(g.texts)...)
			}
		}
		return removeCovered(texts)
	}
	all := len(searched(nil))
	require.Less(t, len(searched(map[string]string{"container": "web"})), all/3)

	found := map[string][]text{}
	lines := 0
	for _, r := range set.Rules {
		texts, _ := p.ruleTexts(r)
		for _, from := range p.servedSelectors(r) {
			for _, test := range r.Tests {
				for _, in := range test.Input {
					labels := maps.Clone(test.Stream)
					if labels == nil {
						labels = map[string]string{}
					}
					maps.Copy(labels, in.Labels)
					contains := func(x text) bool {
						return !x.Fold && strings.Contains(in.Text, x.Text) || x.Fold && strings.Contains(strings.ToLower(in.Text), x.Text)
					}
					if in.Text == "" || !from.Matches(labels, false) || !slices.ContainsFunc(texts, contains) {
						continue
					}
					id := fmt.Sprint(labels)
					if found[id] == nil {
						found[id] = searched(labels)
					}
					require.True(t, slices.ContainsFunc(found[id], contains), "%s: %v %s", r.Alert, labels, in.Text)
					lines++
				}
			}
		}
	}
	require.Greater(t, lines, 1000)
}
