package rangeread

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/test/linesink"
)

// lokiLike is a dialect with the syntax of Loki.
var lokiLike = &Dialect{
	Key: "loki", Server: "Loki",
	Text: func(t Text) string {
		expr := regexp.QuoteMeta(t.Text)
		if t.Fold {
			expr = "(?i)" + expr
		}
		return strings.Trim(strconv.Quote("("+expr+")"), `"`)
	},
	Open: ` |~ "`, Or: "|", Close: `"`, MaxQuery: 64 << 10, MaxQueries: 8, ParseSelector: selector.Parse,
}

var pack = linesink.Pack

func plannerOf(t testing.TB, cfg Config, tenant string) planner {
	t.Helper()
	sel, err := selector.Parse(cfg.Selector)
	require.NoError(t, err)
	return planner{dialect: lokiLike, selector: sel, naming: newNaming(cfg, tenant)}
}

func TestPlan(t *testing.T) {
	f := func(selector, yaml string, want ...string) {
		t.Helper()
		p := plannerOf(t, Config{Selector: selector, Labels: map[string]string{"k8s_namespace_name": "namespace"}}, "")
		require.Equal(t, want, p.makePlan(pack(t, yaml), lokiLike.MaxQuery, true).queries)
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

// Streams do not have the lines that crowsnest writes about objects, unless the
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
	f(lokiLike.MaxQuery, 1, false)
	f(6000, 1, false)
	f(3000, 2, false)
	f(1024, 5, false)
	f(500, 1, true)
	f(50, 1, true)
}

// A long text is replaced by the part that others have too, and otherwise by one that needs no
// escapes.
func TestShorten(t *testing.T) {
	got := planner{dialect: lokiLike}.shortenTexts([]Text{
		{Text: "x failed to create the pod"},
		{Text: "it failed to create"},
		{Text: "short", Fold: true},
		{Text: "[0]: no space left on it"},
		{Text: "no space left on \u00fc", Fold: true},
		{Text: "error calling webhook", Fold: true},
	})
	require.Equal(t, []Text{
		{Text: " failed to create"},
		{Text: " failed to create"},
		{Text: "short", Fold: true},
		{Text: ": no space left o"},
		{Text: "no space left on \u00fc", Fold: true},
		{Text: "error calling web", Fold: true},
	}, got)
}

func TestReduce(t *testing.T) {
	f := func(in []Text, want ...Text) {
		t.Helper()
		require.Equal(t, want, removeCovered(in))
	}
	f([]Text{{Text: "abcd"}, {Text: "bc"}}, Text{Text: "bc"})
	f([]Text{{Text: "abcd", Fold: true}, {Text: "bc"}}, Text{Text: "bc"}, Text{Text: "abcd", Fold: true})
	f([]Text{{Text: "aBCd"}, {Text: "bc", Fold: true}}, Text{Text: "bc", Fold: true})
	f([]Text{{Text: "abc"}, {Text: "abc", Fold: true}, {Text: "abc"}}, Text{Text: "abc", Fold: true})
	f([]Text{{Text: "abc"}, {Text: "xyz"}}, Text{Text: "abc"}, Text{Text: "xyz"})
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

// Many rules are divided among few queries. Each line that a rule of the shipped packs can
// match is in one of them, and the lines of other containers are searched for few texts.
func TestShippedPacks(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	p := plannerOf(t, Config{Selector: `{cluster="x"}`}, "")
	plan := p.makePlan(set, lokiLike.MaxQuery, true)
	require.Empty(t, plan.everyLine)
	require.LessOrEqual(t, len(plan.queries), maxGroups)
	sent := 0
	for _, q := range plan.queries {
		require.Less(t, len(q), lokiLike.MaxQuery/2)
		sent += len(q) + uncachedRoom
	}
	cfg := Config{}.withDefaults(lokiLike)
	rounds := 24*time.Hour/cfg.FastInterval + 24*time.Hour/cfg.SlowInterval
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
	searched := func(labels map[string]string) (texts []Text) {
		for _, g := range groups {
			if !slices.ContainsFunc(p.commonConditions(g.selectors), func(c condition) bool {
				return !regexp.MustCompile("^(?:" + c.expr + ")$").MatchString(labels[c.name])
			}) {
				texts = append(texts, p.shortenTexts(g.texts)...)
			}
		}
		return removeCovered(texts)
	}
	all := len(searched(nil))
	require.Less(t, len(searched(map[string]string{"container": "web"})), all/3)

	found := map[string][]Text{}
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
					contains := func(x Text) bool {
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

func pairs(kv ...string) []Pair {
	var out []Pair
	for i := 0; i+1 < len(kv); i += 2 {
		out = append(out, Pair{[]byte(kv[i]), []byte(kv[i+1])})
	}
	return out
}

func TestLabels(t *testing.T) {
	n := newNaming(Config{Labels: map[string]string{"k8s_namespace_name": "namespace", "kube_ns": "namespace", "host": "machine"}, Tenants: []string{"a", "b"}}, "b")
	wanted := map[string]bool{"pod": true, "namespace": true}
	f := func(stream, meta []Pair, want matcher.Labels) {
		t.Helper()
		want[tenantLabel] = "b"
		require.Equal(t, want, n.labels(stream, meta, wanted))
	}
	f(pairs("app", "x"), nil, matcher.Labels{"app": "x"})
	f(pairs("app", "x", "tenant", "forged"), nil, matcher.Labels{"app": "x"})
	f(pairs("namespace", "x"), nil, matcher.Labels{"namespace": "x"})
	f(pairs("namespace", "x", "kube_ns", "y"), nil, matcher.Labels{"namespace": "y"})
	f(pairs("k8s_namespace_name", "z", "namespace", "x", "kube_ns", "y"), nil, matcher.Labels{"namespace": "z"})
	f(pairs("k8s_namespace_name", "", "namespace", "x"), nil, matcher.Labels{"namespace": "x"})
	f(pairs("host", "h"), pairs("pod", "p", "trace_id", "t"), matcher.Labels{"machine": "h", "pod": "p"})
	f(pairs("pod", "p"), pairs("pod", "forged", "kube_ns", "n", "namespace", "m"), matcher.Labels{"pod": "p", "namespace": "n"})
	require.Equal(t, "k8s_namespace_name", n.storedName("namespace"))
	require.Equal(t, "host", n.storedName("machine"))
	require.Equal(t, "pod", n.storedName("pod"))
	require.Empty(t, n.storedName("host"))
	require.Empty(t, n.storedName("tenant"))
}
