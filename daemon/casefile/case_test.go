package casefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/test/inlinecode"
	"crowsnest/web"
)

const pack = `pack: {name: test, version: 0.1.0}
rules:
- alert: LeaseLost
  from: '{namespace="kube-system"}'
  match: lost the lease
  by: [namespace, pod]
  for: 1m
  clear: took the lease
  severity: critical
  annotations: {summary: "{{ $labels.pod }} lost its lease", description: "First line.\nSecond line.", remediation: "1. kubectl get lease", runbook_url: "https://example.com/a?b=c"}
- alert: NodeGone
  from: '{component="conditions"}'
  match: status=Unknown
  by: [node]
  severity: warning
- alert: DiskSlow
  from: '{identifier="kernel"}'
  match: blk_update_request
  by: [node]
  severity: info
- alert: MountFailed
  from: '{component="events"}'
  match: {regex: 'FailedMount .*what="(?P<what>[^"]*)"'}
  by: [namespace, what]
  severity: warning
- alert: NeverRead
  from: '{component="leases"}'
  match: stale
  severity: warning
`

func build(t *testing.T) *rules.Set {
	t.Helper()
	d, problems := rules.Parse(rules.File{Name: "test.yaml", Data: []byte(pack)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{d}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}

// log returns an input with these lines.
func log(name string, labels matcher.Labels, lines ...string) replay.Input {
	return replay.Input{Name: name, Labels: labels, Exact: true, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n")), nil
	}}
}

// logs has a failure in each of four kinds of sources.
func logs() []replay.Input {
	return []replay.Input{
		log("pods", matcher.Labels{"namespace": "kube-system", "pod": "kcm", "container": "kcm"},
			"2026-01-02T03:00:10Z lost the lease", "2026-01-02T03:05:00Z nothing else"),
		log("journal", matcher.Labels{"identifier": "kernel", "node": "cp-1"}, "2026-01-02T03:00:05Z blk_update_request: I/O error"),
		log("events", matcher.Labels{"component": "events", "namespace": "shop"}, `2026-01-02T03:00:20Z FailedMount what="data"`),
		log("objects", matcher.Labels{"component": "conditions"}, `2026-01-02T03:00:15Z status=Unknown node=cp-1`),
	}
}

// made makes the case of inputs.
func made(t *testing.T, about string, in []replay.Input, unread ...string) (*Case, error) {
	t.Helper()
	set := build(t)
	program, err := matcher.CompileOpen(set)
	require.NoError(t, err)
	now, hide := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), redact.New(nil)
	lines := NewRecorder(hide)
	report, err := replay.Scan(set, program, in, replay.ScanOptions{Now: now, Redactor: hide, OnHits: lines.Add})
	require.NoError(t, err)
	return FromReport(RecordedScan{
		Names: []string{"bundle"}, Inputs: in, Set: set, Report: report, Lines: lines, UnreadFiles: unread, Now: now, Version: "v1", SubjectFilter: about,
	})
}

// written returns the three forms, after checks that hold for every case.
func written(t *testing.T, c *Case) (page, md, data string) {
	t.Helper()
	var h, m, j bytes.Buffer
	require.NoError(t, c.HTML(&h))
	require.NoError(t, c.Markdown(&m))
	require.NoError(t, c.JSON(&j))
	checkPage(t, h.String())
	checkMarkdown(t, m.String())
	checkJSON(t, j.Bytes())
	return h.String(), m.String(), j.String()
}

// checkPage requires a page that runs nothing and loads nothing.
func checkPage(t *testing.T, page string) {
	t.Helper()
	allowed := strings.Fields("html head meta title style body header main nav section article footer h1 h2 h3 h4 p span a ol ul li dl dt dd code pre div table thead tbody tr th td time br")
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	ids := map[string]bool{}
	var targets []string
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.Contains(t, allowed, n.Data)
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "src", "%s %s", n.Data, a.Key)
			if a.Key == "id" {
				require.False(t, ids[a.Val], "two elements have the id %s", a.Val)
				ids[a.Val] = true
			}
			if a.Key == "href" && strings.HasPrefix(a.Val, "#") {
				targets = append(targets, a.Val[1:])
			} else if a.Key == "href" {
				require.True(t, strings.HasPrefix(a.Val, "https://") || strings.HasPrefix(a.Val, "http://"), a.Val)
			}
		}
	}
	for _, to := range targets {
		require.True(t, ids[to], to)
	}
	require.Contains(t, page, `content="default-src 'none'; style-src 'unsafe-inline'`)
}

