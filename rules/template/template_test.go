package template

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/internal/expr"
)

func templateData() Data {
	return Data{
		Labels: map[string]string{"namespace": "capi", "pod": "manager-0", "instance": "10.0.0.1:8080", "n": "1234567"},
		Vars:   map[string]string{"condition": "Available", "Machine.name": "m-1", "seconds": "7200", "bad": "abc"},
		Value:  51,
		Line:   `E0101 "Failed to renew lease" err="timeout"`,
	}
}

func TestTemplateExecute(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		tm, err := Parse(src)
		require.NoError(t, err, src)
		require.Equal(t, src, tm.Source())
		got, ok := tm.Execute(templateData())
		require.True(t, ok, got)
		require.Equal(t, want, got, src)
	}
	f("", "")
	f("plain } text", "plain } text")
	f("{{ $labels.namespace }}/{{ $labels.pod }}", "capi/manager-0")
	f("a  {{- $labels.namespace -}}  b", "acapib")
	f("{{- $labels.namespace }}", "capi")
	f("{{/* a comment */}}x", "x")
	f("{{/* nothing */}}", "")
	f("[{{ $labels.missing }}{{ $vars.missing }}]", "[]")
	f("{{ $value }} lines: {{ $line }}", `51 lines: E0101 "Failed to renew lease" err="timeout"`)
	f("{{ $vars.Machine.name }}", "m-1")
	f(`{{ "{{" }}{{ 3 }}{{ true }}{{ 1.5 }}`, "{{3true1.5")

	f("{{ $labels.namespace | toUpper }}", "CAPI")
	f("{{ toLower $vars.condition }}", "available")
	f(`{{ "lost lease of x_y, isn't it" | title }}`, "Lost Lease Of X_y, Isn't It")
	f("{{ $labels.instance | stripPort }}{{ stripPort $labels.pod }}", "10.0.0.1manager-0")
	f(`{{ "[::1]:80" | stripPort }}`, "::1")
	f(`{{ reReplaceAll "-[0-9]+$" "" $labels.pod }}`, "manager")
	f(`{{ $labels.pod | reReplaceAll "(.*)-(.*)" "$2 of $1" }}`, "0 of manager")
	f(`{{ $labels.pod | reReplaceAll "" "." }}`, ".m.a.n.a.g.e.r.-.0.")
	f(`{{ if match "lease|leader" $line }}yes{{ else }}no{{ end }}`, "yes")
	f(`{{ $labels.n | humanize }} {{ $value | humanize }} {{ 0.0015 | humanize }}`, "1.235M 51 1.5m")
	f(`{{ $labels.n | humanize1024 }}`, "1.177Mi")
	f(`{{ $vars.seconds | humanizeDuration }} {{ humanizeDuration $value }}`, "2h 0m 0s 51s")
	f(`{{ 0.256 | humanizePercentage }}`, "25.6%")
	f(`{{ 1435065584.128 | humanizeTimestamp }}`, "2015-06-23 13:19:44.128 +0000 UTC")

	f(`{{ if gt $value 50 }}many{{ else if gt $value 1 }}some{{ else }}one{{ end }}`, "many")
	f(`{{ if gt $value 51.5 }}many{{ else if ge $value 51 }}some{{ else }}one{{ end }}`, "some")
	f(`{{ if eq $labels.namespace "a" "capi" }}yes{{ end }}`, "yes")
	f(`{{ if and (ne $labels.pod "") (not $labels.missing) }}yes{{ end }}`, "yes")
	f(`{{ if or $labels.missing $labels.pod }}{{ or $labels.missing "none" }}{{ end }}`, "none")
	f(`{{ if $labels.missing }}a{{ else }}{{ if lt "a" "b" }}b{{ end }}{{ end }}`, "b")
	f(`{{ len $labels.pod }}`, "9")
	f(`{{ printf "%5d|%-4s|%.1f|%q|%v|%%" $value "x" $value $labels.pod true }}`, `   51|x   |51.0|"manager-0"|true|%`)
	f(`{{ $value | printf "%03d" }}`, "051")
	f("{{ `raw` }}", "raw")
	f(`{{ ($labels.pod | toUpper) }}`, "MANAGER-0")
	f(`{{ "a" | printf "%s%s" $labels.pod | len }}`, "10")
}

