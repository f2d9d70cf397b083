package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

const scanPack = `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Lost
  from: '{container="syncer"}'
  match: "leaderelection lost"
  clear: "successfully acquired"
  for: 2m
  severity: critical
- alert: Often
  from: '{container="syncer"}'
  match: "conflict on"
  count: 3
  within: 1m
  severity: warning
`

func compile(t *testing.T, pack string) (*rules.Set, *matcher.Program) {
	t.Helper()
	doc, problems := rules.Parse(rules.File{Name: "demo.yaml", Data: []byte(pack)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	return set, prog
}

func logOf(name string, lines ...string) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(lines, "\n"))), nil
	}}
}

func cri(second int, line string) string {
	return time.Date(2026, 1, 1, 10, 0, second, 0, time.UTC).Format("2006-01-02T15:04:05.000000000Z") + " stderr F " + line
}

func TestScan(t *testing.T) {
	set, prog := compile(t, scanPack)
	scan := func(opt ScanOptions, inputs ...Input) []Alert {
		t.Helper()
		opt.Lenient, opt.Now = true, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		report, err := Scan(set, prog, inputs, opt)
		require.NoError(t, err)
		return report.Alerts
	}

	lost, back := cri(0, "leaderelection lost"), func(s int) string { return cri(s, "successfully acquired lease") }
	got := scan(ScanOptions{}, logOf("a", lost))
	require.Len(t, got, 1, "the clock runs on until the deadline is decided")
	require.Equal(t, episodes.StateFiring, got[0].Episode.State, "nothing in the input resolves it")
	require.Empty(t, scan(ScanOptions{UntilEOF: true}, logOf("a", lost)))
	require.Len(t, scan(ScanOptions{UntilEOF: true}, logOf("a", lost, cri(200, "other"))), 1, "lines without a hit move the clock")
	require.Empty(t, scan(ScanOptions{}, logOf("a", lost, back(60))))

	got = scan(ScanOptions{}, logOf("a", lost, back(600)))
	require.Len(t, got, 1)
	require.Equal(t, episodes.StateResolved, got[0].Episode.State)
	require.Equal(t, episodes.ReasonClear, got[0].Episode.Reason)

	// Inputs are merged by event time, in any order of the inputs.
	require.Empty(t, scan(ScanOptions{}, logOf("b", back(60)), logOf("a", lost)))
	require.Len(t, scan(ScanOptions{},
		logOf("a", cri(0, "conflict on 1"), cri(50, "conflict on 3")), logOf("b", cri(30, "conflict on 2"))), 1)

	require.Empty(t, scan(ScanOptions{}))
	require.Empty(t, scan(ScanOptions{}, logOf("empty")))
}

// Lines that stop within the input are a failure; at its end nobody knows what followed.
func TestScanOfSilence(t *testing.T) {
	set, prog := compile(t, `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Stopped
  from: '{container="syncer"}'
  match: {regex: 'alive (?P<id>\w+)'}
  by: [id]
  silent: 2m
  severity: critical
`)
	for _, untilEOF := range []bool{true, false} {
		report, err := Scan(set, prog, []Input{
			logOf("a", cri(0, "alive a"), cri(20, "alive b"), cri(100, "alive a"), cri(240, "alive b"), cri(300, "alive c")),
		}, ScanOptions{Lenient: true, Now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), UntilEOF: untilEOF})
		require.NoError(t, err)
		require.Len(t, report.Alerts, 2, "of a, b, and not of what is silent at the end")
		for i, want := range []struct {
			id     string
			state  episodes.State
			starts int
		}{{"b", episodes.StateResolved, 140}, {"a", episodes.StateFiring, 220}} {
			x := report.Alerts[i].Episode
			require.Equal(t, want.id, x.Labels["id"])
			require.Equal(t, want.state, x.State)
			require.Equal(t, time.Date(2026, 1, 1, 10, 0, want.starts, 0, time.UTC), x.StartsAt)
		}
		require.Equal(t, 2, report.Rules[0].Alerts)
		require.Equal(t, map[bool]int{true: 3, false: 4}[untilEOF], report.Rules[0].Notifications, "a expires after the end")
	}
}

func TestScanWithoutTimes(t *testing.T) {
	set, prog := compile(t, scanPack)
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	report, err := Scan(set, prog, []Input{logOf("-", "E0101 10:00:00.000000       1 controllermanager.go:328] \"leaderelection lost\"")}, ScanOptions{Lenient: true, Now: now})
	require.NoError(t, err)
	require.Len(t, report.Alerts, 1)
	require.Equal(t, time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), report.Alerts[0].Episode.StartsAt)

	report, err = Scan(set, prog, []Input{logOf("-", "leaderelection lost")}, ScanOptions{Lenient: true, Now: now})
	require.NoError(t, err)
	require.Len(t, report.Alerts, 1)
	require.Zero(t, report.Alerts[0].Episode.StartsAt)

	report, err = Scan(set, prog, []Input{logOf("-", "leaderelection lost")}, ScanOptions{Now: now})
	require.NoError(t, err)
	require.Empty(t, report.Alerts, "strict: the container is not stated")
}

