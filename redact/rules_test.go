package redact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each expression of rules.txt compiles, and each row says where and how much.
func TestRules(t *testing.T) {
	for _, r := range newTokenRules() {
		require.Contains(t, []string{"any", "start", "apart"}, r.where, r.prefix)
		for _, like := range r.like {
			require.NotPanics(t, func() { like() }, r.prefix)
		}
		require.NotPanics(t, func() {
			if r.unlike != nil {
				r.unlike()
			}
		}, r.prefix)
	}
	require.Panics(t, func() { readRules("tokens word 20 any x_") })
	require.Panics(t, func() { number("x") })
}
