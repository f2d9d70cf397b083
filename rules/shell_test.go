package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellWords(t *testing.T) {
	f := func(text string, words int, problem string) {
		t.Helper()
		w := parseShell(text)
		require.Equal(t, words, w.words, text)
		require.Equal(t, problem, w.problem, text)
	}
	f("", 0, "")
	f("kubectl get pods -n 'a b' \"c d\" e\\ f", 7, "")
	f("a|b;c&&d # e f", 4, "")
	f(`a "$(b 'c d' | e)" f`, 6, "")
	f("a `b c` d", 5, "")
	f("kubectl get x -o jsonpath='{.a}{\"\\n\"}' | jq '.[] | {a, b}'", 7, "")
	f("echo {a,b} a{b}", 3, "")
	f("{ a; b; }", 2, "")
	f("a 'b", 2, "a quote is not closed")
	f(`a "b`, 2, "a quote is not closed")
	f("a $(b", 3, "a substitution is not closed")
	f("cat <<X", 2, "here-documents are not understood")
}

func TestShellPlaces(t *testing.T) {
	f := func(text string, want ...shellPlace) {
		t.Helper()
		require.Equal(t, want, parseShell(strings.ReplaceAll(text, "V", string(shellMark))).places, text)
	}
	f("a V --b=V", shellPlace{}, shellPlace{})
	f("V", shellPlace{command: true})
	f("A=V sudo V", shellPlace{}, shellPlace{command: true})
	f("a | V; b $(V)", shellPlace{command: true}, shellPlace{command: true})
	f(`a 'V*' "V" V*`, shellPlace{quoted: true}, shellPlace{quoted: true}, shellPlace{glob: true})
	f("a # V", shellPlace{comment: true})
	f("a >V", shellPlace{redirect: true})
	f("bash -c 'a V'", shellPlace{code: true, quoted: true})
	f("kubectl logs -c V", shellPlace{})
	f("kubectl exec x -- /bin/sh -c 'V'", shellPlace{code: true, quoted: true})
}

// A step keeps the number of its words whatever its values are.
func FuzzStepWords(f *testing.F) {
	step := `a {{ $labels.v }} 'b {{ $labels.v }}' "c {{ $labels.v }}" $(d {{ $labels.v }}) --e={{ $labels.v }} {{ $labels.v | toLower }}{{ $vars.v }} # {{ $labels.v }}`
	tm, err := ParseTemplate(step)
	require.NoError(f, err)
	marked, _ := tm.withMarks("x")
	want := parseShell(marked)
	require.Empty(f, want.problem)
	r := Remediation{Steps: []*Template{tm}}
	plain := func(s string) string { return strings.Map(printable, s) }
	for _, s := range []string{"a", "", "a b", "a;b", "$(a)", "'", `"`, "`", "\n", "-a", "a{b", "#", "\\", "a\n2. b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		text, _ := r.Text(TemplateData{Labels: map[string]string{"v": v}, Vars: map[string]string{"v": v}}, plain)
		line, rest, _ := strings.Cut(strings.TrimPrefix(text, "1. "), "\n")
		got := parseShell(line)
		require.Empty(t, got.problem)
		if line != failedStep {
			// Two values side by side may be kept apart by a space.
			require.Contains(t, []int{want.words, want.words + 1}, got.words, line)
		}
		require.Empty(t, parseShell(rest).problem, rest)
		for _, more := range strings.Split(rest, "\n") {
			require.True(t, more == "" || strings.HasPrefix(more, "UNSAFE_VALUE_"), more)
		}
	})
}

func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}