func TestScanReportsWhatCannotBeRead(t *testing.T) {
	set, prog := compile(t, scanPack)
	bad := Input{Name: "bad", Open: func() (io.ReadCloser, error) { return nil, errors.New("denied") }}
	torn := Input{Name: "torn", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(cri(0, "leaderelection lost")+"\n"), failing{})), nil
	}}
	report, err := Scan(set, prog, []Input{bad, torn}, ScanOptions{Lenient: true})
	require.ErrorContains(t, err, "read bad: denied")
	require.ErrorContains(t, err, "read torn: torn")
	require.Len(t, report.Alerts, 1, "what was read counts")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("torn") }

func TestScanOfLongLines(t *testing.T) {
	set, prog := compile(t, scanPack)
	long := strings.Repeat("x", 3<<20)
	var files []string
	report, err := Scan(set, prog, []Input{logOf("a", cri(0, "leaderelection lost "+long), cri(1, long), cri(2, "conflict on"))}, ScanOptions{
		Lenient: true,
		OnHits: func(file string, hits []matcher.Hit) {
			for _, h := range hits {
				files = append(files, fmt.Sprint(file, ":", h.Rule.Alert))
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a:Lost", "a:Often"}, files)
	require.Len(t, report.Alerts, 1)
}

func TestCompare(t *testing.T) {
	set, prog := compile(t, scanPack)
	other, otherProg := compile(t, strings.NewReplacer("for: 2m", "for: 5m", "count: 3", "count: 2").Replace(scanPack))
	inputs := func() []Input {
		return []Input{logOf("a", cri(0, "leaderelection lost"), cri(1, "conflict on 1"), cri(2, "conflict on 2"))}
	}
	before, err := Scan(set, prog, inputs(), ScanOptions{Lenient: true})
	require.NoError(t, err)
	after, err := Scan(other, otherProg, inputs(), ScanOptions{Lenient: true})
	require.NoError(t, err)
	changes := Compare(before, after)
	require.Len(t, changes, 2)
	require.Equal(t, "Lost", changes[0].Rule)
	require.Len(t, changes[0].Later, 1)
	later := changes[0].Later[0]
	require.Equal(t, 3*time.Minute, later.After.FiredAt.Sub(later.Before.FiredAt))
	require.Len(t, changes[1].More, 1)
	require.False(t, changes[1].Same())

	same := Compare(after, after)
	require.True(t, same[0].Same())
	require.Len(t, Compare(after, before)[1].Less, 1)
}

func TestIgnoredNamespaces(t *testing.T) {
	set := &rules.Set{Rules: []*rules.Rule{{Alert: "A", Infrastructure: true, Mode: rules.ModeOn, Limit: 1, Count: 1, KeepFiringFor: rules.DefaultKeepFiringFor, Steps: []rules.Step{{Matcher: rules.Matcher{Contains: []string{"failed"}}}}}}}
	trusted, err := namespaces.Parse([]string{"kube-system"})
	require.NoError(t, err)
	set.Namespaces = trusted
	prog, err := matcher.CompileOpen(set)
	require.NoError(t, err)
	scan := func(labels matcher.Labels) Report {
		in := Input{Name: "x", Labels: labels, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("2026-01-01T00:00:00Z failed\n2026-01-01T00:00:01Z failed\n")), nil
		}}
		r, err := Scan(set, prog, []Input{in}, ScanOptions{Lenient: true, Findings: true})
		require.NoError(t, err)
		return r
	}
	r := scan(matcher.Labels{"namespace": "team"})
	require.Empty(t, r.Alerts)
	require.Equal(t, map[RuleNamespace]int64{{Rule: "A", Namespace: "team"}: 2}, r.UntrustedLines)
	require.Len(t, r.Findings, 1)
	require.Equal(t, Untrusted, r.Findings[0].Doubt)
	require.EqualValues(t, 2, r.Findings[0].Episode.Count)
	require.Contains(t, r.Findings[0].Missing, "rules.infrastructure_namespaces: [+team]")

	set.Rules = append(set.Rules, &rules.Rule{Alert: "B", Mode: rules.ModeOn, Limit: 1, Count: 9, Within: time.Minute, Steps: set.Rules[0].Steps})
	prog, err = matcher.CompileOpen(set)
	require.NoError(t, err)
	r = scan(matcher.Labels{"namespace": "team"})
	require.Len(t, r.Findings, 1, "another rule describes the lines")
	require.Equal(t, "B", r.Findings[0].Episode.Alert)
	require.Len(t, r.UntrustedLines, 1)
	set.Rules = set.Rules[:1]
	prog, err = matcher.CompileOpen(set)
	require.NoError(t, err)
	for _, labels := range []matcher.Labels{{"namespace": "kube-system"}, nil} {
		r = scan(labels)
		require.Len(t, r.Alerts, 1)
		require.Empty(t, r.UntrustedLines)
		require.Empty(t, r.Findings)
	}
}
