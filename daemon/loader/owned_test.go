package loader

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/daemon/config"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/test/rulefolder"
)

func ownedFile(namespace, name, text string) rules.File {
	return rules.File{Name: rules.OwnedPrefix + namespace + "/rules/" + name, Namespace: namespace, Data: []byte(text)}
}

// brokenOf returns the refused files of namespaces, with a + if a version of the file is active.
func brokenOf(l Loaded) (out []string) {
	for _, b := range l.Broken {
		name := strings.TrimPrefix(b.File, rules.OwnedPrefix)
		if !b.Missing {
			name += "+"
		}
		out = append(out, name)
	}
	return out
}

func TestOwnedFiles(t *testing.T) {
	f := rulefolder.New(t)
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{Paths: []string{f.Dir}}
	f.Write("base.yaml", rulefolder.Pack("base", "Base", "text of base"))
	l := New()
	_, err := l.LoadInitial(cfg)
	require.NoError(t, err)
	load := func(want []string, broken []string, files ...rules.File) Loaded {
		t.Helper()
		l.SetOwned(files)
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.ElementsMatch(t, append([]string{"Base=text of base"}, want...), alerts(out))
		require.Equal(t, broken, brokenOf(out))
		return out
	}
	pack := func(alert, text string) string {
		return strings.Replace(rulefolder.Pack("web", alert, text), "namespace: a, ", "", 1)
	}

	out := load([]string{"A=text of a", "B=text of b"}, nil, ownedFile("a", "web.yaml", pack("A", "text of a")), ownedFile("b", "web.yaml", pack("B", "text of b")))
	require.Equal(t, "a/web", out.Set.Rule("A").Pack)
	require.Equal(t, "a", out.Set.Rule("A").Namespace)
	require.Len(t, l.OwnedInForce(), 2)

	// The last valid version of a file stays active, whatever is wrong with the new one.
	for _, text := range []string{
		"half writ", pack("A", "new text of a") + "  unknown: key\n", pack("Base", "new text of a"), pack("B", "new text of a"),
		strings.Replace(pack("A", "new text of a"), `line: "new`, `line: "no`, 1), strings.Replace(pack("A", "new text of a"), "from: '{", `from: '{namespace="b", `, 1),
	} {
		for range 2 {
			out = load([]string{"A=text of a", "B=text of b"}, []string{"a/rules/web.yaml+"}, ownedFile("a", "web.yaml", text), ownedFile("b", "web.yaml", pack("B", "text of b")))
			require.Equal(t, "a", out.Broken[0].Namespace)
			require.NotEmpty(t, out.Broken[0].Error)
		}
	}
	load([]string{"A=new text of a", "B=text of b"}, nil, ownedFile("a", "web.yaml", pack("A", "new text of a")), ownedFile("b", "web.yaml", pack("B", "text of b")))

	// A file without a valid version is missing. The active file keeps the name, even if the other one is older.
	load([]string{"A=new text of a"}, []string{"c/rules/web.yaml"}, ownedFile("c", "web.yaml", pack("A", "text of c")), ownedFile("a", "web.yaml", pack("A", "new text of a")))
	load([]string{"A=text of c"}, nil, ownedFile("c", "web.yaml", pack("A", "text of c")))
	load([]string{"X=text of d"}, []string{"e/rules/web.yaml"}, ownedFile("d", "web.yaml", pack("X", "text of d")), ownedFile("e", "web.yaml", pack("X", "text of e")))
	load(nil, nil)

	// A new file of the operator takes the name of a rule of a namespace.
	load([]string{"A=text of a"}, nil, ownedFile("a", "web.yaml", pack("A", "text of a")))
	f.Write("more.yaml", rulefolder.Pack("more", "A", "text of more"))
	load([]string{"A=text of more"}, []string{"a/rules/web.yaml"}, ownedFile("a", "web.yaml", pack("A", "text of a")))
	f.Remove("more.yaml")
	load([]string{"A=text of a"}, nil, ownedFile("a", "web.yaml", pack("A", "text of a")))

	// A file that could not be read keeps its last valid version.
	unread := ownedFile("a", "web.yaml", "")
	unread.Unread = "it is too large"
	load([]string{"A=text of a"}, []string{"a/rules/web.yaml+"}, unread)

	// After a restart without ConfigMaps, the files of the last run are active.
	kept := l.InForce()
	l = New()
	again, wrong, err := l.OrKept(cfg, kept)
	require.NoError(t, err)
	require.NoError(t, wrong)
	require.ElementsMatch(t, []string{"Base=text of base", "A=text of a"}, alerts(again))
}

