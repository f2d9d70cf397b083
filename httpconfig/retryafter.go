package httpconfig

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns how long an answer asks to wait, in either form of its
// header Retry-After (RFC 9110, 10.2.3), from 0 to most. A date is compared with
// that of the answer, so that no clock of ours matters; 0 means that nothing
// readable was said.
func RetryAfter(h http.Header, most time.Duration) time.Duration {
	said := h.Get("Retry-After")
	d := time.Duration(0)
	if n, err := strconv.ParseInt(said, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(said); err == nil {
		if from, err := http.ParseTime(h.Get("Date")); err == nil {
			d = at.Sub(from)
		}
	}
	return min(max(d, 0), most)
}
