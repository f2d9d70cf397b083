package web

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every page has a template that can be parsed.
func TestPagesParse(t *testing.T) {
	for name, parse := range newPages(readAssets) {
		require.NotPanics(t, func() { parse() }, name)
	}
}
