package loader

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/rulefolder"
)

func alerts(l Loaded) []string {
	var out []string
	for _, r := range l.Set.Rules {
		out = append(out, r.Alert+"="+r.Steps[0].Matcher.Contains[0])
	}
	return out
}

func TestReloadKeepsLastGood(t *testing.T) {
	f := rulefolder.New(t)
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{Paths: []string{f.Dir}}
	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a"))
	f.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	l := New()
	out, err := l.LoadInitial(cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"A=text of a", "B=text of b"}, alerts(out))

	again := func(want []string, broken ...string) {
		t.Helper()
		out, err := l.Reload(cfg)
		require.NoError(t, err)
		require.Equal(t, want, alerts(out))
		var names []string
		for _, b := range out.Broken {
			names = append(names, b.Pack)
			require.NotEmpty(t, b.Error)
		}
		require.Equal(t, broken, names)
	}
	both := []string{"A=text of a", "B=text of b"}
	again(both)

	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a")+"  unknown: key\n")
	again(both, "a")
	f.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "new text of a"), `line: "new`, `line: "no`, 1))
	again(both, "a") // its own test fails
	f.Write("a.yaml", "half writ")
	f.Write("b.yaml", rulefolder.Pack("b", "B", "newer text of b"))
	again([]string{"A=text of a", "B=newer text of b"}, "a")
	f.Write("a.yaml", rulefolder.Pack("a", "A", "new text of a"))
	again([]string{"A=new text of a", "B=newer text of b"})

	// A new pack that takes the name of a rule, or that is broken, is left out.
	f.Write("c.yaml", rulefolder.Pack("c", "A", "text of c"))
	again([]string{"A=new text of a", "B=newer text of b"}, "c")
	f.Write("c.yaml", "pack: {name: c}\n")
	again([]string{"A=new text of a", "B=newer text of b"}, "c")
	f.Write("c.yaml", rulefolder.Pack("c", "C", "text of c"))
	again([]string{"A=new text of a", "B=newer text of b", "C=text of c"})

	// A file of overrides is loaded like any other.
	f.Write("over.yaml", "overrides:\n- rule: C\n  disable: not here\n")
	out, err = l.Reload(cfg)
	require.NoError(t, err)
	require.EqualValues(t, "false", out.Set.Rule("C").Mode)
	f.Write("over.yaml", "overrides:\n- rule: Nope\n  disable: not here\n")
	out, err = l.Reload(cfg)
	require.NoError(t, err)
	require.Len(t, out.Broken, 1)
	require.EqualValues(t, "false", out.Set.Rule("C").Mode, "the last good overrides stay")
	f.Remove("over.yaml")

	// Files can be removed, but not all of them unless AllowEmpty is set.
	f.Remove("c.yaml")
	again([]string{"A=new text of a", "B=newer text of b"})
	f.Remove("a.yaml")
	f.Remove("b.yaml")
	_, err = l.Reload(cfg)
	require.Error(t, err)
	cfg.Rules.AllowEmpty = true
	again(nil)
}

func TestFirstLoadIsStrict(t *testing.T) {
	f := rulefolder.New(t)
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{Paths: []string{f.Dir}}
	_, err := New().LoadInitial(cfg)
	require.ErrorContains(t, err, "has no *.yaml")
	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a")+"  unknown: key\n")
	f.Write("b.yaml", rulefolder.Pack("b", "B", "text of b")+"  unkown: key\n")
	_, err = New().LoadInitial(cfg)
	require.ErrorContains(t, err, "a.yaml:13:3")
	require.ErrorContains(t, err, "b.yaml:13:3")
	cfg.Rules.Paths = []string{f.Dir + "/none"}
	_, err = New().LoadInitial(cfg)
	require.ErrorContains(t, err, "no such file")
	cfg.Rules = config.RulesConfig{}
	_, err = New().LoadInitial(cfg)
	require.ErrorContains(t, err, "no rules are loaded")
}

func TestShippedPacksLoad(t *testing.T) {
	out, err := New().LoadInitial(config.Default())
	require.NoError(t, err)
	require.NotEmpty(t, out.Set.Rules)
}

func TestFingerprint(t *testing.T) {
	f := rulefolder.New(t)
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{Paths: []string{f.Dir}}
	seen := map[string]bool{}
	changed := func() {
		t.Helper()
		fp := Fingerprint(cfg)
		require.False(t, seen[fp], "a change must be seen")
		require.Equal(t, fp, Fingerprint(cfg))
		seen[fp] = true
	}
	changed()
	f.Write("a.yaml", "x")
	changed()
	f.Write("a.yaml", "y")
	changed()
	f.Write("b.yaml", "")
	changed()
	require.NoError(t, os.RemoveAll(f.Dir))
	changed()
}
