package show

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
)

func TestAlert(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := episodes.Episode{
		Alert: "LeaseLost", State: episodes.StateResolved, Reason: episodes.ReasonClear,
		Labels: map[string]string{"alertname": "LeaseLost", "severity": "critical", "resolves": "clear", "namespace": "team-a", "x": "a b"},
		Annotations: map[string]string{
			"summary": "lost the lease", "remediation": "Restart it.\n1. kubectl delete pod vc-0",
			"runbook_url": "https://example.org/r", "affected": "yes: 0.22.1", "fixed_in": "0.22.6",
		},
		StartsAt: start, FiredAt: start.Add(130 * time.Second), LastSeen: start.Add(time.Second), EndsAt: start.Add(time.Hour), Count: 2,
		Line: "leaderelection\tlost \x1b[31m", FirstLine: "first",
	}
	var b strings.Builder
	require.NoError(t, WriteAlert(&b, e, Style{}))
	require.Equal(t, `RESOLVED critical LeaseLost
  lost the lease
  where       namespace=team-a x="a b"
  since       2026-01-02T03:04:05Z, certain after 2m10s, last seen 2026-01-02T03:04:06Z, ended 2026-01-02T04:04:05Z (clear), 2 lines
  line        leaderelection lost
  first line  first
  what to do  Restart it.
              1. kubectl delete pod vc-0
  runbook     https://example.org/r
  affected    yes: 0.22.1
  fixed in    0.22.6
`, b.String())

	b.Reset()
	require.NoError(t, WriteAlert(&b, e, Style{Color: true}))
	require.Contains(t, b.String(), "\x1b[32mRESOLVED\x1b[0m")
}

func TestAlertNamesItsCause(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b strings.Builder
	require.NoError(t, WriteAlert(&b, episodes.Episode{
		Alert: "LeaseLost", State: episodes.StateFiring, Labels: map[string]string{"alertname": "LeaseLost", "severity": "critical"}, StartsAt: start, LastSeen: start, Count: 1,
		Cause: &episodes.Cause{Alert: "StoreSlow", Labels: map[string]string{"alertname": "StoreSlow", "severity": "critical", "namespace": "a"}, StartsAt: start},
	}, Style{Brief: true}))
	require.Contains(t, b.String(), "  symptom of  StoreSlow namespace=a, since 2026-01-02T03:04:05Z\n")
}

func TestTimelineNamesCauseAndSymptoms(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteTimeline(&b, []byte(`{"episode":{"alert":"LeaseLost","state":"firing","labels":{"namespace":"a"},
		"cause":{"fingerprint":"00000000000000ab","alert":"StoreSlow","labels":{"namespace":"b"},"startsAt":"2026-01-02T03:04:05Z"},"symptoms":["00000000000000cd"]},"events":[]}`), ListStyle{}))
	require.Equal(t, `LeaseLost firing: namespace=a
symptom of StoreSlow (00000000000000ab): namespace=b, since 2026-01-02T03:04:05Z
symptoms that are open: 00000000000000cd

`, b.String())
}

// A rule is shown with placeholders in words, and without the templates.
func TestRuleInWords(t *testing.T) {
	doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(`pack: {name: p, version: 0.1.0}
rules:
- alert: A
  from: '{container="x"}'
  match: abcd
  by: [pod]
  annotations:
    summary: "{{ if $labels.pod }}Pod {{ $labels.pod }}{{ else }}A pod{{ end }} fails"
  # Of the remediation.
  remediation:
    summary: "Restart {{ $labels.pod }}"

    steps: ["kubectl delete pod {{ $labels.pod }}"]
  severity: info
`)})
	require.Empty(t, problems.Errors())
	set, _ := rules.Build([]*rules.Document{doc}, rules.Options{})
	var out strings.Builder
	require.NoError(t, WriteRule(&out, set.Rules[0]))
	require.Contains(t, out.String(), "summary      Pod POD fails\n")
	require.Contains(t, out.String(), "1.         kubectl delete pod POD\n")
	require.Contains(t, out.String(), "  by: [pod]\n")
	require.Contains(t, out.String(), "  severity: info\n")
	require.NotContains(t, out.String(), "{{")
}
