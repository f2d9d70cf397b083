package discover

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func addLines(f *testing.F) {
	data, err := os.ReadFile("testdata/lines.log")
	require.NoError(f, err)
	for line := range strings.Lines(string(data)) {
		f.Add(strings.TrimRight(line, "\n"))
	}
	f.Add("")
	f.Add("E0101 10:00:00.0 1 a.go:1] \"x\" err=<")
	f.Add("login failed: password=<redacted> again")
	f.Add(`"<num> <*> "a" "" \" 'x' :: / * // .. --`)
}

// Parsing any input terminates within bounds, and spans cover the text without
// gaps.
func FuzzRead(f *testing.F) {
	addLines(f)
	f.Fuzz(func(t *testing.T, line string) {
		var r lineReader
		got := r.readLine(line)
		require.LessOrEqual(t, len(got.Message), maxMessage)
		require.LessOrEqual(t, len(got.Error), maxError)
		at := 0
		for _, s := range spans(nil, line) {
			require.Equal(t, at, s.start)
			require.Greater(t, s.end, s.start)
			at = s.end
		}
		require.Equal(t, len(line), at)
		masked := string(maskText(line))
		require.NotContains(t, masked, "\n")
		continuation(line)
	})
}

// A proposal matches its line, also with other values.
func FuzzPropose(f *testing.F) {
	addLines(f)
	f.Fuzz(func(t *testing.T, line string) {
		for _, p := range Propose(line) {
			require.True(t, utf8.ValidString(p.Line))
			require.NotEmpty(t, p.Texts)
			require.True(t, p.containsTexts(p.Line))
			if p.Object != "" {
				require.Equal(t, p.Value, p.valueIn(p.Line))
			}
			if p.OtherLine != "" {
				require.True(t, p.containsTexts(p.OtherLine))
				require.True(t, p.Object == "" || p.OtherValue != p.Value)
			}
		}
	})
}
