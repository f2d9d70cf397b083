// Package paste tests what a scan says about a few lines that a person pastes, without labels.
package paste

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Two seconds of the example lines of each shipped rule name the rule among the first three, and
// hardly ever name another rule alone. Something is said about a single complaint.
func TestExamplesOfRules(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	prog, err := matcher.CompileOpen(set)
	require.NoError(t, err)
	target := replay.Target{Set: set, Program: prog}
	total, named, wrong := 0, 0, 0
	for _, r := range set.Rules {
		lines := examples(prog, r)
		if r.Silent > 0 || len(lines) == 0 {
			continue
		}
		total++
		names := namedRules(t, target, lines)
		if matcher.IsComplaint(lines[0]) && total%5 == 0 {
			one := scanOf(t, target, lines[:1])
			require.NotZero(t, len(one.Alerts)+len(one.Findings)+len(one.Unknown), "nothing is said about %s", lines[0])
		}
		switch at := slices.Index(names, r.Alert); {
		case at >= 0 && at < 3:
			named++
		case len(names) > 0:
			wrong++
			t.Logf("%s: %q", r.Alert, names)
		default:
			t.Logf("%s: nothing", r.Alert)
		}
	}
	t.Logf("%d rules: %d named among the first three, %d others only", total, named, wrong)
	require.Greater(t, total, 300)
	require.GreaterOrEqual(t, named*100, total*95)
	require.LessOrEqual(t, wrong*100, total*3)
}

// examples returns the first two lines of a rule's first positive test that match it.
func examples(prog *matcher.Program, r *rules.Rule) (out []string) {
	for _, test := range r.Tests {
		if !slices.ContainsFunc(test.Expect, func(c rules.Checkpoint) bool { return len(c.Firing) > 0 }) {
			continue
		}
		for _, in := range test.Input {
			line := strings.ReplaceAll(string(in.Text), "{{ $value }}", "1")
			if line == "" || len(out) == 2 {
				continue
			}
			s := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true, Format: matcher.FormatText})
			hits := append(prog.Scan(s, []byte(line+"\n"), time.Now()), prog.Flush(s, time.Now())...)
			if slices.ContainsFunc(hits, func(h matcher.Hit) bool { return h.Rule == r && h.Part >= 0 }) {
				out = append(out, line)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// scanOf scans lines of one second each.
func scanOf(t *testing.T, target replay.Target, lines []string) scan.Result {
	t.Helper()
	var log strings.Builder
	for i, line := range lines {
		at := time.Date(2026, 1, 1, 10, 0, i, 0, time.UTC).Format(time.RFC3339) + " stderr F "
		log.WriteString(at + strings.ReplaceAll(line, "\n", "\n"+at) + "\n")
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log.String())), nil }
	result, err := scan.Run(target, []replay.Input{{Name: "paste", Open: open}}, replay.ScanOptions{Lenient: true, Now: time.Now()})
	require.NoError(t, err)
	return result
}

// namedRules returns the rules of the alerts and of the findings, in their order, without duplicates.
func namedRules(t *testing.T, target replay.Target, lines []string) (out []string) {
	t.Helper()
	result := scanOf(t, target, lines)
	add := func(alert string) {
		if !slices.Contains(out, alert) {
			out = append(out, alert)
		}
	}
	for i := range result.Alerts {
		add(result.Alerts[i].Episode.Alert)
	}
	for i := range result.Findings {
		add(result.Findings[i].Episode.Alert)
	}
	return out
}
