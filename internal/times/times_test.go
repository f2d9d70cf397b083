package times

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEarlierAndLater(t *testing.T) {
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	require.Equal(t, a, Earlier(a, b))
	require.Equal(t, a, Earlier(b, a))
	require.Equal(t, b, Later(a, b))
	require.Equal(t, b, Later(b, a))
	require.Equal(t, time.Time{}, Earlier(a, time.Time{}), "the zero time is the earliest")
}
