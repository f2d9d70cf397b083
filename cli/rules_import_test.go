package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/importer"
)

// The files of the importer's own tests become packs that pass their check and their tests.
func TestImportedPacksPass(t *testing.T) {
	files, err := filepath.Glob("../lab/importer/testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		sample, err := os.ReadFile(strings.TrimSuffix(file, filepath.Ext(file)) + ".log")
		if err != nil {
			sample = nil
		}
		in := []importer.File{{Name: file, Data: data, Sample: sample}}
		free, err := importer.Import(in, importer.Options{Pack: "test"})
		require.NoError(t, err)
		tried, err := importer.Import(in, importer.Options{Pack: "test", Try: tryRules})
		require.NoError(t, err)
		for i, o := range tried.Outcomes {
			require.Equal(t, free.Outcomes[i].Alert, o.Alert, o.Reasons)
		}
	}
}

// A rule that fails is taken out of its pack, with the reason.
func TestTryRules(t *testing.T) {
	trial, err := tryRules([]byte(`pack: {name: a, rules: 3}
rules:
- alert: Good
  from: '{container="a"}'
  match: "broken pipe"
  severity: warning
- alert: BadRegex
  from: '{container="a"}'
  match: {regex: "a("}
  severity: warning
- alert: BadKey
  from: '{container="a"}'
  match: "broken pipe"
  by: [trace_id]
  severity: warning
`))
	require.NoError(t, err)
	require.Len(t, trial.Failed, 2)
	require.Contains(t, trial.Failed["BadRegex"], "crowsnest refuses the rule")
	require.Contains(t, trial.Failed["BadKey"], "every line would raise an alert")

	trial, err = tryRules([]byte(`pack: {name: a}
rules:
- alert: Fails
  from: '{container="a"}'
  match: "broken pipe"
  severity: warning
  tests:
  - name: fires
    stream: {container: a}
    input: [{at: 0s, line: "all is well"}]
    expect: [{at: 1s, firing: [{alertname: Fails}]}]
`))
	require.NoError(t, err)
	require.Contains(t, trial.Failed["Fails"], `its test "fires" fails`)

	_, err = tryRules([]byte("pack: ["))
	require.Error(t, err)
}

// The files of a mounted ConfigMap are links; each is read once.
func TestImportConfigMap(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "..2026_03_01")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "a.yaml"), []byte("{}"), 0o600))
	require.NoError(t, os.Symlink("..2026_03_01", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	require.NoError(t, os.Symlink("nothing", filepath.Join(dir, "b.yaml")))
	files, err := (&cli{}).importFiles([]string{dir})
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, filepath.Join(dir, "a.yaml"), files[0].Name)
}
