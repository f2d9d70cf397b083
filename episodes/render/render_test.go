package render

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/template"
)

var starts = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func parsed(t *testing.T, src string) *rules.Template {
	t.Helper()
	out, err := template.Parse(src)
	require.NoError(t, err)
	return out
}

func facts(r *rules.Rule) Facts {
	return Facts{
		Rule: r, Labels: map[string]string{"pod": "a-0"}, Count: 3, StartsAt: starts, LastSeen: starts.Add(time.Minute),
		Line: "the newest line", First: "the first line", Origin: "pod a-0",
		Captures: []Capture{{Names: []string{"name"}, Values: []redact.Text{"one"}}, {Names: []string{"name"}, Values: []redact.Text{"two"}}},
	}
}

// A secret that a bound would truncate is hidden completely.
func TestLineIsRedactedBeforeItIsTruncated(t *testing.T) {
	r := Renderer{Redactor: redact.New([]*regexp.Regexp{regexp.MustCompile("hunter2+")})}
	out := r.RedactLine(strings.Repeat("x", MaxLine-3) + " hunter2222")
	require.NotContains(t, out, "hun")
	require.LessOrEqual(t, len(out), MaxLine)
	require.Equal(t, redact.Text("hunter2"), (&Renderer{}).RedactLine("hunter2"), "without a redactor nothing is hidden")
}

func TestAnnotations(t *testing.T) {
	r := &rules.Rule{Annotations: []rules.NamedTemplate{
		{Name: "summary", Template: parsed(t, "{{ $labels.pod }} {{ $value }} {{ $vars.name }}")},
		{Name: "line", Template: parsed(t, "stated by the rule")},
		{Name: "empty", Template: parsed(t, "{{ $vars.unknown }}")},
	}}
	var renderer Renderer
	out := renderer.RenderTexts(facts(r), nil).Annotations
	require.Equal(t, map[string]string{
		"summary": "a-0 3 two", "line": "stated by the rule", "first_line": "the first line", "origin": "pod a-0",
		"count": "3", "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-01T00:01:00Z",
	}, out)

	r.Sequence = true
	r.Annotations = []rules.NamedTemplate{{Name: "summary", Template: parsed(t, "{{ $vars.name_1 }} {{ $vars.name_2 }}")}}
	require.Equal(t, "one two", renderer.RenderTexts(facts(r), nil).Annotations["summary"])
	require.Zero(t, renderer.FailedTemplates())
}

// A value of a log line is shown as one line of text, never as a link.
func TestValuesAreInert(t *testing.T) {
	r := &rules.Rule{Annotations: []rules.NamedTemplate{{Name: "summary", Template: parsed(t, "{{ $vars.name }}")}}}
	f := facts(r)
	f.Captures = []Capture{{Names: []string{"name"}, Values: []redact.Text{"[a](https://evil.example)\nb"}}}
	out := new(Renderer).RenderTexts(f, nil).Annotations["summary"]
	require.NotContains(t, out, "\n")
	require.NotContains(t, out, "](https://")
}

// Texts are rendered again if and only if a fact changed.
func TestTextsAreReused(t *testing.T) {
	r := &rules.Rule{}
	var renderer Renderer
	known := renderer.RenderTexts(facts(r), nil)
	require.Same(t, known, renderer.RenderTexts(facts(r), known))
	f := func(change func(*Facts)) {
		t.Helper()
		x := facts(r)
		change(&x)
		require.NotSame(t, known, renderer.RenderTexts(x, known))
	}
	f(func(x *Facts) { x.Rule = &rules.Rule{} })
	f(func(x *Facts) { x.Labels = nil })
	f(func(x *Facts) { x.Count++ })
	f(func(x *Facts) { x.StartsAt = starts.Add(1) })
	f(func(x *Facts) { x.LastSeen = starts })
	f(func(x *Facts) { x.Line = "" })
	f(func(x *Facts) { x.First = "" })
	f(func(x *Facts) { x.Origin = "" })
	f(func(x *Facts) { x.Captures = x.Captures[:1] })
	f(func(x *Facts) { x.Captures[1].Values = []redact.Text{"three"} })
}

// A command with a missing label names the label, so that nobody runs it as it is.
// Of a failure that lines stopped, only the last line is known.
func TestSilence(t *testing.T) {
	r := &Renderer{}
	x := facts(&rules.Rule{Alert: "A", Silent: time.Minute})
	out := r.RenderTexts(x, nil).Annotations
	require.Contains(t, out, "line")
	require.Contains(t, out, "last_seen")
	for _, name := range []string{"first_line", "first_seen", "count"} {
		require.NotContains(t, out, name)
	}
}

func TestOverflow(t *testing.T) {
	f := func(atLeast bool, want string) {
		t.Helper()
		out := new(Renderer).RenderOverflow(&Overflow{
			Rule: &rules.Rule{Alert: "A"}, DisplacedCount: 2, DisplacedLabels: []string{"{a=\"b\"}"}, Keys: 5, AtLeast: atLeast, Lines: 9, LimitText: "the limit of the rule is 1", StartsAt: starts, LastSeen: starts,
		})
		require.Equal(t, want, out["summary"])
		require.Contains(t, out["description"], "9 triggers could not open an alert: the limit of the rule is 1.")
		require.Equal(t, "9", out["count"])
		require.Contains(t, out["description"], "dropped to make room for others: 2.")
		require.Equal(t, "{a=\"b\"}", out["not_watched"])
	}
	f(false, "A: 5 further keys beyond the limit of open episodes")
	f(true, "A: at least 5 further keys beyond the limit of open episodes")
}
