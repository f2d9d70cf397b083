package times

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEarlierAndLater(t *testing.T) {
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	require.Equal(t, a, Min(a, b))
	require.Equal(t, a, Min(b, a))
	require.Equal(t, b, Max(a, b))
	require.Equal(t, b, Max(b, a))
	require.Equal(t, time.Time{}, Min(a, time.Time{}), "the zero time is the earliest")
}
