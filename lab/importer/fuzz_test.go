package importer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// Whatever the file is, its import ends, and each pack is a file that the language can read: what
// is wrong with a rule is its meaning, never its form.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data, []byte("a line\nqueue is full\n"))
	}
	form := []string{"yaml-syntax", "unknown-key", "wrong-type", "missing-key", "duplicate-key", "no-value", "encoding", "bad-duration", "anchor", "tag", "rule-count"}
	f.Fuzz(func(t *testing.T, data, sample []byte) {
		r, err := Import([]File{{Name: "f", Data: data, Sample: sample}}, Options{Pack: "p"})
		require.NoError(t, err)
		for _, p := range r.Packs {
			_, problems := rules.Parse(rules.File{Name: "p.yaml", Data: p.Data})
			for _, problem := range problems {
				require.False(t, slices.Contains(form, problem.Check), "%s\n%s", problem, p.Data)
			}
		}
	})
}
