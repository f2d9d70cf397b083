package shape

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each byte at each place of a UUID, and other lengths.
func TestIsUUID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	const uuid = "5b3c4c2e-8F3e-4A65-9d2e-0a8d5cf6a4a1"
	for i := range len(uuid) {
		require.False(t, IsUUID(uuid[:i]))
		for c := range 256 {
			b := []byte(uuid)
			b[i] = byte(c)
			require.Equal(t, form.Match(b), IsUUID(string(b)), "%q", b)
		}
	}
	require.False(t, IsUUID(uuid+"0"))
}
