package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/loader"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/unknown/discover"
)

// The rule for any pasted line passes its tests and check, with warnings and as a shipped rule,
// and each part of the rule has a test.
func TestRuleOfEveryLine(t *testing.T) {
	data, err := os.ReadFile("../unknown/discover/testdata/lines.log")
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		n++
		line = redact.New(nil).String(string(matcher.TextOf([]byte(strings.TrimSuffix(line, "\n")))))
		for _, s := range []discover.RuleSkeleton{{}, {Alert: "GivenName", Label: "app", Value: `a"'b`, Severity: "info"}, {Label: "unit", Value: "k3s.service"}} {
			made, err := discover.FirstPassing(discover.Propose(line), s, tryNew)
			require.NoError(t, err, line)
			pack := discover.Skeleton("local", []discover.RuleSkeleton{made})
			docs, problems := loader.ParseFiles([]rules.File{{Name: "new.yaml", Data: []byte(pack)}})
			require.Empty(t, problems)
			set, problems := loader.BuildSet(docs, rules.Options{})
			require.Empty(t, problems)
			report, err := replay.RunTests(set.Rules, replay.TestOptions{Mutate: true})
			require.NoError(t, err)
			require.Zero(t, report.Failed(), pack)
			require.Empty(t, report.Survivors, pack)
		}
	}
	require.GreaterOrEqual(t, n, 30)
}
