package sourcecheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/components"
)

// sources are files of a component and what they must not contribute.
var sources = map[string]string{
	"controller/run.go": `package controller

import "fmt"

const reason = "WaitingForQuota"

type Machine struct { Name string ` + "`json:\"notAText\"`" + ` }

func run() error {
	klog.ErrorS(err, "Unable to register node with API server", "node", name)
	log.Error(err, "failed to drain " + name + " of the " + "cluster, giving up")
	logger.Warn("80% of file descriptors are used")
	klog.Warningf("Node group %s is not ready for scaleup - backoff with status: %v", id, status)
	return fmt.Errorf("cannot lock the volume %q: %w", volume, err)
}

func get() error { return errors.New("quota of the tenant exceeded") }
`,
	"controller/run_test.go":     `package controller; const x = "only a test says this sentence"`,
	"vendor/lib/lib.go":          `package lib; const x = "only a library says this sentence"`,
	"config/crd/bases/x.yaml":    "description: only a schema says this sentence\n",
	"scripts/upgrade.sh":         "#!/bin/sh\n# only a comment says this sentence\necho \"Waiting for volume $NAME to be healthy...\"\n",
	"src/oom.c":                  "pr_err(\"Out of memory: Killed process %d \" \"(%s) total\", pid);\n",
	"src/lib.rs":                 "error!(\"connection of {} was refused {:?}\", a, b);\n",
	"controller/broken.go":       "package controller\nfunc ( { \"still a text of the broken file\"",
	"controller/binary.go":       "\x00\xff\xfe\"",
	"controller/a/b/c/deep.go":   "package c\nvar x = " + strings.Repeat("(", 500) + "\"a text in brackets\"" + strings.Repeat(")", 500) + "\n",
	"controller/concatenated.go": "package controller\nvar x = \"begin of a chain\"" + strings.Repeat(" + \"x\"", 2000) + "\n",
}

func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range sources {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

func set(t *testing.T, verified string, matchers ...string) *rules.Set {
	t.Helper()
	pack := "pack: {name: p}\nrules:\n"
	for i, m := range matchers {
		pack += fmt.Sprintf("- {alert: A%d, from: '{container=\"c\"}', severity: info, match: %s, verified: %s}\n", i, m, verified)
	}
	doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(pack)})
	require.Empty(t, problems.Errors(), problems.Error())
	s, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.NotNil(t, s, problems.Error())
	return s
}

const kubelet = `{component: kubelet, versions: ">=1.34 <1.36"}`

func TestTexts(t *testing.T) {
	dir := folder(t)
	f := func(matcher string, want State, source string) {
		t.Helper()
		res, err := Check(set(t, kubelet, matcher), components.Component{Name: "kubelet"}, []Tree{{Dir: dir}}, "")
		require.NoError(t, err)
		require.Len(t, res.Answers, 1)
		require.Equal(t, want, res.Answers[0].State, matcher)
		require.Equal(t, source, res.Answers[0].Source, matcher)
	}
	f(`"Unable to register node with API server"`, Found, "controller/run.go:10")
	f(`"register node with"`, Found, "controller/run.go:10")
	f(`{regex: 'Unable to (?:register|update) node'}`, Found, "controller/run.go:10")
	f(`{regex: '(?i)UNABLE TO REGISTER node'}`, Found, "controller/run.go:10")
	f(`{regex: '[Uu]nable to register (?P<what>\S+) with API server'}`, Found, "controller/run.go:10")
	f(`"failed to drain pool-1 of the cluster, giving up"`, InPart, "controller/run.go:11") // nothing is named pool-1
	f(`{regex: 'failed to drain \S+ of the cluster'}`, Found, "controller/run.go:11")
	f(`"80% of file descriptors are used"`, Found, "controller/run.go:12")
	f(`"Node group Machine is not ready for scaleup"`, Found, "controller/run.go:13")
	f(`"cannot lock the volume \"Machine\": quota of the tenant exceeded"`, Found, "controller/run.go:17")
	f(`"cannot lock the volume quota of the tenant exceeded"`, Gone, "controller/run.go:17") // nothing joins them
	f(`'reason="WaitingForQuota"'`, Found, "controller/run.go:5")
	f(`"run.go"`, Found, "controller/run.go:1")
	f(`"Waiting for volume"`, Found, "scripts/upgrade.sh:3")
	f(`{regex: 'Waiting for volume \S+ to be healthy'}`, Found, "scripts/upgrade.sh:3")
	f(`"Out of memory: Killed process"`, Found, "src/oom.c:1")
	f(`{regex: 'Killed process \d+ \(\S+\) total'}`, Found, "src/oom.c:1")
	f(`{regex: 'connection of \S+ was refused'}`, Found, "src/lib.rs:1")
	f(`"Unable to register node with the API server"`, Gone, "controller/run.go:10")
	f(`"Failed to register node with API server"`, Gone, "controller/run.go:10")
	f(`"Node was lost in the mist"`, Gone, "")
	f(`"only a test says this sentence"`, Gone, "")
	f(`"only a library says this sentence"`, Gone, "")
	f(`"only a schema says this sentence"`, Gone, "")
	f(`"only a comment says this sentence"`, Gone, "")
	f(`"notAText"`, Gone, "")
	f(`"begin of a chainxxxx"`, Found, "controller/concatenated.go:2")
	f(`"a text in brackets"`, Found, "controller/a/b/c/deep.go:2")
	f(`{regex: '(?:`+strings.Repeat("never|", 300)+`Unable) (?:a|b|c|d|e|f|g|h|to) (?:i|j|k|l|m|n|o|p|q|register) node'}`, Found, "controller/run.go:10")
}

