package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func shipped(t *testing.T) *rules.Set {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	return set
}

// What a person pasted is never answered with silence, and shows no secret.
func TestForPage(t *testing.T) {
	set := shipped(t)
	f := func(log, known string) {
		t.Helper()
		out, err := ForPage(log, matcher.Labels{"namespace": "kube-system"}, set, redact.New(nil), now)
		require.NoError(t, err)
		require.Contains(t, out.Known, known)
	}
	f("I0102 03:04:05.000000       1 main.go:1] all is well\n", "No rule matches in 1 line, and no line reports a problem: this does not mean that all is well.")
	f("lorem ipsum\ndolor\n", "does not mean that all is well")
	lost := "E0102 03:04:05.000000       1 leaderelection.go:340] error retrieving resource lock kube-system/kube-controller-manager: Get \"https://10.0.0.1:6443\": context deadline exceeded password=hunter2\n"
	f(strings.Repeat(lost, 3), ".")
	hours := "I0102 00:00:00.000000       1 main.go:1] begin\nE0102 01:00:00.000000       1 main.go:2] cannot prune the repository: permission denied\nI0102 03:00:00.000000       1 main.go:1] end\n"
	f(hours, "1 error without a rule is too rare to be listed")
	out, err := ForPage(lost, nil, set, redact.New(nil), now)
	require.NoError(t, err)
	require.NotEmpty(t, len(out.Findings)+len(out.Unknown))
	require.NotContains(t, fmt.Sprintf("%+v", out), "hunter2")
}

// An excerpt of a real incident says something.
func TestPagesOfIncidents(t *testing.T) {
	files, err := filepath.Glob("../../../shared/cases/incidents/*.log")
	require.NoError(t, err)
	set := shipped(t)
	for _, name := range files {
		log, err := os.ReadFile(name)
		require.NoError(t, err)
		out, err := ForPage(string(log), nil, set, redact.New(nil), now)
		require.NoError(t, err, name)
		require.NotEmpty(t, len(out.Alerts)+len(out.Findings)+len(out.Unknown), name)
		t.Log(filepath.Base(name), len(out.Alerts), len(out.Findings), len(out.Unknown), out.Known)
	}
}
