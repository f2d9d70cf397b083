package daemon

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is put together by hand is what the package would make.
func TestSnapshotIsJSON(t *testing.T) {
	f := func(s snapshot) {
		t.Helper()
		want, err := json.Marshal(s)
		require.NoError(t, err)
		got, err := s.encode()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	none, some := map[string]json.RawMessage{}, map[string]json.RawMessage{"b": json.RawMessage(`{"x":[1]}`), "a\"<": json.RawMessage(`1`), "none": nil}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	f(snapshot{Version: 1, Saved: at, Sources: none})
	f(snapshot{Version: 1, Saved: at, Engine: json.RawMessage(`{"e":2}`), Sources: some, Sinks: none, Self: json.RawMessage(`{"seen":1}`)})
	f(snapshot{Version: 1, Saved: at, Engine: json.RawMessage(`{"e":2}`), Sources: none, Sinks: some})
}
