package rules

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSchemaBesideThePacks keeps the file that editors read as the generator
// makes it: crowsnest schema rules > rules/packs/schema.json.
func TestSchemaBesideThePacks(t *testing.T) {
	want, err := Schema()
	require.NoError(t, err)
	got, err := os.ReadFile("packs/schema.json")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}
