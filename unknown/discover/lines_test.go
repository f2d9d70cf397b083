package discover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// lines returns the lines of testdata/lines.log; each is preceded by its name.
func lines(t *testing.T) (names, texts []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/lines.log")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			names = append(names, name)
		} else {
			texts = append(texts, line)
		}
	}
	require.Len(t, texts, len(names))
	return names, texts
}

// How a line of each format is parsed, and which rule it suggests.
func TestLines(t *testing.T) {
	names, texts := lines(t)
	var got strings.Builder
	for i, line := range texts {
		line = string(matcher.TextOf([]byte(line)))
		var r lineReader
		reading := r.readLine(line)
		fmt.Fprintf(&got, "# %s\nlevel    %s\nmessage  %s\n", names[i], reading.Level, reading.Message)
		fmt.Fprintf(&got, "template %s\n", maskText(reading.Message))
		if reading.Error != "" {
			fmt.Fprintf(&got, "error    %s\n         %s\n", reading.Error, maskText(reading.Error))
		}
		proposals := Propose(line)
		require.NotEmpty(t, proposals, line)
		p := proposals[0]
		fmt.Fprintf(&got, "texts    %q\n", p.Texts)
		if p.Object != "" {
			fmt.Fprintf(&got, "object   %s=%s, other %s, by %s%s %s\n", p.Object, p.Value, p.OtherValue, p.Field, p.FieldRegex, p.Regex)
		}
		fmt.Fprintf(&got, "other    %s\n\n", p.OtherLine)
		for _, p := range proposals {
			require.True(t, p.containsTexts(p.Line))
			require.True(t, p.OtherLine == "" || p.containsTexts(p.OtherLine))
		}
	}
	golden(t, "testdata/lines.want", got.String())
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	path = filepath.FromSlash(path)
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
