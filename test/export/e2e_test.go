//go:build e2e

// Package export compares exported rules in real servers with crowsnest on the
// same lines.
package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/export"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/test/servers"
)

// line is one line of a test of a rule.
type line struct {
	at     time.Duration
	labels map[string]string
	text   string
}

// linesOf returns the lines of a test in order of time; nil if the test changes
// the state of the source, which Loki cannot reproduce.
func linesOf(test rules.Test) []line {
	var out []line
	for _, in := range test.Input {
		if in.Source != "" || in.Do != "" {
			return nil
		}
		if in.Cause != "" {
			continue
		}
		labels := maps.Clone(test.Stream)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, in.Labels)
		maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
		for i := range max(in.Repeat, 1) {
			text := strings.NewReplacer("{{ $value }}", strconv.Itoa(i), "{{$value}}", strconv.Itoa(i)).Replace(in.Text)
			out = append(out, line{in.TS + time.Duration(i)*in.Every, labels, text})
		}
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return out
}

// fired returns the alerts that crowsnest raises on the lines, by their labels,
// with the time of each.
func fired(t *testing.T, set *rules.Set, start time.Time, lines []line) map[string]time.Time {
	t.Helper()
	program, err := matcher.Compile(set)
	require.NoError(t, err)
	streams, labels := map[string]*bytes.Buffer{}, map[string]map[string]string{}
	for _, l := range lines {
		id := servers.LabelText(l.labels)
		if streams[id] == nil {
			streams[id], labels[id] = &bytes.Buffer{}, l.labels
		}
		fmt.Fprintf(streams[id], "%s stdout F %s\n", start.Add(l.at).UTC().Format(time.RFC3339Nano), l.text)
	}
	var inputs []replay.Input
	for _, id := range slices.Sorted(maps.Keys(streams)) {
		inputs = append(inputs, replay.Input{
			Name: id, Labels: labels[id],
			Open: func() (io.ReadCloser, error) { return io.NopCloser(streams[id]), nil },
		})
	}
	report, err := replay.Scan(set, program, inputs, replay.ScanOptions{Now: time.Now(), UntilEOF: true})
	require.NoError(t, err)
	out := map[string]time.Time{}
	for _, a := range report.Alerts {
		id := servers.LabelText(a.Episode.Labels)
		if _, seen := out[id]; !seen {
			out[id] = a.FiredAt
		}
	}
	return out
}

// one returns a set with one rule.
func one(set *rules.Set, alert string) *rules.Set {
	r := set.Rule(alert)
	return &rules.Set{Rules: []*rules.Rule{r}, Packs: []*rules.Pack{{Name: r.Pack, Rules: []*rules.Rule{r}}}}
}

func push(t *testing.T, l *servers.LokiServer, tenant string, start time.Time, lines []line) {
	t.Helper()
	entries := make([]servers.Entry, len(lines))
	for i, x := range lines {
		entries[i] = servers.Entry{Time: start.Add(x.at), Line: x.text, Labels: x.labels}
	}
	slices.SortStableFunc(entries, func(a, b servers.Entry) int {
		return cmp.Compare(servers.LabelText(a.Labels), servers.LabelText(b.Labels))
	})
	l.Push(tenant, entries...)
}

// series evaluates an expression and returns the labels of all series that are
// true at one of the times.
func series(t *testing.T, l *servers.LokiServer, tenant, path string, values url.Values) map[string]bool {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, l.URL+"/loki/api/v1/"+path+"?"+values.Encode(), nil)
	require.NoError(t, err)
	req.Header.Set("X-Scope-OrgID", tenant)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s\n%s", body, values.Get("query"))
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	out := map[string]bool{}
	for _, r := range answer.Data.Result {
		maps.DeleteFunc(r.Metric, func(_, v string) bool { return v == "" })
		out[servers.LabelText(r.Metric)] = true
	}
	return out
}

func nanos(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func shipped(t *testing.T) *rules.Set {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	return set
}

// exported returns the exported form of each rule, by name.
func exported(res export.Result) map[string]export.AlertRule {
	out := map[string]export.AlertRule{}
	for _, g := range res.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = r
		}
	}
	return out
}

// byLabels returns the labels that the query groups by.
func byLabels(r *rules.Rule, alert map[string]string) string {
	out := map[string]string{}
	for _, name := range slices.Concat(r.By, rules.DefaultIdentity) {
		if v := alert[name]; v != "" {
			out[name] = v
		}
	}
	return servers.LabelText(out)
}