func TestOwnedLimits(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{AllowEmpty: true}
	load := func(files ...rules.File) Loaded {
		t.Helper()
		l := New()
		l.SetOwned(files)
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		return out
	}
	many := func(prefix string, n int) string {
		var b strings.Builder
		b.WriteString("pack: {name: many}\nrules:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {alert: %s%d, from: '{container=\"c\"}', match: text number %d, severity: info}\n", prefix, i, i)
		}
		return b.String()
	}
	require.Equal(t, []string{"a/rules/2.yaml"}, brokenOf(load(ownedFile("a", "1.yaml", many("A", 60)), ownedFile("a", "2.yaml", many("B", 60)), ownedFile("b", "1.yaml", many("C", 60)))))
	require.Equal(t, []string{"a/rules/1.yaml"}, brokenOf(load(ownedFile("a", "1.yaml", many("A", 1000)), ownedFile("b", "1.yaml", many("C", 100)))))
	large := many("A", 1) + "# " + strings.Repeat("x", rules.MaxOwnedBytes)
	require.Equal(t, []string{"a/rules/1.yaml"}, brokenOf(load(ownedFile("a", "1.yaml", large), ownedFile("b", "1.yaml", many("C", 1)))))

	var files []rules.File
	for i := range 25 {
		files = append(files, ownedFile("a", fmt.Sprintf("%02d.yaml", i), many(fmt.Sprintf("A%d_", i), 1)))
	}
	require.Len(t, load(files...).Broken, 5)
	costly := func(i int) string {
		return fmt.Sprintf("pack: {name: p}\nrules:\n- {alert: A%d, from: '{container=\"c\"}', severity: info, match: {contains: some text, regex: '(a|b|cd){400}(e|f|gh){%d}'}}\n", i, 300+i)
	}
	files = nil
	for i := range 20 {
		files = append(files, ownedFile("a", fmt.Sprintf("%02d.yaml", i), costly(i)))
	}
	out := load(files...)
	require.NotEmpty(t, out.Broken)
	sum := rules.MaxOwnedLineTime
	for _, r := range out.Set.Rules {
		sum -= r.MaxLineTime()
	}
	require.Positive(t, sum)
}

// The last valid versions of refused files count against the limits of their namespace.
func TestOwnedLimitsCountLastVersions(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{AllowEmpty: true}
	pack := func(alert string) string {
		return "pack: {name: p}\nrules:\n- {alert: " + alert + ", from: '{container=\"c\"}', match: some text, severity: info}\n"
	}
	first := ownedFile("b", "first.yaml", pack("Taken"))
	for _, refused := range []string{"x", pack("Taken")} {
		l := New()
		files := []rules.File{first}
		for i := range 5 {
			large := pack(fmt.Sprintf("A%d", i)) + "# " + strings.Repeat("x", 100<<10)
			files = append(files, ownedFile("a", fmt.Sprintf("%02d.yaml", i), large))
			l.SetOwned(files)
			_, err := l.Reload(cfg)
			require.NoError(t, err)
			size := 0
			for _, f := range l.OwnedInForce() {
				size += len(f.Data)
			}
			require.Less(t, size, rules.MaxOwnedBytes)
			files[i+1].Data = []byte(refused)
		}
		require.Len(t, l.OwnedInForce(), 3, "the first file of b and two files of a")
	}
}

// Namespaces never use more than the total, and a namespace below the share loses nothing to the others.
func TestFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := map[string]int{}
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 300), 0, 60).Draw(t, "used") {
			used[fmt.Sprint(i)] = n
		}
		limit, total := rapid.IntRange(1, 200).Draw(t, "limit"), rapid.IntRange(1, 4000).Draw(t, "total")
		share, sum := fairShare(used, limit, total), 0
		for _, n := range slices.Collect(maps.Values(used)) {
			sum += min(n, share)
		}
		require.LessOrEqual(t, sum, total)
		require.LessOrEqual(t, share, limit)
	})
}

// A namespace cannot set labels that the configuration names as part of the identity of alerts.
func TestOwnedLabelsOfTheConfiguration(t *testing.T) {
	cfg := config.Default()
	cfg.Global.Identity = []string{"cluster", "region"}
	cfg.Global.ExternalLabels = map[string]string{"site": "one"}
	rule := "pack: {name: p}\nrules:\n- {alert: A, from: '{container=\"c\"}', severity: info, match: {regex: 'text of (?P<region>\\w+)'}%s}\n"
	for _, test := range []struct{ keys, want string }{
		{", labels: {region: other}", "label `region`"}, {", by: [region]", "label `region`"}, {", labels: {site: two}", "label `site`"}, {"", ""}, {", by: [site]", ""},
	} {
		l := New()
		l.SetOwned([]rules.File{ownedFile("a", "p.yaml", fmt.Sprintf(rule, test.keys)), ownedFile("b", "p.yaml", strings.Replace(fmt.Sprintf(rule, ""), "alert: A", "alert: B", 1))})
		cfg.Rules = config.RulesConfig{AllowEmpty: true}
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.NotNil(t, out.Set.Rule("B"))
		if test.want == "" {
			require.Empty(t, out.Broken, test.keys)
			continue
		}
		require.Len(t, out.Broken, 1, test.keys)
		require.Contains(t, out.Broken[0].Error, test.want)
	}
}

