package httpconfig

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfter(t *testing.T) {
	f := func(said, date string, want time.Duration) {
		t.Helper()
		require.Equal(t, want, RetryAfter(http.Header{"Retry-After": {said}, "Date": {date}}, 5*time.Minute))
	}
	f("", "", 0)
	f("7", "", 7*time.Second)
	f("-7", "", 0)
	f("999999999", "", 5*time.Minute)
	f("99999999999999", "", 0)
	f("Fri, 20 Nov 2026 12:00:30 GMT", "Fri, 20 Nov 2026 12:00:00 GMT", 30*time.Second)
	f("Fri, 20 Nov 2026 12:00:30 GMT", "", 0)
	f("soon", "", 0)
}
