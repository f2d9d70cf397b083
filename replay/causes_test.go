package replay

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

const causeRules = `pack: {name: p}
rules:
- {alert: Slow, from: '{k=~".+"}', match: too slow, by: [k], clear: {contains: fast again, same: [k]}, severity: critical}
- alert: Lost
  from: '{k=~".+"}'
  match: lost it
  by: [k]
  severity: warning
  symptom_of: [{alert: Slow, same: [k], lag: 10s}]
`

func setOf(t *testing.T, files ...string) *rules.Set {
	t.Helper()
	var docs []*rules.Document
	for i, text := range files {
		d, problems := rules.Parse(rules.File{Name: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
		require.Empty(t, problems.Errors(), "%s", problems.Error())
		docs = append(docs, d)
	}
	set, problems := rules.Build(docs, rules.Options{})
	require.NotNil(t, set, "%s", problems.Error())
	return set
}

// Each part of a relation is removed once, and only a test that depends on it notices.
func TestMutantsOfCauses(t *testing.T) {
	f := func(tests string, want ...string) {
		t.Helper()
		set := setOf(t, causeRules+tests)
		report, err := RunTests(set.Rules, TestOptions{Mutate: true})
		require.NoError(t, err)
		require.Zero(t, report.Failed(), "%v", report.Results)
		var got []string
		for _, s := range report.Survivors {
			if s.Rule == "Lost" && strings.HasPrefix(s.Part, "symptom_of") {
				got = append(got, s.Part)
			}
		}
		require.Equal(t, want, got)
	}
	test := func(inputs, cause string) string {
		return "  - {stream: {k: a}, input: [" + inputs + ", {at: 20s, line: lost it}], expect: [{at: 10m, firing: [{alertname: Lost, annotations: {cause_alertname: " + cause + "}}]}]}\n"
	}
	related := test("{at: 0s, cause: Slow, labels: {k: a}}", "Slow")
	other := test("{at: 0s, cause: Slow, labels: {k: b}}", `""`)
	late := "  - {stream: {k: a}, input: [{at: 0s, line: lost it}, {at: 11s, cause: Slow, labels: {k: a}}], expect: [{at: 12s, firing: [{alertname: Lost, annotations: {cause_alertname: \"\"}}]}]}\n"
	f("  tests:\n"+related, "symptom_of Slow.same k", "symptom_of Slow.lag")
	f("  tests:\n"+other+late, "symptom_of Slow")
	f("  tests:\n" + related + other + late)
}

// Tests check the rule of the pack, even if overrides change its labels.
func TestOverridesDoNotBreakTests(t *testing.T) {
	pack := causeRules + "  tests: [{stream: {k: a}, input: [{at: 0s, line: lost it}], expect: [{at: 1s, firing: [{alertname: Lost, k: a}]}]}]\n"
	set := setOf(t, pack, "overrides:\n- {rule: Lost, set: {by: [j], symptom_of: [], labels: {team: x}}}\n")
	require.Equal(t, []string{"j"}, set.Rule("Lost").By)
	report, err := RunTests(set.Rules, TestOptions{})
	require.NoError(t, err)
	require.Len(t, report.Results, 1)
	require.Zero(t, report.Failed(), "%v", report.Results)
}

// A scan shows causes, also of alerts that ended.
func TestScanShowsCauses(t *testing.T) {
	lines := "2026-01-01T00:00:00Z too slow\n2026-01-01T00:00:05Z lost it\n2026-01-01T00:01:00Z fast again\n2026-01-01T01:00:00Z lost it\n"
	scan := func(set *rules.Set) Report {
		prog, err := matcher.Compile(set)
		require.NoError(t, err)
		report, err := Scan(set, prog, []Input{{
			Name: "x", Labels: matcher.Labels{"k": "a"}, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(lines)), nil },
		}}, ScanOptions{Now: time.Now()})
		require.NoError(t, err)
		return report
	}
	after := scan(setOf(t, causeRules))
	require.Len(t, after.Alerts, 3)
	require.Equal(t, "Lost", after.Alerts[1].Episode.Alert)
	require.Equal(t, "Slow", after.Alerts[1].Episode.Cause.Alert)
	require.Equal(t, "Slow", after.Alerts[1].Episode.Annotations["cause_alertname"])
	require.Nil(t, after.Alerts[2].Episode.Cause, "Slow was over")

	before := scan(setOf(t, causeRules[:strings.Index(causeRules, "  symptom_of")]))
	changes := Compare(before, after)
	require.Len(t, changes, 2)
	require.Len(t, changes[0].OtherCauses, 1)
	require.False(t, changes[0].Same())
	require.True(t, changes[1].Same())
}
