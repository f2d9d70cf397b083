package redact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHintsMissNothing: the windows have all places at which a sign can matter.
func TestHintsMissNothing(t *testing.T) {
	h, missed := known().hints, 0
	for own, class := range newClasses() {
		for next := 0; class != 0 && next < 256; next++ {
			for before := range 256 {
				if mayMatter(class, byte(before), byte(own), byte(next)) && !h.signs.has(h.window(h.codes[before], byte(own), byte(next))) {
					missed++
				}
			}
		}
	}
	require.Zero(t, missed)
}
