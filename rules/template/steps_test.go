package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/internal/shell"
)

// A step keeps the number of its words whatever its values are.
func FuzzStepWords(f *testing.F) {
	step := `a {{ $labels.v }} 'b {{ $labels.v }}' "c {{ $labels.v }}" $(d {{ $labels.v }}) --e={{ $labels.v }} {{ $labels.v | toLower }}{{ $vars.v }} # {{ $labels.v }}`
	tm, err := Parse(step)
	require.NoError(f, err)
	marked, _ := tm.WithMarks("x")
	want := shell.Parse(marked)
	require.Empty(f, want.Problem)
	plain := func(s string) string { return strings.Map(printable, s) }
	for _, s := range []string{"a", "", "a b", "a;b", "$(a)", "'", `"`, "`", "\n", "-a", "a{b", "#", "\\", "a\n2. b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		text, _ := Text(nil, []*Template{tm}, Data{Labels: map[string]string{"v": v}, Vars: map[string]string{"v": v}}, plain)
		line, rest, _ := strings.Cut(strings.TrimPrefix(text, "1. "), "\n")
		got := shell.Parse(line)
		require.Empty(t, got.Problem)
		if line != failedStep {
			// Two values side by side may be kept apart by a space.
			require.Contains(t, []int{want.Words, want.Words + 1}, got.Words, line)
		}
		require.Empty(t, shell.Parse(rest).Problem, rest)
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
