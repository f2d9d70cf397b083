package sentinel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// corpus is a folder of recorded logs that is not part of the project.
const corpus = "../../../shared/corpus/real"

var began = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// shipped returns the program of the shipped rules.
func shipped(t testing.TB) *matcher.Program {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	program, err := matcher.CompileOpen(set)
	require.NoError(t, err)
	return program
}

// unwatched returns the complaints of a file that no rule matches, from began on.
func unwatched(t testing.TB, program *matcher.Program, data []byte) (out []matcher.Complaint, took time.Duration) {
	stream := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true, TextTime: true, Join: matcher.JoinStream})
	buf := matcher.NewBuffer(-1)
	keep := func() {
		for _, x := range buf.Complaints() {
			x.Line = strings.Clone(x.Line)
			out = append(out, x)
		}
	}
	program.ScanInto(buf, stream, data, began)
	keep()
	program.FlushInto(buf, stream, began)
	keep()
	var first, last time.Time
	for line := range strings.Lines(string(data)) {
		if at, ok := matcher.TimeOf([]byte(line), began); ok {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
	}
	for i := range out {
		if out[i].Untimed || out[i].Time.Before(first) {
			out[i].Time = first
		}
		out[i].Time = began.Add(out[i].Time.Sub(first))
	}
	slices.SortStableFunc(out, func(a, b matcher.Complaint) int { return a.Time.Compare(b.Time) })
	return out, last.Sub(first)
}

// replayed feeds lines again and again, each time later by a period, and returns the
// patterns of the alerts that fired.
func replayed(lines []matcher.Complaint, period, total time.Duration) (fired []string) {
	s := New(Config{PerDay: 1000, Identity: rules.DefaultIdentity})
	stream := matcher.NewStream(matcher.Labels{"namespace": "capi-system", "container": "manager", "pod": "manager-0"}, matcher.StreamOptions{})
	s.Take(stream, nil, began)
	next := began.Add(time.Minute)
	conclude := func(until time.Time) {
		for ; !next.After(until); next = next.Add(time.Minute) {
			before := s.Stats().Fired
			for _, x := range s.Evaluate(next, upTo(next)) {
				if s.Stats().Fired > before && x.State == episodes.StateFiring {
					fired = append(fired, x.Annotations["description"])
				}
			}
		}
	}
	for shift := time.Duration(0); shift < total; shift += period {
		for _, x := range lines {
			x.Time = x.Time.Add(shift)
			conclude(x.Time)
			s.Take(stream, []matcher.Complaint{x}, x.Time)
		}
	}
	conclude(began.Add(total))
	return fired
}

// Healthy logs raise at most one alert for a component in a week, even if what they say at
// the start is said again every hour or after each pass.
func TestHealthyLogs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/incidents/chatter/*/*/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	more, _ := filepath.Glob(corpus + "/N-chatter/*") // not part of the project
	files = append(files, more...)
	program := shipped(t)
	once := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		lines, took := unwatched(t, program, data)
		once += len(replayed(lines, took+time.Hour, took+time.Hour))
		require.LessOrEqual(t, len(replayed(lines, max(took, time.Hour), 7*24*time.Hour)), 1, file)
		require.LessOrEqual(t, len(replayed(lines, took+time.Minute, 95*time.Minute)), 1, file)
	}
	require.LessOrEqual(t, once, 1, "read once")
}

// Without any rule, most recorded incidents are reported if their lines go on for 95 minutes.
func TestIncidentsWithoutRules(t *testing.T) {
	files, _ := filepath.Glob(corpus + "/S*/*.log")
	if len(files) == 0 {
		t.Skip("the corpus is not here")
	}
	set := &rules.Set{Rules: []*rules.Rule{{Alert: "None", Mode: rules.ModeOn, Steps: []rules.Step{{Matcher: rules.Matcher{Contains: []string{"no line has this text"}}}}}}}
	program, err := matcher.Compile(set)
	require.NoError(t, err)
	reported := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		lines, took := unwatched(t, program, data)
		if most := 10 * time.Minute; took > most { // some files have years between two lines
			for i := range lines {
				lines[i].Time = began.Add(time.Duration(float64(most) * float64(lines[i].Time.Sub(began)) / float64(took)))
			}
			took = most
		}
		if len(replayed(lines, took+time.Minute, 95*time.Minute)) > 0 {
			reported++
		} else {
			t.Logf("not reported: %s", file)
		}
	}
	t.Logf("%d of %d incidents are reported", reported, len(files))
	require.Greater(t, float64(reported), 0.75*float64(len(files)))
}
