package inputs

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// People paste few lines.
func TestFewLines(t *testing.T) {
	all := sourcesOf(t)
	// One line does not show that a word stands before each.
	ambiguous := []string{"podman logs --names -t", "GitLab CI", "one pod, pasted from k9s", "Slack", "ansible"}
	for _, name := range []string{"autoscaler-conflict", "json"} {
		for _, n := range []int{1, 3} {
			lines := slices.DeleteFunc(slices.Clone(all[name]), func(l wrappedLine) bool { return l.pod != all[name][0].pod })[:n]
			for _, f := range append(append(forms[:len(forms):len(forms)], heldOut...), more...) {
				if n == 1 && slices.Contains(ambiguous, f.name) {
					continue
				}
				in, _, err := Collect([]string{write(t, filepath.Join(t.TempDir(), "x"), f.wrap(lines))}, Options{Unpack: t.TempDir()})
				got, pods := "", true
				for _, i := range in {
					rc, err := i.Open()
					require.NoError(t, err)
					b, err := io.ReadAll(rc)
					require.NoError(t, err)
					got += strings.ReplaceAll(string(b), "\r\n", "\n")
					pods = pods && (f.unplaced || f.around > 0 || i.StreamLabels()["pod"] == lines[0].pod)
				}
				ok := err == nil && pods
				for _, l := range lines {
					ok = ok && (strings.Contains(got, "\n"+l.text+"\n") || strings.HasPrefix(got, l.text+"\n") || strings.Contains(got, "F "+l.text+"\n"))
				}
				if !ok {
					t.Errorf("%d lines of %s as %s: %v\n%.160s\n%.160s", n, name, f.name, err, f.wrap(lines), got)
				}
			}
		}
	}
}
