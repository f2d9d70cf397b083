package sentinel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/discover"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// corpus is a folder of recorded logs that is not part of the project.
const corpus = "/work/shared/corpus/real"

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
	if most := 30 * time.Minute; last.Sub(first) > most && os.Getenv("ONCE") == "" {
		scale := float64(most) / float64(last.Sub(first))
		for i := range out {
			out[i].Time = began.Add(time.Duration(scale * float64(out[i].Time.Sub(began))))
		}
		last = first.Add(most)
	}
	slices.SortStableFunc(out, func(a, b matcher.Complaint) int { return a.Time.Compare(b.Time) })
	return out, last.Sub(first)
}

// replayed feeds lines again and again, each time later by a period, and returns the
// alerts.
func replayed(lines []matcher.Complaint, period, total time.Duration) (fired []*Unknown) {
	s := New(Config{PerDay: 1000, Identity: rules.DefaultIdentity})
	stream := matcher.NewStream(matcher.Labels{"namespace": "capi-system", "container": "manager", "pod": "manager-0"}, matcher.StreamOptions{})
	s.Take(stream, nil, began)
	next := began.Add(time.Minute)
	conclude := func(until time.Time) {
		for ; !next.After(until); next = next.Add(time.Minute) {
			for _, x := range s.Evaluate(next, func(map[string]string) time.Time { return next }) {
				if x.State == "firing" {
					u := s.List(next, func(map[string]string) time.Time { return next }, 1)
					fired = append(fired, &u[0])
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

func TestLook(t *testing.T) {
	if os.Getenv("LOOK") == "" {
		t.Skip()
	}
	program := shipped(t)
	if os.Getenv("NORULES") != "" {
		set := &rules.Set{Rules: []*rules.Rule{{Alert: "None", Mode: rules.ModeOn, Steps: []rules.Step{{Matcher: rules.Matcher{Contains: []string{"no line has this text"}}}}}}}
		var err error
		program, err = matcher.Compile(set)
		require.NoError(t, err)
	}
	files, _ := filepath.Glob(os.Getenv("LOOK"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		lines, took := unwatched(t, program, data)
		period := max(took+time.Minute, time.Minute)
		total := 95 * time.Minute
		if os.Getenv("ONCE") != "" {
			total = period
		}
		got := replayed(lines, period, total)
		var r discover.ComplaintReader
		n := 0
		for _, x := range lines {
			if _, ok := r.Read(x.Line); ok {
				n++
			}
		}
		t.Logf("%s: %d complaints, %d read, took %v: %d alerts", strings.TrimPrefix(file, corpus+"/"), len(lines), n, took.Round(time.Second), len(got))
		for _, u := range got {
			t.Logf("   %s %v %.150s", u.Why, u.Level, u.Pattern)
		}
	}
}