// checkMarkdown requires that outside of fenced blocks nothing is HTML, a link, an image or
// a mention, but for the runbook.
func checkMarkdown(t *testing.T, md string) {
	t.Helper()
	fence := ""
	for l := range strings.Lines(md) {
		l = strings.TrimSpace(l)
		ticks := l[:len(l)-len(strings.TrimLeft(l, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && l == fence:
			fence = ""
		case fence == "" && !strings.HasPrefix(l, "Runbook: <https://example.com/") && !strings.Contains(l, "(#what-could-not-be-seen)"):
			require.NotRegexp(t, "[<>`@]|\\]\\(|&#", inlinecode.Remove(l), l)
		}
	}
	require.Empty(t, fence)
}

func checkJSON(t *testing.T, data []byte) {
	t.Helper()
	text, err := Schema()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("case.json", doc))
	schema, err := compiler.Compile("case.json")
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(v))
}

// The timeline has the lines of all sources in order of time, and what nobody could read is
// said.
func TestFourSources(t *testing.T) {
	c, err := made(t, "", logs(), "b.bin: binary")
	require.NoError(t, err)
	page, md, _ := written(t, c)
	var got []string
	for _, e := range c.Timeline {
		if e.Kind == kindLine {
			got = append(got, e.Source+" "+e.Log)
		}
	}
	require.Equal(t, []string{"journal kernel, node cp-1", "pod log kube-system/kcm/kcm", "objects conditions", "Events shop"}, got)
	require.Equal(t, "4 failures", c.Title())
	for _, want := range []string{"kcm lost its lease", "NeverRead", "b.bin", "First line.", "kubectl get lease", "https://example.com/a?b=c", "nobody would see these failures"} {
		require.Contains(t, page, want)
		require.Contains(t, md, want)
	}
	require.Contains(t, md, "2026-01-02 03:00:10Z LeaseLost begins")
}

// A case about one alert has that one and what was open in its place.
func TestAbout(t *testing.T) {
	in := append(logs(), log("other", matcher.Labels{"namespace": "kube-system", "pod": "sched", "container": "s"}, "2026-01-02T03:00:30Z lost the lease"))
	c, err := made(t, "MountFailed", in)
	require.NoError(t, err)
	require.Len(t, c.Failures, 1)
	written(t, c)
	c, err = made(t, "LeaseLost", in)
	require.NoError(t, err)
	require.Len(t, c.Failures, 2)
	require.Equal(t, []Chain{{Failures: []int{1, 2}}}, c.Chains)
	require.Contains(t, c.Began(c.Failures[1]), "1 LeaseLost, 20s earlier (same namespace kube-system)")
	written(t, c)
	_, err = made(t, "Nonsense", in)
	require.EqualError(t, err, "no alert of the input has the name or fingerprint Nonsense; it has DiskSlow, LeaseLost, MountFailed, NodeGone")
}

// Without a failure the case says that this proves nothing.
func TestNoFailure(t *testing.T) {
	c, err := made(t, "", []replay.Input{log("x", matcher.Labels{"namespace": "kube-system"}, "2026-01-02T03:00:10Z all is well")})
	require.NoError(t, err)
	page, md, _ := written(t, c)
	require.Contains(t, page, "That is no proof that nothing failed.")
	require.Contains(t, md, "That is no proof that nothing failed")
	require.Equal(t, "No known failure", c.Title())
}

