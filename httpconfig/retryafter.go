package httpconfig

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns how long a response asks the client to wait, between 0 and limit. It
// accepts both forms of the header Retry-After (RFC 9110, 10.2.3). It compares a date with the
// date of the response, so the local clock does not matter. It returns 0 if the header is
// missing or invalid.
func RetryAfter(h http.Header, limit time.Duration) time.Duration {
	said := h.Get("Retry-After")
	d := time.Duration(0)
	if n, err := strconv.ParseInt(said, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(said); err == nil {
		if from, err := http.ParseTime(h.Get("Date")); err == nil {
			d = at.Sub(from)
		}
	}
	return min(max(d, 0), limit)
}
