package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutTests(t *testing.T) {
	const pack = "pack: {name: p, rules: 2, tests: 12, version: 1.0.0}\nrules:\n- alert: A\n  tests:\n  - name: x\n\n  # a comment\n    input: [{at: 0s}]\n  severity: info\n# of B\n- alert: B\n  tests: []\n"
	require.Equal(t,
		"pack: {name: p, rules: 2, version: 1.0.0}\nrules:\n- alert: A\n\n\n\n\n\n  severity: info\n# of B\n- alert: B\n\n",
		string(withoutTests([]byte(pack))))
}