// No line, label or name acts as markup, and no secret leaves.
func TestHostile(t *testing.T) {
	const token = "glpat-a1B2c3D4e5F6g7H8i9J0"
	for _, text := range []string{
		"<script>alert(1)</script>", "`````", "![x](http://evil.example/x.png)", "[click](javascript:alert(1))", "@everyone #1", "\x1b[31mred\x07",
		"</pre><img src=x onerror=alert(1)>", "``` \n# head", "password=" + token, strings.Repeat("A", 64<<10), "\u202etxt.exe", "<!-- -->", "{{.}}",
	} {
		one := strings.ReplaceAll(text, "\n", " ")
		pod := strings.ReplaceAll(one, token, "") // names of pods are not redacted, as in scan and in the API
		in := []replay.Input{
			log("<b>"+one, matcher.Labels{"namespace": "kube-system", "pod": pod, "container": pod}, "2026-01-02T03:00:10Z lost the lease "+one),
			log("e", matcher.Labels{"component": "events", "namespace": pod}, `2026-01-02T03:00:20Z FailedMount what="`+strings.ReplaceAll(one, `"`, "")+`"`),
		}
		c, err := made(t, "", in, one+": "+one)
		require.NoError(t, err)
		page, md, data := written(t, c)
		for _, out := range []string{page, md, data} {
			if i := strings.Index(out, token); i >= 0 {
				t.Fatal(out[max(0, i-200) : i+40])
			}
			require.NotContains(t, out, "\x1b")
			require.NotContains(t, out, "\u202e")
			require.Less(t, len(out), 200<<10, "%.40q", text)
		}
	}
}

// answers are those of a daemon, by path.
type answers map[string]string

func (a answers) get(path string) ([]byte, error) {
	if text, ok := a[path]; ok {
		return []byte(text), nil
	}
	return nil, errors.New("no answer for " + path)
}

func TestFromDaemon(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := at.Add(time.Minute)
	one := web.Episode{
		Fingerprint: "0123456789abcdef", Alert: "LeaseLost", State: "firing", StartsAt: at, LastSeen: at, FiredAt: &later, Count: 2, Pack: "test",
		Labels: map[string]string{"alertname": "LeaseLost", "severity": "critical", "namespace": "kube-system"}, Line: "lost <b>", First: "lost",
		Annotations: map[string]string{"summary": "It is lost", "origin": "pod kcm"},
	}
	other := one
	other.Fingerprint, other.Alert, other.StartsAt = "0123456789abcdee", "APIServerSlow", at.Add(-time.Minute)
	own := web.Episode{Fingerprint: "0123456789abcded", Alert: "CrowsnestBlind", StartsAt: at, Labels: map[string]string{"severity": "warning"}, Annotations: map[string]string{"summary": "events cannot be read"}}
	text := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return string(b)
	}
	timeline := func(e web.Episode) string {
		return text(web.Timeline{Episode: e, Events: []web.Event{{Time: &e.StartsAt, Kind: "opened", Text: "the condition became true", Line: "lost <b>"}, {Kind: "next", Text: "waits"}}, Skipped: 3})
	}
	a := answers{
		"episodes/0123456789abcdef/timeline": timeline(one),
		"episodes/0123456789abcdee/timeline": timeline(other),
		"episodes":                           text(map[string]any{"episodes": []web.Episode{one, other, own}}),
		"sources":                            text(map[string]any{"sources": []web.Source{{Name: "events", Error: "the API server is away", Lines: 7}}}),
		"rules":                              text(map[string]any{"groups": []web.Group{{Name: "test", Rules: []web.Rule{{Name: "NeverRead", Health: "blind"}}}}}),
	}
	in := Daemon{Address: "http://crowsnest:9797", Fingerprint: "0123456789abcdef", Get: a.get, Now: later, Version: "v1"}
	c, err := FromAPI(in)
	require.NoError(t, err)
	page, md, _ := written(t, c)
	require.Len(t, c.Failures, 2)
	require.Equal(t, "LeaseLost", c.Title())
	for _, want := range []string{"events cannot be read", "the API server is away", "NeverRead", "APIServerSlow", "It is lost"} {
		require.Contains(t, page, want)
		require.Contains(t, md, want)
	}
	// What the daemon does not answer is said, and the rest is still there.
	delete(a, "sources")
	delete(a, "rules")
	delete(a, "episodes")
	c, err = FromAPI(in)
	require.NoError(t, err)
	_, md, _ = written(t, c)
	for _, want := range []string{"about its sources", "about its rules", "about the other failures"} {
		require.Contains(t, md, want)
	}
	in.Fingerprint = "ffffffffffffffff"
	_, err = FromAPI(in)
	require.ErrorContains(t, err, "no answer for episodes/ffffffffffffffff/timeline")
}

// docs/case.schema.json is what `crowsnest schema case` prints.
func TestSchemaFile(t *testing.T) {
	want, err := Schema()
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/case.schema.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run make schemas")
}
