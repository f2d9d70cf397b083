package discover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waitLog returns lines about several objects, with a number of lines for each.
func waitLog(objects, lines int, every, apart time.Duration, text string) string {
	var b strings.Builder
	for o := range objects {
		for i := range lines {
			at := now.Add(-24*time.Hour + time.Duration(o)*apart + time.Duration(i)*every)
			fmt.Fprintf(&b, "%s stderr F I0101 10:00:00.0 1 a.go:1] %q Machine=\"ns/m-%d\" namespace=\"ns\" name=\"m-%d\"\n", at.Format(time.RFC3339), text, o, o)
		}
	}
	return b.String()
}

// A wait is a complaint only if it lasts: for the same object, without a pause.
func TestWaits(t *testing.T) {
	f := func(log string, want ...string) Report {
		t.Helper()
		r := find(t, nil, Options{}, input("a.log", log, nil))
		require.Equal(t, append([]string{}, want...), summary(r))
		return r
	}
	const text = "Waiting for the volume to be attached"
	f(waitLog(1, 5, time.Minute, 0, text))
	r := f(waitLog(1, 11, time.Minute, 0, text), "info 11 "+text)
	require.Equal(t, []string{"level info +2.2", "waits for 10m0s +1.5", "11 times +0.6"}, r.Patterns[0].Reasons)
	require.EqualValues(t, 11, r.Complaints)
	r = f(waitLog(100, 5, time.Minute, 5*time.Minute, text)) // each of them is short
	require.Zero(t, r.Complaints)
	f(waitLog(100, 60, time.Minute, 0, text), "info 6000 "+text)
	f(waitLog(1, 8, time.Hour, 0, text)) // a new wait each time
	f(waitLog(1, 60, time.Minute, 0, "Waiting for next event"))
	// Without timestamps, the count decides.
	f(strings.Repeat(text+"\n", stuckCount-1))
	f(strings.Repeat(text+"\n", stuckCount), "unknown 10 "+text)
}

// A retried failure is transient, unless the retries last long.
func TestRetries(t *testing.T) {
	const text = "attach failed, will retry"
	r := find(t, nil, Options{}, input("a.log", waitLog(1, 5, time.Minute, 0, text), nil))
	require.Contains(t, r.Patterns[0].Reasons, "tries again -0.5")
	r = find(t, nil, Options{}, input("a.log", waitLog(1, 50, time.Minute, 0, text), nil))
	require.NotContains(t, strings.Join(r.Patterns[0].Reasons, ", "), "tries again")
	r = find(t, nil, Options{}, input("a.log", waitLog(1, 50, time.Minute, 0, "sync failed: the object has been modified, will retry"), nil))
	require.Contains(t, r.Patterns[0].Reasons, "usually passes -1.0")
	r = find(t, nil, Options{}, input("a.log", "E0101 10:00:00.0 1 a.go:1] \"cannot answer\" err=\"write tcp 10.0.0.1:80->10.0.0.2:9: write: broken pipe\"\n", nil))
	require.Equal(t, []string{"level error +3.0", "words +1.5", "usually passes -1.0"}, r.Patterns[0].Reasons)
	r = find(t, nil, Options{}, input("a.log", "E0101 10:00:00.0 1 a.go:1] cannot repair the broken pipe of the bath\n", nil))
	require.Equal(t, []string{"level error +3.0", "words +1.5"}, r.Patterns[0].Reasons)
}
