// Package language_test checks that inline tests can fail: each test of the
// packs in testdata/language-fail makes a false statement.
package language_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/replay"
	"crowsnest/rules"
)

func TestWrongTestsFail(t *testing.T) {
	set, err := rules.Load(os.DirFS("../../testdata/language-fail"))
	require.NoError(t, err)
	report, err := replay.RunTests(set.Rules, replay.TestOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, report.Results)
	for _, r := range report.Results {
		require.NotEmpty(t, r.Failures, "%s:%d: %s / %s is wrong, and passes", r.File, r.Line, r.Rule, r.Test)
	}
}