// equalLines is the reason for differences with duplicate lines: this test
// writes them twice, while the test of the language reads one line again.
const equalLines = "Loki keeps one of equal lines with one time, crowsnest counts each that is written"

// knownDifferences are the tests of the language where Loki gives another
// result.
var knownDifferences = map[string]string{
	"TwiceCount: labels that differ between sources are left out":                                        "Loki counts a line for each of its streams",
	"TwiceCount: one trailing CR is removed on reading, before hashing":                                  "a CR is part of the line in Loki",
	"TwiceCount: the same line read twice is one line":                                                   equalLines,
	"TwiceCount: also when it is read behind the watermark":                                              equalLines,
	"TwiceCount: fingerprints use the timestamp as it was read - one line ahead of the clock read twice": equalLines,
	"TextRegexAnchored: one trailing CR is removed on reading":                                           "a CR is part of the line in Loki",
	"JSONNumber: the same field twice - the last wins":                                                   "in Loki the first wins",
	"JSONNumber: the same field twice - the first does not":                                              "in Loki the first wins",
	"JSONValues: the same field twice - a null at the end leaves nothing":                                "in Loki the first wins",
	"TextRecordOfKlog": "Loki has an entry for each line, crowsnest takes the lines of a block as one record",
	"LimitTwo":         "a ruler has no limit of open alerts",
	"LimitDefault":     "a ruler has no limit of open alerts",
	"LimitWindows":     "a ruler has no limit of windows",
	"LimitValue":       "a ruler does not cut values",
	"TemplateOverflow": "a ruler has no limit of open alerts",
	"NameOrder":        "namespace is never looked for in the line",
}

// known reports whether a difference is known, by its rule or its test.
func known(alert, test string) bool {
	return knownDifferences[alert] != "" || knownDifferences[alert+": "+test] != ""
}

// inIngesters is how far back Loki searches for lines that are not flushed yet.
const inIngesters = 2*time.Hour + 50*time.Minute

// On the lines of every test of every exportable rule, Loki finds the same as
// crowsnest, for the same keys: for the shipped packs, the packs that pin the
// language, and one with difficult syntax.
func TestQueriesEqualRules(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{Auth: true})
	files, err := filepath.Glob("../../testdata/language/*.yaml")
	require.NoError(t, err)
	c := comparison{t: t, loki: l}
	c.compare("shipped", shipped(t))
	require.GreaterOrEqual(t, c.rules, 20)
	for _, file := range append(files, "../../lab/export/testdata/hard.yaml") {
		c.compare(filepath.Base(file), packs(t, file))
	}
	t.Logf("in all %d rules, %d tests, %d lines, %d alerts: the same but for %d tests that are known to differ; %d are longer than Loki looks into its memory",
		c.rules, c.tests, c.lines, c.alerts, c.differ, c.long)
}

func packs(t *testing.T, file string) *rules.Set {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	doc, problems := rules.Parse(rules.File{Name: filepath.Base(file), Data: data})
	require.Empty(t, problems.Errors(), file)
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors(), file)
	return set
}

// comparison counts the compared rules and tests.
type comparison struct {
	t                                 *testing.T
	loki                              *servers.LokiServer
	rules, tests, lines, alerts, long int
	differ                            int // as expected
}

func (c *comparison) compare(name string, set *rules.Set) {
	t := c.t
	t.Helper()
	before := *c
	queries := exported(export.LokiRules(set, export.Options{}))
	for _, r := range set.Rules {
		q, ok := queries[r.Alert]
		if !ok || r.For > 0 {
			continue
		}
		c.rules++
		for _, test := range r.Tests {
			if lines := linesOf(test); len(lines) > 0 {
				c.compareTest(set, r, test, q.Expr, lines)
			}
		}
	}
	t.Logf("%s: %d rules, %d tests, %d alerts", name, c.rules-before.rules, c.tests-before.tests, c.alerts-before.alerts)
}