// The cluster of a file stays with its last valid version, and after a restart.
func TestOwnedCluster(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{AllowEmpty: true}
	text := "pack: {name: p}\nrules:\n- alert: A\n  from: '{container=\"c\"}'\n  match: text of a\n  severity: critical\n" +
		"  tests:\n  - {name: fires, stream: {container: c}, input: [{at: 0s, line: text of a}], expect: [{at: 1m, firing: [{namespace: a}]}]}\n"
	l := New()
	clusterOf := func(f rules.File) string {
		l.SetOwned([]rules.File{f})
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.Len(t, l.OwnedInForce(), 1)
		own := l.OwnedInForce()[0].Cluster
		require.Equal(t, own == "", out.Set.Rule("A").Applies(map[string]string{"namespace": "a", "container": "c", "cluster": "other"}, false))
		require.True(t, out.Set.Rule("A").Applies(map[string]string{"namespace": "a", "container": "c", "cluster": own}, false))
		return own
	}
	f := ownedFile("a", "p.yaml", text)
	require.Empty(t, clusterOf(f))
	f.Cluster = "east"
	require.Equal(t, "east", clusterOf(f), "the text is the same")
	f.Data = []byte("half writ")
	require.Equal(t, "east", clusterOf(f))
	kept, err := json.Marshal(l.InForce())
	require.NoError(t, err)
	var files []rules.File
	require.NoError(t, json.Unmarshal(kept, &files))
	l = New()
	_, _, err = l.OrKept(cfg, files)
	require.NoError(t, err)
	require.Equal(t, "east", l.OwnedInForce()[0].Cluster)
}

// TestOwnedAlertsHaveTheirNamespace runs the tests of packs whose rules have other keys.
func TestOwnedAlertsHaveTheirNamespace(t *testing.T) {
	cfg := config.Default()
	pack := func(rule string) string {
		return "pack: {name: p}\nrules:\n- alert: A\n  from: '{container=\"c\"}'\n  match: {contains: text of a, regex: 'in (?P<ns>\\S+)'}\n  severity: critical\n" + rule +
			"  tests:\n  - name: fires\n    stream: {container: c, pod: p-1}\n    input: [{at: 0s, line: \"text of a in kube-system\"}, {at: 1s, line: \"text of a in default\"}]\n" +
			"    expect: [{at: 1m, firing: [%s]}]\n"
	}
	for _, test := range []struct{ rule, firing string }{
		{"", "{namespace: team-a}"},
		{"  by: [pod]\n", "{namespace: team-a, pod: p-1}"},
		{"  by: [namespace, pod]\n", "{namespace: team-a, pod: p-1}"},
		{"  by: [ns]\n", "{namespace: team-a, ns: default}, {namespace: team-a, ns: kube-system}"},
		{"  by: [namespace, ns]\n  limit: 1\n", "{namespace: team-a, ns: kube-system}, {namespace: team-a, overflow: \"true\"}"},
		{"  by: [namespace]\n  labels: {scope: \"team {{ $labels.namespace }}\"}\n", "{namespace: team-a, scope: team team-a}"},
		{"  annotations: {summary: \"in {{ $labels.namespace }}\"}\n", "{namespace: team-a, annotations: {summary: in team-a}}"},
		{"  labels: {scope: \"<https://evil.example|x>\"}\n", "{namespace: team-a, scope: " + strconv.Quote(redact.DefuseLinks("<https://evil.example|x>")) + "}"},
		{"  annotations: {summary: \"a\\u202Eb\\nc\"}\n", "{namespace: team-a, annotations: {summary: \"ab\\nc\"}}"},
		{"  annotations: {summary: \"@channel https://evil.example\"}\n", "{namespace: team-a, annotations: {summary: " + strconv.Quote(redact.DefuseLinks("@channel https://evil.example")) + "}}"},
	} {
		l := New()
		l.SetOwned([]rules.File{ownedFile("team-a", "web.yaml", fmt.Sprintf(pack(test.rule), test.firing))})
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.Empty(t, out.Broken, "%s", test.rule)
	}
}

