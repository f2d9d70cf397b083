package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
)

const findingsPack = `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Lost
  from: '{container="syncer"}'
  match: "leaderelection lost"
  clear: "successfully acquired"
  for: 2m
  by: [pod]
  severity: critical
- alert: Often
  from: '{container="syncer"}'
  match: {regex: 'conflict on (?P<object>\w+)'}
  count: 3
  within: 1m
  by: [object]
  severity: warning
- alert: Keeps
  from: '{container=~".+"}'
  match: "conflict"
  for: 10m
  severity: critical
- alert: Steps
  from: '{container="syncer"}'
  sequence: ["backend failed", "moved to another"]
  within: 5m
  severity: warning
- alert: Upgrade
  from: '{container="syncer"}'
  match: "upgrade begins"
  clear: "upgrade ends"
  for: 1h
  severity: critical
- alert: Storm
  from: '{container="syncer"}'
  match: "throttled"
  count: 50
  within: 1m
  severity: info
- alert: Beat
  from: '{container="syncer"}'
  match: "heartbeat failed"
  silent: 1h
  severity: critical
`

func TestFindings(t *testing.T) {
	set, prog := compile(t, findingsPack)
	find := func(lines ...string) (out []string) {
		t.Helper()
		report, err := Scan(set, prog, []Input{logOf("a", lines...)}, ScanOptions{Lenient: true, Findings: true, UntilEOF: true, Now: time.Now()})
		require.NoError(t, err)
		for _, f := range report.Findings {
			out = append(out, fmt.Sprintf("%s %s %d %q %q: %s", f.Episode.Alert, f.Doubt, f.Episode.Count, f.Matched, f.OtherRules, f.Missing))
			for _, o := range f.OtherFailures {
				out = append(out, fmt.Sprintf("and %s %d", o.Labels["object"], o.Count))
			}
		}
		for _, f := range report.FewLineFindings {
			out = append(out, fmt.Sprintf("few %s %s %d", f.Episode.Alert, f.Severity(), f.Episode.Count))
		}
		for _, a := range report.Alerts {
			out = append(out, fmt.Sprintf("alert %s %d %q", a.Episode.Alert, a.Episode.Count, a.OtherRules))
		}
		return out
	}
	require.Empty(t, find(cri(0, "nothing")))
	require.Equal(t, []string{`Lost too_short 1 ["leaderelection lost"] []: alerts if the failure lasts 2 minutes; the log covers 7 seconds`},
		find(cri(0, "leaderelection lost"), cri(7, "other")))
	require.Equal(t, []string{`Lost recovered 1 ["leaderelection lost"] []: recovered after 30 seconds`},
		find(cri(0, "leaderelection lost"), cri(30, "successfully acquired lease")))
	require.Equal(t, []string{`Often too_short 2 ["conflict on b"] ["Keeps"]: alerts at 3 lines within 1 minute; 2 lines seen, and the log covers 5 seconds`},
		find(cri(0, "conflict on b"), cri(5, "conflict on b")), "the rule about every program is named beside the special one")
	require.Equal(t, []string{`Often too_few 1 ["conflict on b"] ["Keeps"]: alerts at 3 lines within 1 minute; 1 line seen`},
		find(cri(0, "conflict on b"), cri(90, "other")))
	var long []string
	for i := range 100 {
		long = append(long, cri(i, "other"))
	}
	require.Equal(t, []string{`Keeps too_short 1 ["conflict"] []: alerts if the failure lasts 10 minutes; the log covers 1 minute 39 seconds`},
		find(append([]string{cri(0, "conflict on b")}, long...)...), "a log that is long enough decides that a few lines are no alert")
	require.Equal(t, []string{`Lost too_short 2 ["leaderelection lost"] []: alerts if the failure lasts 2 minutes; the log covers 20 seconds`},
		find(cri(20, "leaderelection lost"), cri(0, "leaderelection lost"), cri(15, "other")), "lines without the order of their times")
	require.Equal(t, []string{`alert Often 3 ["Keeps"]`},
		find(cri(0, "conflict on b"), cri(1, "conflict on b"), cri(2, "conflict on b")), "an alert stands for the general rule too")
	require.Equal(t, []string{`Often too_short 2 ["conflict on b"] ["Keeps"]: alerts at 3 lines within 1 minute; 2 lines seen, and the log covers 2 seconds`, "and c 1"},
		find(cri(0, "conflict on b"), cri(1, "conflict on b"), cri(2, "conflict on c")), "several objects of a rule are one finding")
	require.Equal(t, []string{`Storm too_short 1 ["throttled"] []: alerts at 50 lines within 1 minute; 1 line seen, and the log covers 3 seconds`},
		find(cri(0, "error: throttled"), cri(3, "other")), "a complaint is never left out")
	require.Equal(t, []string{`Lost too_short 1 ["leaderelection lost"] []: alerts if the failure lasts 2 minutes; the log covers 3 seconds`, "few Storm info 1"},
		find(cri(0, "error: throttled"), cri(3, "leaderelection lost")))
	require.Equal(t, []string{"Steps waiting 1 [\"backend failed\"] []: alerts if this follows within 5 minutes: line 2 of 2: `moved to another`"},
		find(cri(0, "the backend failed")))
	require.Empty(t, find(cri(0, "upgrade begins")), "a line that reports no problem may be what a healthy program writes")
	require.Empty(t, find(cri(0, "throttled"), cri(1, "throttled")), "two lines are no storm")
	require.Empty(t, find(cri(0, "heartbeat failed")), "a line of a rule about silence is no failure")
	require.Equal(t, []string{`Lost too_short 1 ["leaderelection lost"] []: alerts if the failure lasts 2 minutes; the log states no time`},
		find("leaderelection lost"))
}

