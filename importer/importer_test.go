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
	for _, format := range []Format{CRE, Loki, PrometheusLogQL, NPD} {
		files, err := filepath.Glob(filepath.Join("testdata", string(format), "*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if ext := filepath.Ext(file); ext == ".yaml" || ext == ".json" {
				t.Run(filepath.Base(file), func(t *testing.T) { checkFile(t, format, file) })
			}
		}
	}
}

func checkFile(t *testing.T, format Format, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	base := strings.TrimSuffix(file, filepath.Ext(file))
	sample, err := os.ReadFile(base + ".log")
	if err != nil {
		sample = nil
	}
	r, err := Import(format, []File{{Name: filepath.Base(file), Data: data, Sample: sample}}, Options{Pack: "test"})
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
