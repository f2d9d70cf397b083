package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/web"
)

const pack = `pack: {name: p}
rules:
- alert: LeaseLost
  from: '{container=~"syncer|vcluster"}'
  match: lease is lost
  clear: lease is back
  for: 2m
  by: [namespace, pod]
  severity: warning
  tests:
  - name: for long
    stream: {container: syncer, namespace: a, pod: b}
    input: [{at: 0s, line: "lease is lost"}]
    expect: [{at: 3m, firing: [{namespace: a}]}]
- alert: Storm
  from: '{container="apiserver"}'
  match: {contains: too many requests, regex: 'client=(?P<client>\S+)'}
  count: 5
  within: 10m
  by: [client]
  severity: warning
- alert: Waits
  from: '{container="manager"}'
  match: waiting for the volume
  for: 10m
  keep_firing_for: 15m
  by: [namespace]
  severity: warning
- alert: Steps
  from: '{container="manager"}'
  sequence: [{contains: first of all}, {contains: and then}]
  within: 5m
  by: [namespace]
  severity: warning
`

func set(t *testing.T, text string) *rules.Set {
	t.Helper()
	d, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
	require.Empty(t, problems.Errors())
	s, problems := rules.Build([]*rules.Document{d}, rules.Options{})
	require.Empty(t, problems.Errors())
	return s
}

// written inserts a test into the pack and runs it as it is read from there.
func written(t *testing.T, r *rules.Rule, test Test) []string {
	t.Helper()
	data, err := rules.InsertTest(rules.File{Name: "p.yaml", Data: []byte(pack)}, r.Alert, test.YAML())
	require.NoError(t, err)
	again := set(t, string(data)).Rule(r.Alert)
	failures, err := replay.RunTest(again, again.Tests[len(again.Tests)-1])
	require.NoError(t, err)
	return failures
}

// requireProtects fails unless the test alone fails without each of these parts of the rule.
func requireProtects(t *testing.T, r *rules.Rule, test Test, parts ...string) {
	t.Helper()
	alone := *r
	alone.Tests = []rules.Test{test.Test}
	report, err := replay.RunTests([]*rules.Rule{&alone}, replay.TestOptions{Mutate: true})
	require.NoError(t, err)
	require.Zero(t, report.Failed())
	require.Greater(t, report.Mutants, len(parts))
	for _, part := range parts {
		require.NotContains(t, report.Survivors, replay.Survivor{File: r.File, Line: r.Line, Rule: r.Alert, Part: part})
	}
}

func fromLog(t *testing.T, about string, labels matcher.Labels, log string) (Episode, *rules.Rule) {
	t.Helper()
	s := set(t, pack)
	program, err := matcher.CompileOpen(s)
	require.NoError(t, err)
	l := Logs{
		Target: replay.Target{Set: s, Program: program}, Inputs: []replay.Input{{Name: "x.log", Labels: labels, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil }}},
		Options: replay.ScanOptions{Lenient: true, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Redactor: redact.New(nil)},
	}
	ep, r, err := l.Episode(about)
	require.NoError(t, err)
	return ep, r
}

// An episode of recorded logs becomes a test that passes and protects what the episode shows.
func TestFromLogs(t *testing.T) {
	ep, r := fromLog(t, "LeaseLost", matcher.Labels{"namespace": "team-a", "pod": "vc-0", "filename": "x"},
		"2026-11-20T10:00:00Z the lease is lost, password=hunter2 {{ $value }}\n2026-11-20T10:01:00Z nothing\n2026-11-20T10:07:00.5Z lease is back\n")
	test, err := Make(r, ep, false)
	require.NoError(t, err)
	require.True(t, test.Fires)
	require.Equal(t, []string{"the input does not state these labels; the test assumes them: container=syncer"}, test.Notes)
	text := strings.Join(test.YAML(), "\n")
	require.Equal(t, `- name: "captured 2026-11-20 10:00"
  stream: {namespace: team-a, pod: vc-0, container: syncer}
  input:
  - {at: 0s, line: "2026-11-20T10:00:00Z the lease is lost, password=<redacted> { { $value }}"}
  - {at: 7m1s, line: "2026-11-20T10:07:00.5Z lease is back"}
  expect:
  - {at: 2m9s, firing: none}
  - {at: 2m11s, firing: [{alertname: LeaseLost, namespace: team-a, pod: vc-0}]}
  - {at: 7m2s, firing: none}`, text)
	require.Empty(t, written(t, r, test))
	requireProtects(t, r, test, "clear", "for", "by pod")
}

// Of a storm, the test keeps the lines that the alert needs.
func TestStorm(t *testing.T) {
	var log strings.Builder
	for i := range 300 {
		fmt.Fprintf(&log, "2026-11-20T10:%02d:%02dZ too many requests client=c%d\n", i/60, i%60, i%3)
	}
	ep, r := fromLog(t, "Storm", matcher.Labels{"container": "apiserver"}, log.String())
	test, err := Make(r, ep, false)
	require.NoError(t, err)
	require.LessOrEqual(t, len(test.Input), 5)
	require.Empty(t, written(t, r, test))
	requireProtects(t, r, test, "count 5")
}

// A false page becomes a test that fails until the rule is changed.
func TestFalsePage(t *testing.T) {
	ep, r := fromLog(t, "LeaseLost", matcher.Labels{"namespace": "team-a", "pod": "vc-0", "container": "syncer"},
		"2026-11-20T10:00:00Z lease is lost because of a planned upgrade\n2026-11-20T10:07:00Z lease is back\n")
	test, err := Make(r, ep, true)
	require.NoError(t, err)
	require.NotEmpty(t, written(t, r, test))
	require.Contains(t, test.Trigger.Text, "planned upgrade")
}

