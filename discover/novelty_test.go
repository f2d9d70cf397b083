package discover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// What begins late in a log that was quiet about it comes before what is always there, and the
// first of it before its consequences.
func TestNovelty(t *testing.T) {
	var log strings.Builder
	at := now.Add(-3 * time.Hour)
	write := func(text string) {
		fmt.Fprintf(&log, "%s stderr F E0101 10:00:00.0 1 a.go:1] %s\n", at.Format(time.RFC3339Nano), text)
	}
	for i := range 180 {
		at = at.Add(time.Minute)
		write("cannot feed the ant")
		write("unable to wash the bee")
		switch {
		case i >= 150:
			write("the door of the barn is broken")
		}
		if i >= 151 {
			write("failed to count the cows")
		}
	}
	labels := matcher.Labels{"namespace": "zoo", "pod": "a", "container": "keeper"}
	r := find(t, nil, Options{}, input("a", log.String(), labels))
	require.Contains(t, r.Patterns[0].Template, "door of the barn")
	require.Contains(t, strings.Join(r.Patterns[0].Why, "; "), "new after 2h30m0s of its component +2.0; the first of what is new +0.5")
	require.Contains(t, r.Patterns[1].Template, "count the cows")
	require.Contains(t, strings.Join(r.Patterns[2].Why, "; "), "all the time, for 2h58m0s -1.0")

	// A short excerpt proves nothing.
	text := strings.Split(log.String(), "\n")
	r = find(t, nil, Options{}, input("a", text[0]+"\n"+text[len(text)-2]+"\n", labels))
	for _, p := range r.Patterns {
		require.NotContains(t, strings.Join(p.Why, "; "), "new")
	}
}
