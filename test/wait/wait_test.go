package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		require.True(t, Until(0, func() bool { return true }), "it is asked at least once")
		require.True(t, Until(time.Second, func() bool { asked++; return asked == 4 }))
		require.Equal(t, 150*time.Millisecond, time.Since(began))
		require.False(t, Until(time.Second, func() bool { return false }))
		require.Equal(t, 1150*time.Millisecond, time.Since(began))
		end := time.Now().Add(time.Second)
		require.True(t, Until(time.Second, func() bool { return !time.Now().Before(end) }), "it is asked at the end")
	})
}

func TestNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		broken := errors.New("broken")
		require.NoError(t, NoError(t.Context(), time.Second, func() error {
			if asked++; asked < 3 {
				return broken
			}
			return nil
		}))
		require.Equal(t, 40*time.Millisecond, time.Since(began))
		require.ErrorIs(t, NoError(t.Context(), time.Second, func() error { return broken }), broken)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, NoError(ctx, time.Hour, func() error { return broken }), broken)
		began = time.Now()
		Pause(ctx, time.Hour)
		require.Zero(t, time.Since(began), "ctx has ended")
		Pause(t.Context(), time.Hour)
		require.Equal(t, time.Hour, time.Since(began))
	})
}
