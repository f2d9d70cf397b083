package pause

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	for failures, most := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 5, 5: 5, 1 << 40: 5} {
		for range 20 {
			d := Backoff(time.Second, 5*time.Second, failures)
			require.GreaterOrEqual(t, d, most*time.Second*3/5)
			require.LessOrEqual(t, d, most*time.Second)
		}
	}
	require.Zero(t, Jitter(0))
}