func (c *comparison) compareTest(set *rules.Set, r *rules.Rule, test rules.Test, query string, lines []line) {
	t := c.t
	t.Helper()
	span := lines[len(lines)-1].at
	if span > inIngesters {
		c.long++
		return
	}
	base := time.Now().Add(-span - time.Minute).Truncate(time.Second)
	c.tests++
	c.lines += len(lines)
	tenant := fmt.Sprint("t", c.tests)
	push(t, c.loki, tenant, base, lines)
	want := map[string]bool{}
	got := series(t, c.loki, tenant, "query_range", url.Values{
		"query": {query}, "step": {"10s"}, "start": {nanos(base)}, "end": {nanos(base.Add(span))},
	})
	for id, at := range fired(t, one(set, r.Alert), base, lines) {
		c.alerts++
		want[byLabels(r, parse(t, id))] = true
		maps.Copy(got, series(t, c.loki, tenant, "query", url.Values{"query": {query}, "time": {nanos(at)}}))
	}
	if maps.Equal(want, got) {
		return
	}
	c.differ++
	if !known(r.Alert, test.Name) {
		t.Errorf("%s, test %q: crowsnest %v, Loki %v\n%s", r.Alert, test.Name, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), query)
	}
}

// parse parses the output of servers.LabelText.
func parse(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if text == "{}" {
		return out
	}
	sel, err := selector.Parse(text)
	require.NoError(t, err, text)
	for _, m := range sel.Matchers() {
		out[m.Name] = m.Value
	}
	return out
}

// The ruler of a real Loki loads every exported rule and raises at a real
// Alertmanager the same alerts as crowsnest.
func TestRulerEqualsRules(t *testing.T) {
	set := shipped(t)
	// Hundreds of queries: Loki on two cores does not evaluate them every second.
	res := export.LokiRules(set, export.Options{Interval: 20 * time.Second, Keep: func(r *rules.Rule) bool { return r.For == 0 }})
	dir := filepath.Join(t.TempDir(), "rules")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, servers.NoTenant), 0o755))
	var file bytes.Buffer
	require.NoError(t, res.WriteGroups(&file, "written by a test"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, servers.NoTenant, "crowsnest.yml"), file.Bytes(), 0o644))
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	l := servers.Loki(t, servers.LokiOptions{RulesDir: dir, Alertmanager: am.URL})

	// The first alert of one test of each rule occurs at the same, near moment.
	queries := exported(res)
	stateless := &rules.Set{}
	for _, r := range set.Rules {
		if _, ok := queries[r.Alert]; ok {
			stateless.Rules = append(stateless.Rules, r)
		}
	}
	moment := time.Now().Add(15 * time.Second).Truncate(time.Second)
	var all []line
	for _, r := range stateless.Rules {
		all = append(all, untilAlert(t, set, r)...)
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	want := slices.Sorted(maps.Keys(fired(t, stateless, moment, all)))
	push(t, l, "", moment, all)
	got := func() []string {
		var out []string
		for _, a := range am.Alerts() {
			out = append(out, servers.LabelText(a.Labels))
		}
		slices.Sort(out)
		return out
	}
	require.Eventually(t, func() bool { return len(got()) >= len(want) }, 5*time.Minute, 200*time.Millisecond, "%d of %d\n%s", len(got()), len(want), strings.Join(got(), "\n"))
	t.Logf("%d lines, %d rules, %d alerts at Alertmanager %s after the moment", len(all), len(queries), len(want), time.Since(moment).Round(100*time.Millisecond))
	require.Equal(t, want, got())
	for _, a := range am.Alerts() {
		require.NotContains(t, a.Annotations["summary"], "{{", "a template that was not executed")
		require.NotContains(t, a.Annotations["summary"], "<error expanding template")
		require.NotContains(t, a.Annotations["summary"], "<no value>")
	}
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	require.NoError(t, servers.Get(context.Background(), l.URL+"/prometheus/api/v1/rules", func(body []byte) error { return json.Unmarshal(body, &rules) }))
	loaded := 0
	for _, g := range rules.Data.Groups {
		for _, r := range g.Rules {
			loaded++
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		}
	}
	require.Equal(t, len(queries), loaded)
}

// untilAlert returns the lines of the first test that raises an alert, up to
// that alert, with times before it.
func untilAlert(t *testing.T, set *rules.Set, r *rules.Rule) []line {
	t.Helper()
	start := time.Now().Add(-10 * time.Hour)
	for _, test := range r.Tests {
		lines := linesOf(test)
		if len(lines) == 0 {
			continue
		}
		var first time.Time
		for _, at := range fired(t, one(set, r.Alert), start, lines) {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if first.IsZero() {
			continue
		}
		var out []line
		for _, l := range lines {
			if l.at -= first.Sub(start); l.at <= 0 {
				out = append(out, l)
			}
		}
		return out
	}
	t.Fatalf("no test of %s raises an alert", r.Alert)
	return nil
}
