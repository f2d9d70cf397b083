package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests that arrive during a reload share the next one, with its outcome.
func TestReloadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		h := newReloads(func(context.Context) error {
			n := runs.Add(1)
			<-time.After(100 * time.Millisecond)
			if n == 2 {
				return errors.New("the second fails")
			}
			return nil
		})
		ask := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", "/-/reload", nil))
			return w.Code
		}
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { require.Equal(t, http.StatusOK, ask()) })
		synctest.Wait()
		for range 50 {
			wg.Go(func() { require.Equal(t, http.StatusBadRequest, ask()) })
		}
		wg.Wait()
		require.EqualValues(t, 2, runs.Load())
		require.Equal(t, 300*time.Millisecond, time.Since(began), "it rests between two")
		require.Equal(t, http.StatusOK, ask())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/-/reload", nil).WithContext(ctx))
		<-time.After(time.Second)
		require.EqualValues(t, 4, runs.Load(), "a request that was accepted is carried out")
	})
}
