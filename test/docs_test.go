package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/replay"
	"crowsnest/rules"
)

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every pack that the documents show can be loaded and passes its tests.
func TestPacksInDocs(t *testing.T) {
	docs, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	packs := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "pack:") {
				continue
			}
			packs++
			d, problems := rules.Parse(rules.File{Name: filepath.Base(doc), Data: []byte(m[1])})
			require.Empty(t, problems)
			set, problems := rules.Build([]*rules.Document{d}, rules.Options{Shipped: true})
			require.Empty(t, problems)
			report, err := replay.RunTests(set.Rules, replay.TestOptions{})
			require.NoError(t, err)
			require.NotEmpty(t, report.Results)
			require.Zero(t, report.Failed(), "%v", report.Results)
		}
	}
	require.NotZero(t, packs)
}
