package cli

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeloki"
)

// From Loki every line is read, not only those that a rule could match.
func TestDiscoverLoki(t *testing.T) {
	l := fakeloki.New()
	server := httptest.NewServer(l)
	defer server.Close()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	push := func(pod, line string) {
		at = at.Add(time.Second)
		l.Push(fakeloki.Entry{Labels: map[string]string{"namespace": "shop", "pod": pod, "container": "app"}, Time: at, Line: line})
	}
	push("web-0", "E0101 10:00:00.0 1 a.go:1] leaderelection lost")
	push("web-0", "W0101 10:00:00.0 1 a.go:1] cannot attach volume \"a\" to node n1")
	push("web-1", "W0101 10:00:00.0 1 a.go:1] cannot attach volume \"b\" to node n2")
	push("web-1", "I0101 10:00:00.0 1 a.go:1] all is well")
	var out, errs bytes.Buffer
	c := &cli{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" }}
	root := newRoot(c)
	root.SetArgs([]string{
		"discover", "--rules", "none", "--loki", server.URL, "--query", `{namespace="shop"}`,
		"--since", "2025-12-31T00:00:00Z", "--until", "2026-01-01T01:00:00Z",
	})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "  1. leaderelection lost\n")
	require.Contains(t, out.String(), "  2. cannot attach volume \"<name>\" to node <id>\n     warning; 2 lines in 2 streams; 2026-01-01T00:00:02Z to 2026-01-01T00:00:03Z\n     {container=\"app\", namespace=\"shop\", pod=\"web-0\"}:2: W0101")
	require.Contains(t, errs.String(), "2 of 2 patterns; 3 of 4 lines in 2 inputs")
}

// The rules that discover writes for real logs pass, each part of them has a test, and they
// match the lines that report errors.
func TestDiscoverCorpus(t *testing.T) {
	const corpus = "../../shared/corpus/real"
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("no corpus beside the repository")
	}
	run := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		root := newRoot(&cli{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" }})
		root.SetArgs(args)
		require.NoError(t, root.Execute(), errs.String())
		return out.Bytes()
	}
	complaints := func(args ...string) int64 {
		t.Helper()
		var r struct{ Complaints int64 }
		require.NoError(t, json.Unmarshal(run(append([]string{"discover", "--top", "0", "-o", "json", corpus}, args...)...), &r))
		return r.Complaints
	}
	pack := filepath.Join(t.TempDir(), "new.yaml")
	before := complaints("--rules", "none", "--rules-out", pack)
	require.Greater(t, before, int64(1000))
	require.Less(t, complaints("--rules", pack), before/100)
	run("check", "rules", "--strict", pack)
	run("test", "rules", "--mutate", pack)
}
