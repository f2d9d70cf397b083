package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/cli/internal/findings"
	"crowsnest/episodes"
	"crowsnest/redact"
	markdownpkg "crowsnest/redact/markdown"
	"crowsnest/replay"
	"crowsnest/rules"
)

var ten = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// hostile is text that an attacker who can write a log or a rule would like to
// see rendered.
const hostile = "x | y\n```\n</details><script>alert(1)</script> @everyone #12 [a](http://evil) ![](http://evil/p.png) `c` **b** www.evil.com \x1b[31m\u202e <!-- -->"

func rule(name, hash string) *rules.Rule {
	return &rules.Rule{Alert: name, Pack: "demo", File: "packs/demo.yaml", Line: 3, Severity: rules.SeverityWarning, Hash: hash, By: []string{"pod"}}
}

func alert(r *rules.Rule, pod, line string, minute int) replay.Alert {
	at := ten.Add(time.Duration(minute) * time.Minute)
	return replay.Alert{Fired: at, Episode: episodes.Episode{
		Rule: r, Alert: r.Alert, State: episodes.StateFiring, StartsAt: at, FiredAt: at, Line: redact.Text(line), First: redact.Text(line),
		Labels: map[string]string{"alertname": r.Alert, "severity": string(r.Severity), "resolves": "quiet", "pod": pod},
	}}
}

// side is a set of rules that raises these alerts, each from two lines.
func side(name string, all []*rules.Rule, alerts ...replay.Alert) Side {
	s := Side{Name: name, Set: &rules.Set{Rules: all}, Report: replay.Report{Alerts: alerts, Inputs: 1, Lines: 12345, Hits: int64(2 * len(alerts)), Start: ten, End: ten.Add(time.Hour)}}
	for _, r := range all {
		n := 0
		for _, a := range alerts {
			if a.Episode.Alert == r.Alert {
				n++
			}
		}
		s.Report.Rules = append(s.Report.Rules, replay.RuleReport{Rule: r, Lines: int64(2 * n), Alerts: n, Notifications: 2 * n})
	}
	return s
}

func TestVerdict(t *testing.T) {
	f := func(want string, before, after Side) Report {
		t.Helper()
		r := New(before, after, Options{Examples: 3})
		require.Equal(t, want, r.Verdict)
		return r
	}
	old, changed := rule("Lost", "1"), rule("Lost", "2")
	first := alert(old, "a", "lost", 0)
	r := f("Over 12,345 lines both sets raise the same 1 alert.", side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{old}, first))
	require.False(t, r.Changed)
	require.Empty(t, r.Rules)
	require.Len(t, New(side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{old}, first), Options{All: true}).Rules, 1)
	r = f("Over 12,345 lines neither set raises an alert; 1 new or changed rule matched none of these lines, so its effect is unknown.",
		side("o", []*rules.Rule{old}), side("n", []*rules.Rule{changed}))
	require.False(t, r.Changed)
	require.Equal(t, []string{"Lost"}, r.Unseen)
	require.Equal(t, []findings.Finding{{
		File: "packs/demo.yaml", Line: 3, Level: findings.Notice, Check: findings.NoLine, Rule: "Lost",
		Message: "Lost: changed; none of the lines matches it, so its effect is unknown",
	}}, r.Findings())
	r = f("Over 12,345 lines the alerts of 2 rules change: 2 more, 1 later; 6 notifications instead of 2.",
		side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{changed, rule("New", "3")},
			alert(changed, "a", "lost", 2), alert(changed, "b", "lost", 2), alert(rule("New", "3"), "b", "new", 5)))
	require.True(t, r.Changed)
	require.Equal(t, "changed; 1 more, 1 later", r.Rules[0].change())
	require.Equal(t, "2026-01-01T10:02:00Z (2m0s later) {pod=\"a\", severity=\"warning\"}", r.Rules[0].Examples[1].text())
	require.Equal(t, statusNew, r.Rules[1].Status)
	f("No line was read, so there is nothing to compare.", Side{Set: &rules.Set{}}, Side{Set: &rules.Set{}})
}

// A disabled rule is not reported as removed.
func TestStatus(t *testing.T) {
	off := rule("Lost", "2")
	off.Mode = rules.ModeOff
	on := rule("Lost", "1")
	without := side("n", nil)
	require.Equal(t, statusRemoved, New(side("o", []*rules.Rule{on}), without, Options{}).Rules[0].Status)
	without.Set.Rules = []*rules.Rule{off}
	require.Equal(t, statusOff, New(side("o", []*rules.Rule{on}), without, Options{}).Rules[0].Status)
	require.Equal(t, statusOn, New(without, side("o", []*rules.Rule{on}), Options{}).Rules[0].Status)
}

// A higher severity is a different notification for the person on call.
func TestRelabelled(t *testing.T) {
	old, changed := rule("Lost", "1"), rule("Lost", "1")
	changed.Severity = rules.SeverityCritical
	r := New(side("o", []*rules.Rule{old}, alert(old, "a", "lost", 0)), side("n", []*rules.Rule{changed}, alert(changed, "a", "lost", 0)), Options{Examples: 1})
	require.True(t, r.Changed)
	require.Equal(t, 1, r.Rules[0].Relabelled)
	require.Contains(t, r.Rules[0].Examples[0].text(), `(severity was "warning")`)
}

