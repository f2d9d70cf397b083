// Package incidents replays the stories in testdata/incidents through the
// shipped packs, alone and all at once.
package incidents

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/internal/strictyaml"
	"crowsnest/matcher"
	"crowsnest/rules"
)

const root = "../../testdata/incidents"

// base is the time at which every story begins.
var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story is the content of an expect.yaml.
type story struct {
	About  string        `yaml:"about" strict:"required"`
	Now    time.Duration `yaml:"now" strict:"required"`
	End    time.Duration `yaml:"end" strict:"required"`
	Expect []checkpoint  `yaml:"expect" strict:"required"`
}

type checkpoint struct {
	At       time.Duration       `yaml:"at" strict:"required"`
	Firing   []map[string]string `yaml:"firing" strict:"required"`
	Resolved []map[string]string `yaml:"resolved"`
}

func stories(t *testing.T) map[string]story {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "*", "expect.yaml"))
	require.NoError(t, err)
	all := map[string]story{}
	for _, file := range dirs {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var s story
		problems := strictyaml.Decode(file, data, &s, strictyaml.Options{})
		require.Empty(t, problems, "%s", problems.Error())
		all[filepath.Base(filepath.Dir(file))] = s
	}
	require.Len(t, all, 8)
	return all
}

// hits matches the logs of a story, moved by shift, against the shipped packs.
func hits(t *testing.T, prog *matcher.Program, name string, shift time.Duration) []matcher.Hit {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, name, "*", "*", "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []matcher.Hit
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		container := filepath.Dir(file)
		pod := strings.Split(filepath.Base(filepath.Dir(container)), "_")
		require.Len(t, pod, 3, file)
		labels := matcher.Labels{"namespace": pod[0], "pod": pod[1], "container": filepath.Base(container)}
		stream := matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI})
		out = append(out, prog.Scan(stream, move(t, data, shift), base.Add(time.Hour))...)
		require.Zero(t, stream.Counters().Unparsed, file)
		require.Zero(t, stream.Counters().Dropped, file)
	}
	return out
}

// move shifts the envelopes of CRI lines and checks that they are in order and
// none is before the beginning.
func move(t *testing.T, data []byte, shift time.Duration) []byte {
	t.Helper()
	var out bytes.Buffer
	last := base
	for line := range strings.Lines(string(data)) {
		stamp, rest, ok := strings.Cut(line, " ")
		require.True(t, ok, line)
		at, err := time.Parse(time.RFC3339Nano, stamp)
		require.NoError(t, err)
		require.False(t, at.Before(last), "out of order: %s", line)
		last = at
		require.Regexp(t, `^std(out|err) [FP] `, rest)
		fmt.Fprintf(&out, "%s %s", at.Add(shift).Format(time.RFC3339Nano), rest)
	}
	return out.Bytes()
}

// play processes the hits in order, with a clock that ticks every second, and
// returns all alerts, each in its final state.
func play(set *rules.Set, all []matcher.Hit, from, to time.Time) []episodes.Episode {
	slices.SortStableFunc(all, func(a, b matcher.Hit) int { return a.Time.Compare(b.Time) })
	engine := episodes.New(episodes.Config{})
	engine.AddSource("files", rules.Lateness, func(from rules.Selector) bool {
		return slices.ContainsFunc(all, func(h matcher.Hit) bool { return from.Matches(h.Labels, false) })
	})
	engine.Swap(set, from)
	alerts := map[string]episodes.Episode{}
	for now := from; !now.After(to); now = now.Add(time.Second) {
		n := 0
		for n < len(all) && !all[n].Time.After(now) {
			n++
		}
		engine.Take(all[:n], now)
		all = all[n:]
		engine.AdvanceWatermark("files", now)
		for _, e := range engine.Evaluate(now) {
			if !e.FiredAt.IsZero() {
				alerts[fmt.Sprint(e.Fingerprint, e.StartsAt)] = e
			}
		}
	}
	return slices.Collect(maps.Values(alerts))
}

func shipped(t *testing.T) (*rules.Set, *matcher.Program) {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	return set, prog
}

// labelsOf returns the labels of the alerts that are firing at a time, or that
// were resolved by then.
func labelsOf(alerts []episodes.Episode, at time.Time, resolved bool) []map[string]string {
	var out []map[string]string
	for _, a := range alerts {
		over := !a.ConcludedAt.IsZero() && !a.ConcludedAt.After(at)
		if !a.FiredAt.After(at) && over == resolved {
			out = append(out, a.Labels)
		}
	}
	return out
}

// requireAlerts requires each expected alert exactly once, by a subset of its
// labels.
func requireAlerts(t *testing.T, want, got []map[string]string, msg string) {
	t.Helper()
	rest := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(g map[string]string) bool {
			for name, value := range w {
				if g[name] != value {
					return false
				}
			}
			return true
		})
		require.GreaterOrEqual(t, i, 0, "%s: expected %v, got %v", msg, w, rest)
		rest = slices.Delete(rest, i, i+1)
	}
	require.Empty(t, rest, "%s: not expected", msg)
}

func TestEachStory(t *testing.T) {
	set, prog := shipped(t)
	for name, s := range stories(t) {
		t.Run(name, func(t *testing.T) {
			alerts := play(set, hits(t, prog, name, 0), base, base.Add(s.End))
			for _, c := range s.Expect {
				require.LessOrEqual(t, c.At, s.End)
				msg := fmt.Sprintf("%s at %s", name, c.At)
				requireAlerts(t, c.Firing, labelsOf(alerts, base.Add(c.At), false), msg)
				requireAlerts(t, c.Resolved, labelsOf(alerts, base.Add(c.At), true), msg+", resolved")
			}
			for _, a := range alerts {
				soon := a.FiredAt.Sub(base.Add(s.Now))
				require.Positive(t, soon, "%s fires before the story is live", a.Alert)
				require.Less(t, soon, 70*time.Second, "%s fires too late for a demonstration", a.Alert)
			}
		})
	}
}

// Stories that are replayed at the same time do not affect each other.
func TestAllStoriesAtOnce(t *testing.T) {
	set, prog := shipped(t)
	var all []matcher.Hit
	var want []map[string]string
	end := time.Duration(0)
	for name, s := range stories(t) {
		all = append(all, hits(t, prog, name, -s.Now)...)
		last := s.Expect[len(s.Expect)-1]
		want = append(append(want, last.Firing...), last.Resolved...)
		end = max(end, s.End-s.Now)
	}
	var got []map[string]string
	names := map[string]bool{}
	for _, a := range play(set, all, base.Add(-time.Hour), base.Add(end)) {
		got = append(got, a.Labels)
		names[a.Alert] = true
	}
	requireAlerts(t, want, got, "all at once")
	require.Len(t, names, 7)
}
