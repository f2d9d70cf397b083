package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The quick check never hides an opener from the expression.
func TestMayOpen(t *testing.T) {
	part := rapid.SampledFrom(append([]string{":", ".", " ", "_", "x", "www", "WwW", "ſms", "\u212a", "é", "\xff", "T", "eL", "S", "kype"}, schemes...))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(part).Draw(t, "parts"), "")
		if opener.MatchString(s) {
			require.True(t, mayOpen(s), "%q", s)
		}
	})
}

func BenchmarkInert(b *testing.B) {
	line := `E1120 10:00:00.123456       1 controller.go:329] "Reconciler error" err="failed to patch: Operation cannot be fulfilled on machines \"a\": the object has been modified" controller="machine"`
	for b.Loop() {
		Inert(line)
	}
}
