package show

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lists that are written one element after the other look like those of one value.
func TestMembers(t *testing.T) {
	type file struct {
		Name string   `json:"name"`
		Of   []string `json:"of,omitempty"`
	}
	f := func(a, b any) {
		t.Helper()
		var got, want bytes.Buffer
		require.NoError(t, writeMembers(&got, []member{{"a", a}, {"b", b}}))
		require.NoError(t, JSON(&want, map[string]any{"a": a, "b": b}, true))
		require.Equal(t, want.String(), got.String())
	}
	f(nil, []file{})
	f([]file(nil), []file{{"<x>", []string{"1", "2"}}})
	f([]file{{"x\n", nil}, {"", []string{"1"}}}, []int{1, 2})
}
