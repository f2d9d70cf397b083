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
	formats := []Format{CRE, Loki, PrometheusLogQL, NPD}
	for i, format := range formats {
		files, err := filepath.Glob(filepath.Join("testdata", string(format), "*"))
		require.NoError(f, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(i, data, []byte("a line\nqueue is full\n"))
		}
	}
	form := []string{"yaml-syntax", "unknown-key", "wrong-type", "missing-key", "duplicate-key", "no-value", "encoding", "bad-duration", "anchor", "tag", "rule-count"}
	f.Fuzz(func(t *testing.T, format int, data, sample []byte) {
		if format < 0 || format >= len(formats) {
			return
		}
		r, err := Import(formats[format], []File{{Name: "f", Data: data, Sample: sample}}, Options{Pack: "p"})
		require.NoError(t, err)
		for _, p := range r.Packs {
			_, problems := rules.Parse(rules.File{Name: "p.yaml", Data: p.Data})
			for _, problem := range problems {
				require.False(t, slices.Contains(form, problem.Check), "%s\n%s", problem, p.Data)
			}
		}
	})
}

// Whatever the query is, it is translated or refused.
func FuzzLogQL(f *testing.F) {
	f.Add(`sum by (a) (count_over_time({app="x"} |= "y" != "z" | json | b=~"c|d" and e >= 5 [5m])) > 3`)
	f.Add("absent_over_time({a=\"b\"} | pattern `<_> x <c>` | c=\"d\" [1h])")
	f.Fuzz(func(t *testing.T, query string) {
		r := &rule{alert: "X", severity: "warning"}
		if alertOf(query, r) == nil {
			_, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(packText("p", []string{r.text()}, []int{0}))})
			for _, problem := range problems {
				require.NotContains(t, []string{"yaml-syntax", "unknown-key", "wrong-type"}, problem.Check, "%s\n%s", problem, r.text())
			}
		}
	})
}