// api answers as a daemon does.
func api(e web.Episode, events []web.Event, streams ...web.Stream) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		switch path {
		case "episodes/" + e.Fingerprint + "/timeline":
			return json.Marshal(web.Timeline{Episode: e, Events: events})
		case "rules":
			return json.Marshal(map[string]any{"groups": []web.Group{{Rules: []web.Rule{{Name: e.Alert, Source: "the rule"}}}}})
		case "sources":
			return json.Marshal(map[string]any{"sources": []web.Source{{Streams: streams}}})
		}
		return nil, errors.New("no open or recently ended episode has this fingerprint")
	}
}

func TestFromDaemon(t *testing.T) {
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { v := began.Add(d); return &v }
	const log = "namespace team-a, pod vc-0, container vcluster, node n1"
	e := web.Episode{
		Fingerprint: "0f3a61c2b4d5e6f7", Alert: "LeaseLost", Pack: "p", Labels: map[string]string{"namespace": "team-a", "pod": "vc-0"},
		StartsAt: began, FiredAt: at(2*time.Minute + 10*time.Second), LastSeen: began, EndsAt: at(9 * time.Minute), Reason: episodes.ReasonClear, Count: 1,
		First: "lease is lost", Line: "lease is lost",
	}
	events := []web.Event{
		{Time: at(0), Kind: string(episodes.EventOpened), Line: "lease is lost", Log: log},
		{Time: e.FiredAt, Kind: string(episodes.EventFired)},
		{Time: e.EndsAt, Kind: string(episodes.EventEnded), Line: "lease is back", Log: "namespace team-a, pod vc-1, container vcluster, node n2"},
	}
	s := set(t, pack)
	get := api(e, events, web.Stream{Labels: map[string]string{"namespace": "team-a", "pod": "vc-0", "container": "vcluster", "node_name": "n1", "filename": "y"}})
	got, err := Fetch(get, e.Fingerprint)
	require.NoError(t, err)
	require.Equal(t, "the rule", got.Rule)
	// The lease that came back in another pod ends nothing: the rule says `by: [pod]`.
	r := s.Rule("LeaseLost")
	ep := got.Episode(r)
	require.Equal(t, "vc-1", ep.Lines[1].Labels["pod"])
	require.Equal(t, "y", ep.Lines[0].Labels["filename"])
	test, err := Make(r, ep, false)
	require.NoError(t, err)
	require.Empty(t, written(t, r, test))

	_, err = Fetch(get, "0000000000000000")
	require.ErrorContains(t, err, "capture the alert from logs with --from-logs")
	old := e
	old.First, old.Line = "", ""
	_, err = Fetch(api(old, nil), e.Fingerprint)
	require.ErrorContains(t, err, "no longer has the lines of this episode")
}

// A test does not expect the labels that receivers add.
func TestFromDaemonWithExternalLabels(t *testing.T) {
	e := web.Episode{Fingerprint: "0f3a61c2b4d5e6f7", Alert: "LeaseLost", Pack: "p", Labels: map[string]string{"pod": "vc-0", "cluster": "east"}, Line: "x"}
	get := func(path string) ([]byte, error) {
		if path == "episodes/"+e.Fingerprint+"/timeline" {
			return json.Marshal(web.Timeline{Episode: e, ExternalLabels: map[string]string{"cluster": "east"}})
		}
		return []byte("{}"), nil
	}
	got, err := Fetch(get, e.Fingerprint)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pod": "vc-0"}, got.Timeline.Episode.Labels)
}

// The daemon keeps few lines. What they do not explain is an error that says what to do.
func TestFewLinesOfDaemon(t *testing.T) {
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { v := began.Add(d); return &v }
	s := set(t, pack)
	make := func(alert string, e web.Episode, events []web.Event) (Test, error) {
		e.Fingerprint, e.Alert, e.Pack, e.StartsAt, e.FiredAt = "0f3a61c2b4d5e6f7", alert, "p", began, at(0)
		got, err := Fetch(api(e, events), e.Fingerprint)
		require.NoError(t, err)
		return Make(s.Rule(alert), got.Episode(s.Rule(alert)), false)
	}
	test, err := make("Storm", web.Episode{Labels: map[string]string{"client": "c1"}, LastSeen: began, Count: 5, First: "too many requests client=c1", Line: "too many requests client=c1"},
		[]web.Event{
			{Time: at(-time.Minute), Kind: string(episodes.EventCounted)},
			{Time: at(-time.Second), Kind: string(episodes.EventCounted)},
			{Time: at(0), Kind: string(episodes.EventOpened), Line: "too many requests client=c1", Log: "namespace kube-system, pod a, container apiserver"},
		})
	require.NoError(t, err)
	require.Contains(t, test.Notes[0], "keeps one of the 5 lines")
	require.Empty(t, written(t, s.Rule("Storm"), test))

	test, err = make("Waits", web.Episode{Labels: map[string]string{"namespace": "x"}, LastSeen: *at(20 * time.Minute), Count: 40, First: "waiting for the volume", Line: "waiting for the volume still"},
		[]web.Event{{Time: at(0), Kind: string(episodes.EventOpened), Line: "waiting for the volume", Log: "namespace x, pod a, container manager"}})
	require.NoError(t, err)
	require.Empty(t, written(t, s.Rule("Waits"), test))

	_, err = make("Steps", web.Episode{Labels: map[string]string{"namespace": "x"}, LastSeen: began, Count: 2, First: "and then", Line: "and then"},
		[]web.Event{{Time: at(0), Kind: string(episodes.EventOpened), Line: "and then", Log: "namespace x, pod a, container manager"}})
	require.ErrorContains(t, err, "capture the alert from logs with --from-logs")
}
