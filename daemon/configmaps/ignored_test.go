package configmaps

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A namespace is no longer reported once its number of ConfigMaps is within the limit again.
func TestIgnoredConfigMaps(t *testing.T) {
	w := New(Settings{Selector: "rules"}, Options{})
	h := (*handler)(w)
	list := func(n int) (version uint64, files int) {
		h.Listing()
		for i := range n {
			object := fmt.Sprintf(`{"metadata": {"namespace": "a", "name": "rules-%d", "uid": "u%d"}, "data": {"p.yaml": ""}}`, i, i)
			require.NoError(t, h.Changed(json.RawMessage(object)))
		}
		h.Listed(t.Context())
		version, all := w.Files()
		return version, len(all)
	}
	before, files := list(maxConfigMaps + 1)
	require.Equal(t, maxConfigMaps+1, files)
	again, files := list(maxConfigMaps + 1)
	require.Equal(t, maxConfigMaps+1, files)
	require.Equal(t, before, again)
	list(maxConfigMaps)
	require.True(t, w.HasChanged(before))
	_, files = list(maxConfigMaps)
	require.Equal(t, maxConfigMaps, files)
}