func TestTemplateFailsWhileExecuted(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		tm, err := Parse(src)
		require.NoError(t, err, src)
		got, ok := tm.Execute(templateData())
		require.False(t, ok)
		require.Equal(t, want, got)
	}
	f("before {{ $vars.bad | humanize }}", `<error: humanize: "abc" is not a number>`)
	f("{{ $labels.missing | humanizeDuration }}", `<error: humanizeDuration: "" is not a number>`)
	f("{{ 1e300 | humanizeTimestamp }}", `<error: humanizeTimestamp: 1e+300 cannot be represented as a nanoseconds timestamp since it overflows int64>`)
}

func TestParseTemplateErrors(t *testing.T) {
	f := func(src string, offset int, message, fix string) {
		t.Helper()
		_, err := Parse(src)
		var se *expr.SyntaxError
		require.ErrorAs(t, err, &se, src)
		require.Contains(t, se.Message, message, src)
		require.Contains(t, se.Fix, fix, src)
		require.Equal(t, offset, se.Offset, "%s: %v", src, err)
	}
	f("a {{range 9223372036854775807}}{{end}}", 10, "range is not available", "use only if")
	f("a\nb {{with $value}}{{end}}", 11, "with is not available", "use only if")
	f(`a {{define "x"}}{{end}}`, 2, "cannot define", "")
	f(`a {{template "x"}}`, 13, "template is not available", "")
	f(`a {{block "x" .}}{{end}}`, 2, "cannot define", "")
	f("{{ $x := 1 }}", 3, "variables cannot be set", "")
	f("{{ $value = 1 }}", 3, "variables cannot be set", "")
	f("{{ if $x := $value }}{{ end }}", 6, "variables cannot be set", "")
	f("a\nb {{ $host }}", 4, `undefined variable "$host"`, "$labels.NAME")
	f("{{ $labels }}", 3, "not one value", "$labels.NAME")
	f("{{ $value.x }}", 9, "no fields", "$value")
	f("{{ $ }}", 3, "not available", "$labels.NAME")
	f("{{ . }}", 3, "no meaning", "$labels.NAME")
	f("{{ .Labels.pod }}", 10, "no meaning", "$labels.NAME")
	f("{{ ($labels.pod).x }}", 16, "no meaning", "")
	f("{{ nil }}", 3, "nil", "")
	f("{{ 'a' }}", 3, "character constant", "double quotes")
	f("{{ 1i }}", 3, "not available", "")
	f("{{ $labels.app-name }}", 0, "bad character", "named group")
	f("x {{ $labels.pod ", 2, "unclosed action", "close every")
	f("x {{ if $value }}", 2, "unexpected EOF", "{{ end }}")
	f("{{ end }}", 0, "unexpected {{end}}", "")
	f("{{ $labels.pod | $vars.x }}", 22, "is not a function", "toUpper")
	f("{{ $labels.pod $vars.x }}", 10, "not a function", "toUpper")
	f("{{ env \"HOME\" }}", 3, `no function "env"`, "toUpper")
	f("{{ call $labels.pod }}", 3, `no function "call"`, "")
	f("{{ index $labels.pod 1 }}", 3, `no function "index"`, "")
	f("{{ break }}", 0, "{{break}} outside", "")
	f("{{ toUpper }}", 3, "takes 1 arguments, not 0", "")
	f("{{ toUpper $value }}", 3, "needs text, but argument 1 is an integer", "printf")
	f("{{ $value | toUpper }}", 12, "needs text", "printf")
	f("{{ len $value }}", 3, "needs text", "")
	f("{{ humanize true }}", 3, "needs a number", "")
	f("{{ gt $labels.n 5 }}", 3, "compares text with an integer", "in quotes")
	f("{{ lt true false }}", 3, "cannot order true and false", "")
	f(`{{ eq (or $value "x") 5 }}`, 3, "more than one type", "")
	f("{{ eq $value }}", 3, "takes 2 arguments", "")
	f("{{ reReplaceAll $vars.p \"x\" $line }}", 3, "constant pattern", "quotes")
	f(`{{ match (printf "%s" $line) $line }}`, 3, "constant pattern", "")
	f(`{{ "a" | match $line }}`, 9, "constant pattern", "")
	f(`{{ match "a(" $line }}`, 3, "missing closing )", "")
	f(`{{ match "[\\pL]{1,900}z" $line }}`, 3, "too costly", "simpler")
	f(`{{ match "`+strings.Repeat("a", 1025)+`" $line }}`, 3, "longer than 1024", "")
	f(`{{ printf $line }}`, 3, "constant format", "")
	f(`{{ printf "%*d" 3 $value }}`, 3, "invalid verb", "width")
	f(`{{ printf "%[1]s" $line }}`, 3, "invalid verb", "")
	f(`{{ printf "%65d" $value }}`, 3, "a width of 65", "64")
	f(`{{ printf "%.99999999999999999999f" $value }}`, 3, "a width of 9", "64")
	f(`{{ printf "%d" }}`, 3, "1 verbs for 0 values", "")
	f(`{{ printf "%d" $line }}`, 3, "%d for a value that is text", "%v")
	f(`{{ printf "%s" $value }}`, 3, "%s for a value that is an integer", "%v")
	f(`{{ printf "%p" $line }}`, 3, "does not support %p", "")
	f(`{{ printf "100%" }}`, 3, "invalid verb", "")
	f(strings.Repeat("{{if $value}}", 60)+strings.Repeat("{{end}}", 60), 668, "nested deeper", "less nesting")
	f("{{"+strings.Repeat("(", 60)+"1"+strings.Repeat(")", 60)+"}}", 53, "nested deeper", "less nesting")
	f(strings.Repeat("a", maxSource+1), maxSource, "longer than", "shorter")
	f("a\xff{{ $value }}", 1, "not valid UTF-8", "")
}

