package discover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// What begins late in a log that was quiet about it comes before what is always there.
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
		if i >= 150 {
			write("the door of the barn is broken")
		}
		if i >= 151 {
			write("failed to count the cows")
		}
	}
	labels := matcher.Labels{"namespace": "zoo", "pod": "a", "container": "keeper"}
	r := find(t, nil, Options{}, input("a", log.String(), labels))
	require.Contains(t, r.Patterns[0].Template, "door of the barn")
	require.Contains(t, strings.Join(r.Patterns[0].Reasons, "; "), "new in the log of its component +2.0")
	require.Contains(t, r.Patterns[1].Template, "count the cows")

	// A short excerpt proves nothing.
	text := strings.Split(log.String(), "\n")
	r = find(t, nil, Options{}, input("a", text[0]+"\n"+text[len(text)-2]+"\n", labels))
	for _, p := range r.Patterns {
		require.NotContains(t, strings.Join(p.Reasons, "; "), "new")
	}
}

// Without times, or with those of a moment, the lines of the component are the clock.
func TestNoveltyByLines(t *testing.T) {
	const text = "E0101 10:00:00.0 1 a.go:1] "
	log := func(n int, rare, late, often string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(text + often + "\n" + "I0101 10:00:00.0 1 a.go:1] counted the cows\n")
			if i%(n/4) == n/4-1 {
				b.WriteString(text + rare + "\n")
			}
			if i == n*3/4 {
				b.WriteString(text + late + "\n")
			}
		}
		return b.String()
	}
	why := func(n int, labels matcher.Labels) map[string]string {
		out := map[string]string{}
		for _, p := range find(t, nil, Options{}, input("a", log(n, "cannot feed the ant", "the door of the barn is broken", "unable to wash the bee"), labels)).Patterns {
			out[string(p.Template)] = strings.Join(p.Reasons, "; ")
		}
		return out
	}
	labels := matcher.Labels{"namespace": "zoo", "pod": "a", "container": "keeper"}
	of := why(1000, labels)
	require.Contains(t, of["the door of the barn is broken"], "new in the log of its component +2.0")
	require.NotContains(t, of["cannot feed the ant"], "new", "it is rare, and begins late by chance")
	require.Contains(t, of["unable to wash the bee"], "all the time -1.0; so its lines do not count -1.8")
	require.NotContains(t, of["cannot feed the ant"], "all the time")

	// A short excerpt proves nothing.
	for template, text := range why(80, labels) {
		require.NotContains(t, text, "new", template)
		require.NotContains(t, text, "all the time", template)
	}
}