// What another log says does not decide whether a failure of this one goes on.
func TestFindingsBesideOtherLogs(t *testing.T) {
	set, prog := compile(t, findingsPack)
	other := make([]string, 100)
	for i := range other {
		other[i] = time.Date(2026, 1, 2, 0, 0, i, 0, time.UTC).Format(time.RFC3339Nano) + " stderr F other"
	}
	report, err := Scan(set, prog, []Input{logOf("a", cri(0, "conflict on b")), logOf("b", other...)}, ScanOptions{Lenient: true, Findings: true, Now: time.Now()})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Equal(t, "Often", report.Findings[0].Episode.Alert)
}

// The texts of a finding state the number of all lines, whichever of them the engine sees.
func TestFindingsCountLines(t *testing.T) {
	set, prog := compile(t, `
pack: {name: demo, version: 0.1.0}
rules:
- {alert: Says, from: '{container="a"}', match: {regex: 'error: (?P<of>\w+)'}, count: 9, within: 1m, by: [of], severity: info, annotations: {summary: "{{ $value }} lines"}}
- {alert: Ends, from: '{container="a"}', match: {regex: 'error: (?P<of>\w+)'}, clear: {regex: 'end (?P<of>\w+)'}, for: 1h, by: [of], severity: info}
- {alert: Lasts, from: '{container="a"}', match: {regex: 'error: (?P<of>\w+)'}, for: 1h, by: [of], severity: info}
`)
	lines := []string{cri(0, "error: y"), cri(1, "error: y"), cri(2, "error: y"), cri(3, "end y"), cri(4, "end z")}
	for i := range 5 {
		lines = append(lines, cri(10+i, "error: x"))
	}
	report, err := Scan(set, prog, []Input{logOf("a", lines...)}, ScanOptions{Lenient: true, Findings: true, UntilEOF: true, Now: time.Now()})
	require.NoError(t, err)
	var got []string
	for _, f := range report.Findings {
		for _, x := range append([]episodes.Episode{f.Episode}, f.OtherFailures...) {
			got = append(got, fmt.Sprintf("%s %s %s %d %s %q %s %s", f.Doubt, x.Alert, x.Labels["of"], x.Count, x.Annotations["count"], x.Annotations["summary"], x.StartsAt.Format("05"), x.LastSeen.Format("05")))
		}
	}
	require.ElementsMatch(t, []string{
		`too_short Says x 5 5 "5 lines" 10 14`, `too_short Says y 3 3 "3 lines" 00 02`, `too_short Ends x 5 5 "" 10 14`,
		`recovered Ends y 3 3 "" 00 02`, `too_short Lasts x 5 5 "" 10 14`, `too_short Lasts y 3 3 "" 00 02`,
	}, got)
}

// The findings of a long log with many keys are bounded.
func TestFindingsAreBounded(t *testing.T) {
	set, prog := compile(t, findingsPack)
	var lines []string
	for i := range 3 * maxFound {
		lines = append(lines, cri(i/100, fmt.Sprintf("conflict on o%d", i)))
	}
	report, err := Scan(set, prog, []Input{logOf("a", lines...)}, ScanOptions{Lenient: true, Findings: true, Now: time.Now()})
	require.NoError(t, err)
	require.NotEmpty(t, report.Findings)
	require.LessOrEqual(t, len(report.Findings), maxFound)
}

// A failure that became an alert is never a finding, even if more of its lines follow.
func TestFinderForgetsAlerts(t *testing.T) {
	set, prog := compile(t, findingsPack)
	f := newFinder(Target{set, prog}, episodes.Config{Unlabelled: true}, new(timeless), nil, true)
	s := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true})
	f.addHits(0, prog.Scan(s, []byte(cri(0, "leaderelection lost")+"\n"), time.Now()))
	all := f.openFailures()
	require.Len(t, all, 1)
	f.noteFired(&all[0])
	shown, few := f.listFindings(Coverage{}, nil, nil)
	require.Empty(t, append(shown, few...))
}
