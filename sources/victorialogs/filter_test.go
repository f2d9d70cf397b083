package victorialogs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/rangeread"
)

func TestFilterText(t *testing.T) {
	require.Equal(t, `~"got it, \\(now\\)"`, filterText(rangeread.Text{Text: "got it, (now)"}))
	require.Equal(t, "~\"ok 1\" or ~\"o\u212a 1\" or ~\"oK 1\" or ~\"Ok 1\" or ~\"O\u212a 1\" or ~\"OK 1\"", filterText(rangeread.Text{Text: "ok 1", Fold: true}))
}

// Every text that a regular expression without case matches contains one of the foldings.
func FuzzFoldings(f *testing.F) {
	f.Add("failed to renew lease", "FAILED to renew leaſe")
	f.Add("k8s", "\u212a8\u017f")
	f.Add(": metadata i/o er", ": MetaData I/O ER")
	f.Add("kkkkkk", "KkKkKk")
	f.Add("ß", "ẞ")
	f.Fuzz(func(t *testing.T, text, line string) {
		re, err := regexp.Compile("(?i)" + regexp.QuoteMeta(text))
		if err != nil {
			return
		}
		forms := foldings(strings.ToValidUTF8(text, ""))
		require.LessOrEqual(t, len(forms), maxVariants)
		if !re.MatchString(line) {
			return
		}
		found := false
		for _, form := range forms {
			found = found || strings.Contains(line, form)
		}
		require.True(t, found, "%q does not contain any of %q", line, forms)
	})
}
