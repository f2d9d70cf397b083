package reference

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const committed = "../../../docs/language.md"

// The page in the repository equals the generated one.
func TestLanguagePage(t *testing.T) {
	want, err := Language()
	require.NoError(t, err)
	got, err := os.ReadFile(committed)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run make docs")
}