// Of the lines that crowsnest writes about objects, only the values are the component's.
func TestOwnLines(t *testing.T) {
	dir := folder(t)
	pack := "pack: {name: p}\nrules:\n- {alert: A, from: '{component=\"conditions\"}', severity: info, verified: " + kubelet + `,
  match: 'msg="condition" type=WaitingForQuota', clear: 'msg="object is gone"', unless: {regex: 'msg="condition" .* reason="?NeverHeardOf"?', within: 1h}}` + "\n"
	doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(pack)})
	require.Empty(t, problems.Errors(), problems.Error())
	s, _ := rules.Build([]*rules.Document{doc}, rules.Options{})
	res, err := Check(s, components.Component{Name: "kubelet"}, []Tree{{Dir: dir}}, "")
	require.NoError(t, err)
	require.Len(t, res.Answers, 2)
	require.Equal(t, "NeverHeardOf gone", res.Answers[0].Text+" "+string(res.Answers[0].State))
	require.Equal(t, "WaitingForQuota found", res.Answers[1].Text+" "+string(res.Answers[1].State))
}

// What a text stands for decides what its loss means.
func TestMeaning(t *testing.T) {
	dir := folder(t)
	check := func(verified string, matchers ...string) *Result {
		t.Helper()
		res, err := Check(set(t, verified, matchers...), components.Component{Name: "kubelet"}, []Tree{{Dir: dir}}, "")
		require.NoError(t, err)
		return res
	}
	res := check(kubelet, `{any: ["Node was lost in the mist", "Out of memory"]}`, `{contains: ["Node was lost in the mist"], any: ["Out of memory"]}`)
	require.Equal(t, 2, res.Count(Gone))
	require.False(t, res.Answers[0].Lost, "another text of any is there")
	require.True(t, res.Answers[1].Lost)
	res = check(`[{component: kubelet, versions: "1.35.0"}, {component: linux, versions: "6.1.0"}]`, `"Node was lost in the mist"`)
	require.Equal(t, 1, res.Count(Elsewhere))
	require.Zero(t, check(`none`, `"Node was lost in the mist"`).Rules)
	res = check(kubelet, `{contains: "Out of memory", not: "Node was lost in the mist"}`)
	require.Len(t, res.Answers, 1, "lines must not have it")
}

func TestNewMessages(t *testing.T) {
	dir, coverage := folder(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(coverage, "kubelet.md"), []byte("| Text |\n|---|\n| `something; failed to drain` | all | c |\n"), 0o644))
	s := set(t, kubelet, `"Out of memory"`)
	res, err := Check(s, components.Component{Name: "kubelet"}, []Tree{{Dir: dir}}, coverage)
	require.NoError(t, err)
	require.Equal(t, []Message{
		{"Unable to register node with API server", "controller/run.go:10"},
		{"cannot lock the volume ...: ...", "controller/run.go:14"},
	}, res.New)
}

// A revision of a Git repository has the same answers as a checkout.
func TestRevision(t *testing.T) {
	dir := folder(t)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"}, {"tag", "v1.35.0"}} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	s := set(t, kubelet, `"Unable to register node with API server"`, `"Node was lost in the mist"`)
	c := components.Component{Name: "kubelet", Sources: []components.Source{{Repo: "a/b", Paths: []string{"controller", "absent"}}}}
	want, err := Check(s, c, []Tree{{Dir: dir}}, "")
	require.NoError(t, err)
	got, err := Check(s, c, []Tree{{Dir: filepath.Join(dir, ".git"), Revision: "v1.35.0"}}, "")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = Check(s, c, []Tree{{Dir: dir, Revision: "v9"}}, "")
	require.ErrorContains(t, err, "no such folder or revision; it must be a checkout of a/b")
	_, err = Check(s, c, []Tree{{Dir: filepath.Join(dir, "absent")}}, "")
	require.ErrorContains(t, err, "no such folder")
}