// A file whose name is taken by a refused file is active, however long the chain of such names is.
func TestOwnedNamesOfRefusedFiles(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{AllowEmpty: true}
	load := func(files []rules.File) Loaded {
		l := New()
		l.SetOwned(files)
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		return out
	}
	pack := func(keys string, names ...string) string {
		text := "pack: {name: p}\nrules:\n"
		for _, name := range names {
			text += "- alert: " + name + "\n  from: '{container=\"c\"}'\n  match: text of " + name + "\n  severity: info\n" + keys
		}
		return text
	}
	fails := "  tests:\n  - {name: fires, stream: {container: c}, input: [{at: 0s, line: other text}], expect: [{at: 1m, firing: [{namespace: a}]}]}\n"
	for what, faulty := range map[string]string{
		"not YAML": "half writ", "failed test": pack(fails, "X"), "forged label": pack("  labels: {cluster: b}\n", "X"),
		"no shared label": pack("  by: [pod]\n  symptom_of: [{alert: Y}]\n", "X") + strings.TrimPrefix(pack("  by: [object]\n", "Y"), "pack: {name: p}\nrules:\n"),
	} {
		out := load([]rules.File{ownedFile("a", "p.yaml", faulty), ownedFile("b", "p.yaml", pack("", "X"))})
		require.Equal(t, []string{"a/rules/p.yaml"}, brokenOf(out), what)
	}

	// The reason can be at a place in a file of the operator.
	f := rulefolder.New(t)
	cfg.Rules = config.RulesConfig{Paths: []string{f.Dir}, Overrides: []string{f.Dir + "/sub"}}
	f.Write("base.yaml", rulefolder.Pack("base", "Base", "text of base"))
	require.NoError(t, os.Mkdir(f.Dir+"/sub", 0o755))
	require.NoError(t, os.WriteFile(f.Dir+"/sub/o.yaml", []byte("overrides:\n- {rule: Base, set: {by: [object]}}\n"), 0o600))
	out := load([]rules.File{ownedFile("a", "p.yaml", pack("  by: [pod]\n  symptom_of: [{alert: Base}]\n", "X")), ownedFile("b", "p.yaml", pack("", "Y"))})
	require.Equal(t, []string{"a/rules/p.yaml"}, brokenOf(out), "%v", out.Broken)
	cfg.Rules = config.RulesConfig{AllowEmpty: true}

	var chain []rules.File
	for i := range 800 {
		chain = append(chain, ownedFile(fmt.Sprintf("n%02d", i%40), fmt.Sprintf("%03d.yaml", i), pack("", fmt.Sprintf("Link%d", i), fmt.Sprintf("Link%d", i+1))))
	}
	require.Len(t, load(chain).Broken, 400)

	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "b", "B", "C", "D", "E", "F"}), 1, 3, strings.ToLower), 1, 12).Draw(t, "names")
		isFaulty := rapid.SliceOfN(rapid.Bool(), len(drawn), len(drawn)).Draw(t, "is faulty")
		var files []rules.File
		var want []string
		taken := map[string]bool{}
		for i, names := range drawn {
			f := ownedFile(fmt.Sprintf("n%02d", i), "p.yaml", pack("", names...))
			clash := isFaulty[i] || slices.ContainsFunc(names, func(n string) bool { return taken[strings.ToLower(n)] })
			if isFaulty[i] {
				f.Data = []byte(pack(fails, names...))
			}
			if files = append(files, f); clash {
				want = append(want, strings.TrimPrefix(f.Name, rules.OwnedPrefix))
				continue
			}
			for _, n := range names {
				taken[strings.ToLower(n)] = true
			}
		}
		require.Equal(t, want, brokenOf(load(files)))
	})
}

// The tests of a refused file run once, and only within the time of its namespace.
func TestOwnedTestsRunOnce(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{AllowEmpty: true}
	pack := func(alert string, tests int) string {
		test := "  - {name: fires, stream: {container: c}, input: [{at: 0s, repeat: 100000, line: text of a}], expect: [{at: 1m, firing: [{}]}]}\n"
		if tests == 1 {
			test = strings.Replace(test, "repeat: 100000, ", "", 1)
		}
		return "pack: {name: p}\nrules:\n- alert: " + alert + "\n  from: '{container=\"c\"}'\n  match: text of a\n  severity: info\n  tests:\n" + strings.Repeat(test, tests)
	}
	l := New()
	files := []rules.File{ownedFile("a", "p.yaml", pack("X", 1)), ownedFile("b", "p.yaml", pack("X", 1)), ownedFile("c", "1.yaml", pack("C1", 1)), ownedFile("c", "2.yaml", pack("C2", 5)), ownedFile("c", "3.yaml", pack("C3", 1))}
	for range 2 {
		l.SetOwned(files)
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.Equal(t, []string{"b/rules/p.yaml", "c/rules/2.yaml"}, brokenOf(out))
		require.Contains(t, out.Broken[1].Error, "all packs of namespace c are allowed 2s")
		require.Len(t, l.passed, 4)
	}
	l.SetOwned(nil)
	_, err := l.Reload(cfg)
	require.NoError(t, err)
	l.SetOwned(files[:1])
	_, err = l.Reload(cfg)
	require.NoError(t, err)
	require.Len(t, l.passed, 1)
}
