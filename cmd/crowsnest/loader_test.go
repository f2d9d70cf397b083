package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pack writes the text of a pack with one rule.
func pack(name, alert, text string) string {
	return `pack: {name: ` + name + `, version: 0.1.0, rules: 1}
rules:
- alert: ` + alert + `
  from: '{container="syncer"}'
  match: "` + text + `"
  by: [namespace]
  severity: warning
  tests:
  - name: fires
    stream: {namespace: a, container: syncer}
    input: [{at: 0s, line: "` + text + `"}]
    expect: [{at: 1s, firing: [{alertname: ` + alert + `}]}]
`
}

// folder is a folder of rules that a test changes.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

func (f folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644))
}

func (f folder) remove(name string) {
	f.t.Helper()
	require.NoError(f.t, os.Remove(filepath.Join(f.dir, name)))
}

func alerts(l loaded) []string {
	var out []string
	for _, r := range l.set.Rules {
		out = append(out, r.Alert+"="+r.Steps[0].Matcher.Contains[0])
	}
	return out
}

func TestReloadKeepsLastGood(t *testing.T) {
	f := newFolder(t)
	cfg := defaultConfig()
	cfg.Rules = RulesConfig{Paths: []string{f.dir}}
	f.write("a.yaml", pack("a", "A", "text of a"))
	f.write("b.yaml", pack("b", "B", "text of b"))
	l := newLoader()
	out, err := l.first(cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"A=text of a", "B=text of b"}, alerts(out))

	again := func(want []string, broken ...string) {
		t.Helper()
		out, err := l.again(cfg)
		require.NoError(t, err)
		require.Equal(t, want, alerts(out))
		var names []string
		for _, b := range out.broken {
			names = append(names, b.Pack)
			require.NotEmpty(t, b.Error)
		}
		require.Equal(t, broken, names)
	}
	both := []string{"A=text of a", "B=text of b"}
	again(both)

	f.write("a.yaml", pack("a", "A", "text of a")+"  unknown: key\n")
	again(both, "a")
	f.write("a.yaml", strings.Replace(pack("a", "A", "new text of a"), `line: "new`, `line: "no`, 1))
	again(both, "a") // its own test fails
	f.write("a.yaml", "half writ")
	f.write("b.yaml", pack("b", "B", "newer text of b"))
	again([]string{"A=text of a", "B=newer text of b"}, "a")
	f.write("a.yaml", pack("a", "A", "new text of a"))
	again([]string{"A=new text of a", "B=newer text of b"})

	// A new pack that takes the name of a rule, or that is broken, is left out.
	f.write("c.yaml", pack("c", "A", "text of c"))
	again([]string{"A=new text of a", "B=newer text of b"}, "c")
	f.write("c.yaml", "pack: {name: c}\n")
	again([]string{"A=new text of a", "B=newer text of b"}, "c")
	f.write("c.yaml", pack("c", "C", "text of c"))
	again([]string{"A=new text of a", "B=newer text of b", "C=text of c"})

	// Overrides are a file like others.
	f.write("over.yaml", "overrides:\n- rule: C\n  disable: not here\n")
	out, err = l.again(cfg)
	require.NoError(t, err)
	require.EqualValues(t, "false", out.set.Rule("C").Mode)
	f.write("over.yaml", "overrides:\n- rule: Nope\n  disable: not here\n")
	out, err = l.again(cfg)
	require.NoError(t, err)
	require.Len(t, out.broken, 1)
	require.EqualValues(t, "false", out.set.Rule("C").Mode, "the last good overrides stay")
	f.remove("over.yaml")

	// What is removed is gone, but never everything.
	f.remove("c.yaml")
	again([]string{"A=new text of a", "B=newer text of b"})
	f.remove("a.yaml")
	f.remove("b.yaml")
	_, err = l.again(cfg)
	require.Error(t, err)
	cfg.Rules.AllowEmpty = true
	again(nil)
}

func TestFirstLoadIsStrict(t *testing.T) {
	f := newFolder(t)
	cfg := defaultConfig()
	cfg.Rules = RulesConfig{Paths: []string{f.dir}}
	_, err := newLoader().first(cfg)
	require.ErrorContains(t, err, "has no *.yaml")
	f.write("a.yaml", pack("a", "A", "text of a")+"  unknown: key\n")
	f.write("b.yaml", pack("b", "B", "text of b")+"  unkown: key\n")
	_, err = newLoader().first(cfg)
	require.ErrorContains(t, err, "a.yaml:13:3")
	require.ErrorContains(t, err, "b.yaml:13:3")
	cfg.Rules.Paths = []string{f.dir + "/none"}
	_, err = newLoader().first(cfg)
	require.ErrorContains(t, err, "no such file")
	cfg.Rules = RulesConfig{}
	cfg.file = "c.yml"
	_, err = newLoader().first(cfg)
	require.ErrorContains(t, err, "no rules are loaded")
}

func TestShippedPacksLoad(t *testing.T) {
	out, err := newLoader().first(defaultConfig())
	require.NoError(t, err)
	require.NotEmpty(t, out.set.Rules)
}

func TestFingerprint(t *testing.T) {
	f := newFolder(t)
	cfg := defaultConfig()
	cfg.Rules = RulesConfig{Paths: []string{f.dir}}
	seen := map[string]bool{}
	changed := func() {
		t.Helper()
		fp := cfg.fingerprint()
		require.False(t, seen[fp], "a change must be seen")
		require.Equal(t, fp, cfg.fingerprint())
		seen[fp] = true
	}
	changed()
	f.write("a.yaml", "x")
	changed()
	f.write("a.yaml", "y")
	changed()
	f.write("b.yaml", "")
	changed()
	require.NoError(t, os.RemoveAll(f.dir))
	changed()
}