// $error is the error that a rule captures or that the line states, without its middle.
func TestErrorOfALine(t *testing.T) {
	tm, err := Parse("{{ $labels.pod }} fails{{ if $error }}: {{ $error }}{{ end }}")
	require.NoError(t, err)
	require.True(t, tm.UsesError())
	require.Empty(t, tm.Vars())
	for want, d := range map[string]Data{
		"p fails":         {Vars: map[string]string{"reason": "x"}},
		"p fails: no":     {Vars: map[string]string{"err": "no", "error": "other"}, Error: "third"},
		"p fails: denied": {Error: "denied"},
		"p fails: begin" + strings.Repeat(".", 113) + "…" + strings.Repeat(".", 115) + "end": {Error: "begin" + strings.Repeat(".", 400) + "end"},
	} {
		d.Labels = map[string]string{"pod": "p"}
		out, ok := tm.Execute(d)
		require.True(t, ok)
		require.Equal(t, want, out)
	}
	_, err = Parse("{{ $error.x }}")
	require.ErrorContains(t, err, "has no fields")
}

func TestTemplateUses(t *testing.T) {
	f := func(src string, labels, vars []string, value, line bool) {
		t.Helper()
		tm, err := Parse(src)
		require.NoError(t, err)
		require.Equal(t, labels, tm.Labels())
		require.Equal(t, vars, tm.Vars())
		require.Equal(t, value, tm.UsesValue())
		require.Equal(t, line, tm.UsesLine())
	}
	f("text", nil, nil, false, false)
	f("{{ $labels.b }}{{ $labels.a | toUpper }}{{ $labels.b }}", []string{"a", "b"}, nil, false, false)
	f("{{ if eq $vars.x $labels.y }}{{ $vars.z_2 }}{{ else }}{{ $line }}{{ end }}", []string{"y"}, []string{"x", "z_2"}, false, true)
	f("{{ if false }}{{ $value }}{{ end }}", nil, nil, true, false)
	f("{{ (printf \"%s\" (toUpper $vars.a.b)) }}", nil, []string{"a.b"}, false, false)
}

func TestTemplateOutputIsBounded(t *testing.T) {
	f := func(src string) {
		t.Helper()
		tm, err := Parse(src)
		require.NoError(t, err)
		d := templateData()
		d.Line = strings.Repeat("ä€😀", 20_000)
		d.Labels["long"] = strings.Repeat("😀", 20_000)
		out, ok := tm.Execute(d)
		require.True(t, ok)
		require.True(t, utf8.ValidString(out))
		require.LessOrEqual(t, len(out), MaxOutput)
		require.Greater(t, len(out), MaxOutput-utf8.UTFMax)
	}
	f(strings.Repeat("é", MaxOutput))
	f("{{ $line }}")
	f("a{{ $line }}")
	f("ab{{ $labels.long }}{{ $line }}")
	f(`{{ $line | reReplaceAll "" "xxxxxxxxxxxxxxxxxxxxxxxx$0" | reReplaceAll "" "$0yyyyyyyyyyyyy" | reReplaceAll "." "$0$0$0$0$0$0" }}`)
	f(strings.Repeat("{{ $line }}", 1000))
	f(`{{ printf "%q%q%q%q" $line $line $line $line | toUpper }}`)
}

