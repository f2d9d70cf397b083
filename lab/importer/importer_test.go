package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each file of testdata has what becomes of its rules beside it: the outcomes, then the packs.
// UPDATE_SNAPSHOTS=1 writes it again.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkFile(t, file) })
	}
}

func checkFile(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	base := strings.TrimSuffix(file, filepath.Ext(file))
	sample, err := os.ReadFile(base + ".log")
	if err != nil {
		sample = nil
	}
	r, err := Import([]File{{Name: filepath.Base(file), Data: data, Sample: sample}}, Options{Pack: "test"})
	require.NoError(t, err)
	got := snapshot(r)
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile(base+".out", []byte(got), 0o600))
	}
	want, err := os.ReadFile(base + ".out")
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func snapshot(r Result) string {
	var b strings.Builder
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "%s %s:%d:%d %s %s\n", o.Status, o.File, o.Line, o.Column, o.ID, o.Alert)
		for _, reason := range o.Reasons {
			fmt.Fprintf(&b, "    %s\n", reason)
		}
	}
	for _, p := range r.Packs {
		fmt.Fprintf(&b, "\n%s", p.Data)
	}
	return b.String()
}
