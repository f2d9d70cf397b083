package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/traffic"
)

// A small version of the whole comparison, with the installed peers. It tests
// the counts; speeds of so small logs mean nothing.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "crowsnest")
	out, err := exec.Command("go", "build", "-o", binary, "crowsnest/cmd/crowsnest").CombinedOutput()
	require.NoError(t, err, "%s", out)
	o, err := parse([]string{"-crowsnest", binary, "-cache", dir, "-size", "400KB", "-small", "40KB", "-check", "40KB", "-compare", "300KB", "-rounds", "1"})
	require.NoError(t, err)
	o.sets = []int{100}
	var report bytes.Buffer
	require.NoError(t, run(t.Context(), o, &report), "%s", &report)
	require.Contains(t, report.String(), "counts on cri: those of the plain reference")
	require.Contains(t, report.String(), "| crowsnest 100 |")
	require.Contains(t, report.String(), "| wall, one core : all cores, 100 rules |")
}

func TestParse(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		_, err := parse(args)
		require.ErrorContains(t, err, want)
	}
	f("-size", "-size", "1TB")
	f("-rounds", "-rounds", "0")
}

// The terms of published rules are read wherever they stand; each counts once.
func TestReadTerms(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(`rules:
- cre: {id: CRE-1, value: no term}
  rule:
    set: {match: [{value: disk lost}, {regex: "a.*b"}, {value: ab}], negate: [{value: disk lost, anchor: 1}]}
- rule: {sequence: {order: [{value: "two\nlines"}, {regex: "c|d"}]}}
`), 0o644))
	got, err := readTerms(dir)
	require.NoError(t, err)
	require.Equal(t, []traffic.Rule{
		{ID: 1, Name: "Term0001", Expr: "a.*b"}, {ID: 2, Name: "Term0002", Expr: "c|d"}, {ID: 3, Name: "Term0003", Text: "disk lost"},
	}, got)
	_, err = readTerms(filepath.Join(dir, "none"))
	require.Error(t, err)
}

// Wrong counts are detected, and a failing program is not mistaken for one that
// finds nothing.
func TestWrongCounts(t *testing.T) {
	f := func(want string, got map[string]int64) {
		t.Helper()
		err := difference(got, map[string]int64{"A": 1, "B": 2})
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f("", map[string]int64{"A": 1, "B": 2})
	f("B has 0 lines, not 2", map[string]int64{"A": 1})
	f("C has 3 lines, not 0", map[string]int64{"A": 1, "B": 2, "C": 3})

	_, err := measure(t.Context(), job{name: "x", args: []string{"sh", "-c", "echo no >&2; exit 1"}})
	require.ErrorContains(t, err, "no")
	_, err = measure(t.Context(), job{name: "x", args: []string{"sh", "-c", "exit 2"}})
	require.Error(t, err)
	_, err = measure(t.Context(), job{name: "x", args: []string{"sh", "-c", "exit 1"}})
	require.NoError(t, err)
	p := program{name: "x", args: func(ruleSet, string) []string { return []string{"sh", "-c", "echo nonsense"} }, counts: hyperscan("").counts}
	_, err = p.count(context.Background(), ruleSet{}, "")
	require.ErrorContains(t, err, "is not a count")
}

func TestMedian(t *testing.T) {
	f := func(want time.Duration, cpu ...time.Duration) {
		t.Helper()
		var runs []cost
		for _, c := range cpu {
			runs = append(runs, cost{cpu: c})
		}
		require.Equal(t, want, median(runs, func(c cost) time.Duration { return c.cpu }), fmt.Sprint(cpu))
	}
	f(3, 3)
	f(3, 9, 3, 1)
	f(5, 9, 5, 5, 1, 7)
}