func TestTemplateRepairsUTF8(t *testing.T) {
	f := func(src, line, want string) {
		t.Helper()
		tm, err := Parse(src)
		require.NoError(t, err)
		out, _ := tm.Execute(Data{Line: line})
		require.Equal(t, want, out)
	}
	f("{{ $line }}", "a\xffb", "a\uFFFDb")
	f("{{ $line | toUpper }}", "a\xff", "A\uFFFD")
	f("{{ if $line }}x{{ end }}", "", "")
}

func TestTemplateIsSafeForConcurrentUse(t *testing.T) {
	tm, err := Parse(`{{ printf "%5.1f" $value }} {{ reReplaceAll "a(.)" "$1" $line }}`)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				out, ok := tm.Execute(Data{Value: 3, Line: "xabx"})
				require.True(t, ok)
				require.Equal(t, "  3.0 xbx", out)
			}
		})
	}
	wg.Wait()
	tm.Vars()
	require.Empty(t, tm.Labels())
}

func TestTemplatesOfConformancePacks(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/conformance/*.yaml")
	if len(files) == 0 {
		t.Skip("no conformance packs beside the repository")
	}
	action := regexp.MustCompile(`\{\{.*?\}\}`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, a := range action.FindAll(b, -1) {
			_, err := Parse(string(a))
			require.NoError(t, err, "%s: %s", name, a)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"text", "{{ $labels.a }}", `{{ if gt $value 3 }}a{{ else if not $line }}b{{ else }}c{{ end }}`,
		`{{ $line | reReplaceAll "(a)" "$1$1" | toUpper | printf "%5.3s" }}`, "{{ printf \"%d%%\" $value }}",
		`{{ and $vars.x.y (or "a" 1) | not }}`, "{{- 1 -}}", "{{ humanizeTimestamp 1e9 }}", `{{range 9}}{{end}}`, `{{define "a"}}{{end}}`,
	} {
		f.Add(s, "line aaa", int64(7))
	}
	f.Fuzz(func(t *testing.T, src, line string, value int64) {
		tm, err := Parse(src)
		if err != nil {
			var se *expr.SyntaxError
			require.True(t, errors.As(err, &se))
			require.True(t, se.Offset >= 0 && se.Offset <= len(src), "%d in %q", se.Offset, src)
			return
		}
		d := Data{Labels: map[string]string{"a": line}, Value: value, Line: line}
		out, ok := tm.Execute(d)
		require.LessOrEqual(t, len(out), MaxOutput)
		require.True(t, utf8.ValidString(out))
		if !ok {
			require.True(t, strings.HasPrefix(out, "<error: "))
			require.NotContains(t, out, "template:")
		}
		again, _ := tm.Execute(d)
		require.Equal(t, out, again)
	})
}

func BenchmarkTemplatePlain(b *testing.B) {
	tm, err := Parse("the leader lost its lease and has not taken it again")
	require.NoError(b, err)
	for b.Loop() {
		tm.Execute(Data{})
	}
}

func BenchmarkTemplate(b *testing.B) {
	tm, err := Parse("kube-controller-manager of {{ $labels.namespace }} lost its lease {{ $value }} times")
	require.NoError(b, err)
	d := templateData()
	b.ReportAllocs()
	for b.Loop() {
		tm.Execute(d)
	}
}

// TestFirstExecutionConcurrent executes templates for the first time, and after Release,
// in several goroutines.
func TestFirstExecutionConcurrent(t *testing.T) {
	tm, err := Parse(`{{ $vars.condition | toUpper }} {{ reReplaceAll "a(b)" "$1" $vars.bad }}`)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				out, ok := tm.Execute(templateData())
				if !ok || out != "AVAILABLE bc" {
					t.Errorf("%q", out)
				}
				tm.Release()
			}
		})
	}
	wg.Wait()
}