// reports are the outputs in each format.
func written(t *testing.T, r Report) (text, markdown, object string) {
	t.Helper()
	var a, b, c bytes.Buffer
	require.NoError(t, r.Text(&a))
	require.NoError(t, r.Markdown(&b))
	require.NoError(t, json.NewEncoder(&c).Encode(r))
	return a.String(), b.String(), c.String()
}

// hostileReport has hostile text in every line, label and name.
func hostileReport(text string) Report {
	old, changed := rule("Lost", "1"), rule("Lost"+text, "2")
	return New(
		side("old "+text, []*rules.Rule{old}, alert(old, text, text, 0)),
		side("new "+text, []*rules.Rule{changed, rule("Unseen"+text, "1")}, alert(changed, text, text, 0)), Options{Examples: 3})
}

var (
	opening = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
	// ours is the markup of the report itself.
	ours = strings.NewReplacer(marker, "", "### ", "", "**", "", "|---|---:|---:|", "", "|---|---|---:|---:|---:|", "", "<details><summary>", "", "</summary>", "",
		"</details>", "", "<sub>", "", "</sub>", "", "|", "")
	element = regexp.MustCompile(`<code>[^<]*</code>`)
)

// requireInert fails if anything outside fenced blocks could act as markup that
// the report did not write, or if a fence ends early.
func requireInert(t require.TestingT, markdown string) {
	fence, blocks := "", 0
	for l := range strings.SplitSeq(markdown, "\n") {
		if fence != "" {
			if rest := strings.TrimLeft(l, " "); strings.HasPrefix(rest, fence) && strings.Trim(rest, "` ") == "" {
				fence = ""
			} else {
				require.Regexp(t, `^[-+!] `, l, "a line of a block")
			}
			continue
		}
		if m := opening.FindStringSubmatch(l); m != nil {
			require.Equal(t, m[1]+"diff", l)
			fence = m[1]
			blocks++
			continue
		}
		rest := ours.Replace(strings.ReplaceAll(markdownpkg.Text(element.ReplaceAllString(l, "")), `\|`, ""))
		require.NotRegexp(t, "[<>\\[\\]`*~@#$\\\\|&\x00-\x1f]|(?:^|[^\\pL\\pN])_|_(?:[^\\pL\\pN]|$)|//|www\\.\\S", rest, "%q", l)
	}
	require.Empty(t, fence)
	require.Equal(t, blocks, strings.Count(markdown, "\n</details>\n"), "each block is folded")
}

func TestHostile(t *testing.T) {
	text, markdown, object := written(t, hostileReport(hostile))
	requireInert(t, markdown)
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.NotContains(t, object, `\u001b`)
	require.Contains(t, markdown, "@everyone", "in a block it is text")
	require.Contains(t, markdown, "````diff", "the fence is longer than any in the block")
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{hostile, "", "\n", "````\n````", "~~~", "   ```", "&amp;&#64;", strings.Repeat("`", 500), "\xff\x00", "|", "é\u2028", "</details>", "a.b: c@d", "x www"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, markdown, _ := written(t, hostileReport(s))
		requireInert(t, markdown)
	})
}

// The report is deterministic and never longer than a comment may be.
func TestBounds(t *testing.T) {
	many := func(hash string, shift int) Side {
		var all []*rules.Rule
		var alerts []replay.Alert
		for i := range 500 {
			r := rule(fmt.Sprintf("Rule%03d", i), hash)
			all = append(all, r)
			for pod := range 8 {
				alerts = append(alerts, alert(r, fmt.Sprintf("%s-%d", strings.Repeat("p", 250), pod), strings.Repeat("<`é", 600), i+shift*pod))
			}
		}
		return side(hash, all, alerts...)
	}
	r := New(many("1", 0), many("2", 1), Options{Examples: 5})
	text, markdown, object := written(t, r)
	require.LessOrEqual(t, len(markdown), maxMarkdown)
	require.Contains(t, markdown, "440 rules more.")
	require.Contains(t, markdown, "are omitted.")
	requireInert(t, markdown)
	again, markdownAgain, objectAgain := written(t, New(many("1", 0), many("2", 1), Options{Examples: 5}))
	require.Equal(t, text, again)
	require.Equal(t, markdown, markdownAgain)
	require.Equal(t, object, objectAgain)
	require.Equal(t, 5, len(r.Rules[0].Examples))
	require.Equal(t, 7, r.Rules[0].Later)
	require.Contains(t, text, "and 2 more")
}

// Labels are redacted where the lines are; here they are sanitised.
func TestLabelsAreSanitised(t *testing.T) {
	r := hostileReport("a\x1b[31mb")
	require.Equal(t, "ab", r.Rules[0].Examples[0].Alert.Labels["pod"])
	require.Equal(t, redact.Sanitise(r.Rules[0].Examples[0].Line), r.Rules[0].Examples[0].Line)
}
