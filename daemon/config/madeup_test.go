package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/madeup"
)

// withMadeUp returns a configuration that knows a further source and a further sink.
func withMadeUp() *config.Config {
	cfg := config.Default()
	cfg.Sources.Kinds = append(cfg.Sources.Kinds, madeup.Tape())
	cfg.Sinks.Kinds = append(cfg.Sinks.Kinds, madeup.Bell())
	return cfg
}

// A new kind needs one entry to be in the schema, in checks and in documents.
func TestMadeUpKinds(t *testing.T) {
	schema, err := withMadeUp().Schema()
	require.NoError(t, err)
	require.Contains(t, string(schema), `"tape": {`)
	require.Contains(t, string(schema), `"lines_file"`)
	require.Contains(t, string(schema), `"bell": {`)

	page := configurationPage(t, withMadeUp())
	require.Contains(t, page, "### `tape`")
	require.Contains(t, page, "| `lines_file` | text, **required** | The file with the lines. |")
	require.Contains(t, page, "| `torn` (tape) | The tape is torn. Glue it. |")
	require.Contains(t, page, "| `volume` | number, 1 to 10 | Its volume; `name` does not matter. |")

	dir := t.TempDir()
	file := filepath.Join(dir, "c.yml")
	f := func(text string, want ...string) *config.Config {
		t.Helper()
		cfg := withMadeUp()
		var got []string
		problems := cfg.Decode(file, []byte(text))
		if len(problems) == 0 {
			problems = append(cfg.CheckFiles(), cfg.WarnLinks()...)
		}
		for _, p := range problems {
			got = append(got, p.Message)
		}
		require.Equal(t, want, got)
		return cfg
	}
	const good = "sources: {tape: [{lines_file: lines}, {lines_file: lines}]}\nsinks: {bell: {volume: 3}}\n"
	f(good, "open "+dir+"/lines: no such file or directory", "open "+dir+"/lines: no such file or directory",
		"alerts have no link to the page that explains them: global.external_url is not set")
	require.NoError(t, os.WriteFile(dir+"/lines", []byte("x\n"), 0o600))
	cfg := f("global: {external_url: 'https://x'}\n" + good)
	require.Contains(t, cfg.FormatEffective(), "  tape:\n  - lines_file: \""+dir+"/lines\"\n  - lines_file: \""+dir+"/lines\"\n")
	require.Contains(t, cfg.FormatEffective(), "  bell:\n    volume: 3\n")
	require.Equal(t, "tape-2", cfg.Sources.All[1].Name)

	f("sources: {tapes: {lines_file: lines}}\n", "unknown key `tapes`")
	f("sources: {tape: {}}\n", "`tape` lacks `lines_file`")
	f("sources: {tape: {lines_file: lines}}\nsinks: {bell: {volume: 11}}\n", "`volume` is 11; allowed are 1 to 10")
	f("sources: {tape: {lines_file: lines, labels: {side: b}}}\n", "labels: a tape has one side")
	f("sources: {tape: [{lines_file: lines}, {lines_file: lines, name: tape}]}\n", `two sources have the name "tape"`)
	f("sources: {kubelet: {}}\nsinks: {bell: [{volume: 3}]}\n", "`bell` is a list, but must be a mapping")
}
