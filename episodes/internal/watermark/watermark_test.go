package watermark

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// due is a subject with a deadline.
type due struct {
	Deadline
	group *Group
	at    int64
}

func (d *due) Due() int64 { return d.at }

// ReadUpTo takes every lagging stream for one whose lines could be about the subject.
func (d *due) ReadUpTo() int64 {
	out := d.group.Watermark()
	for _, l := range d.group.Lags() {
		out = min(out, l.Watermark())
	}
	return out
}

func arm(g *Group, at int64) *due {
	d := &due{group: g, at: at}
	d.Subject = d
	d.Arm(g)
	return d
}

func computed(d *Deadline) (int64, bool) { return d.Subject.Due(), true }

func times(ds []*Deadline) (out []int64) {
	for _, d := range ds {
		out = append(out, d.Subject.Due())
	}
	slices.Sort(out)
	return out
}

func app(t require.TestingT, names ...string) []rules.Selector {
	var out []rules.Selector
	for _, name := range names {
		s, err := selector.Parse(`{app="` + name + `"}`)
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}

func serves(apps ...string) func(rules.Selector) bool {
	return func(s rules.Selector) bool {
		return slices.ContainsFunc(apps, func(a string) bool { return s.Matches(map[string]string{"app": a}, false) })
	}
}

// model is what is known of one source.
type model struct {
	lateness time.Duration
	apps     []string // nil: all
	readUpTo int64
}

// expect computes the watermark of a rule from all sources.
func expect(t require.TestingT, known map[string]*model, of string, frozen int64) (mark int64, onHold bool) {
	mark, lateness, served := int64(math.MaxInt64), int64(0), false
	for _, m := range known {
		if m.apps != nil && !slices.Contains(m.apps, of) {
			continue
		}
		served = true
		lateness = max(lateness, int64(m.lateness))
		if m.readUpTo == window.NoTime {
			mark = window.NoTime
		}
		mark = min(mark, m.readUpTo-int64(m.lateness))
		onHold = onHold || m.readUpTo < now-int64(onHoldAfter)
	}
	if !served || mark < window.NoTime {
		mark = window.NoTime
	}
	onHold = onHold || !served
	if frozen != window.NoTime {
		mark, onHold = min(mark, frozen-lateness), true
	}
	return mark, onHold
}

const now = int64(time.Hour)

// Whatever happens to the sources, the watermark of a group is that of a walk over them.
func TestWatermarkIsThatOfTheSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sources
		s.Regroup()
		known := map[string]*model{}
		frozen := map[string]int64{"a": window.NoTime, "b": window.NoTime}
		groups := map[string]*Group{}
		regroup := func() {
			s.Regroup()
			for of, at := range frozen {
				groups[of] = s.Group(app(t, of), at)
			}
		}
		regroup()
		name := rapid.SampledFrom([]string{"x", "y", "z"})
		seconds := rapid.Int64Range(0, 7200)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "remove", "advance", "move", "freeze"}).Draw(t, "step") {
			case "add":
				n, m := name.Draw(t, "name"), &model{readUpTo: window.NoTime}
				m.lateness = time.Duration(seconds.Draw(t, "lateness")) * time.Second
				m.apps = rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "apps")
				if old := known[n]; old != nil {
					m.readUpTo = old.readUpTo
				}
				known[n] = m
				if m.apps == nil {
					s.Add(n, m.lateness, nil)
				} else {
					s.Add(n, m.lateness, serves(m.apps...))
				}
				regroup()
			case "remove":
				n := name.Draw(t, "name")
				delete(known, n)
				s.Remove(n)
				regroup()
			case "advance":
				n, at := name.Draw(t, "name"), seconds.Draw(t, "read up to")*int64(time.Second)
				if m := known[n]; m != nil {
					m.readUpTo = max(m.readUpTo, at)
				}
				s.Advance(n, at)
			case "move":
				by := seconds.Draw(t, "by") - 3600
				for _, m := range known {
					if m.readUpTo != window.NoTime {
						m.readUpTo = min(m.readUpTo+by, now)
					}
				}
				s.Move(by, now)
			case "freeze":
				of, at := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "rule"), seconds.Draw(t, "at")*int64(time.Second)
				if frozen[of] == window.NoTime {
					frozen[of] = at
					groups[of] = s.Group(app(t, of), at)
				}
			}
			for of, g := range groups {
				mark, onHold := expect(t, known, of, frozen[of])
				require.Equal(t, mark, g.Watermark())
				require.Equal(t, onHold, g.OnHold(now))
			}
		}
	})
}

// Rules that the same sources serve share a group; a frozen rule has its own.
func TestGroupsAreShared(t *testing.T) {
	var s Sources
	s.Add("a", 0, serves("a"))
	s.Add("both", time.Second, serves("a", "b"))
	s.Regroup()
	a, b := s.Group(app(t, "a"), window.NoTime), s.Group(app(t, "b"), window.NoTime)
	require.NotSame(t, a, b)
	require.Same(t, a, s.Group(app(t, "a"), window.NoTime))
	require.NotSame(t, a, s.Group(app(t, "a"), 5))
	require.Same(t, a, s.Group(app(t, "a"), window.NoTime))
	require.True(t, a.IsServed())
	require.False(t, s.Group(app(t, "c"), window.NoTime).IsServed())
	require.True(t, s.Group(app(t, "c"), window.NoTime).OnHold(now), "nothing is concluded without a source")
	require.Same(t, a, s.Group(app(t, "a", "b"), window.NoTime), "the sources count, not the selectors")
	half := s.Group(app(t, "b", "c"), window.NoTime)
	require.False(t, half.IsServed(), "the lines that c wants are not read")
	require.True(t, half.OnHold(now))

	s.Advance("a", now)
	require.Equal(t, []string{"both"}, a.SilentSources(now))
	require.Empty(t, s.Group(app(t, "a"), 5).SilentSources(now))
}

// Turned yields each group once per change.
func TestTurned(t *testing.T) {
	var s Sources
	s.Add("a", 0, nil)
	s.Regroup()
	g := s.Group(app(t, "a"), window.NoTime)
	turned := func(at int64) []*Group { return slices.Collect(s.TurnedGroups(at)) }
	require.Equal(t, []*Group{g}, turned(0), "new")
	require.True(t, g.WasOnHold)
	require.Empty(t, turned(1))
	s.Advance("a", 10)
	require.Equal(t, []*Group{g}, turned(11))
	require.False(t, g.WasOnHold)
	require.Empty(t, turned(12))
}

// Due disarms exactly what the watermark reached, however deadlines were postponed, moved
// and disarmed before.
func TestDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sources
		s.Add("a", 10, nil)
		s.Regroup()
		g := s.Group(app(t, "a"), window.NoTime)
		open := map[*due]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "deadlines") {
			open[arm(g, rapid.Int64Range(0, 100).Draw(t, "at"))] = true
		}
		for d := range open {
			d.at += rapid.Int64Range(0, 20).Draw(t, "postponed")
		}
		for d := range open {
			if rapid.Bool().Draw(t, "disarm") {
				d.Disarm()
				d.Disarm()
				delete(open, d)
			}
		}
		if rapid.Bool().Draw(t, "moved") {
			for d := range open {
				d.at -= 30
			}
			s.RearmAll(computed)
		}
		read := rapid.Int64Range(0, 120).Draw(t, "read up to")
		s.Advance("a", read)
		var want []int64
		for d := range open {
			if d.at <= read-10 {
				want = append(want, d.at)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, times(s.TakeDue(computed, nil)))

		next, ok := s.NextTime(computed)
		left := slices.DeleteFunc(slices.Collect(maps.Keys(open)), func(d *due) bool { return d.in == nil })
		require.Len(t, g.ArmedDeadlines(), len(left))
		require.Equal(t, len(left) > 0, ok)
		for _, d := range left {
			require.LessOrEqual(t, next, d.at+10)
		}
	})
}

// A deadline that cannot be computed does not stop the others.
func TestDueOfAFailingDeadline(t *testing.T) {
	var s Sources
	s.Add("a", 0, nil)
	s.Regroup()
	g := s.Group(app(t, "a"), window.NoTime)
	bad, good := arm(g, 1), arm(g, 2)
	s.Advance("a", 5)
	out := s.TakeDue(func(d *Deadline) (int64, bool) {
		if d == &bad.Deadline {
			d.Disarm()
			return 0, false
		}
		return d.Subject.Due(), true
	}, nil)
	require.Equal(t, []*Deadline{&good.Deadline}, out)
	require.Nil(t, bad.in)
}

// A lagging stream delays the deadlines that it could change, and no others: they come when
// the stream was read, or is no longer behind.
func TestDueOfALaggingStream(t *testing.T) {
	var s Sources
	s.Add("a", 10, nil)
	s.Regroup()
	g := s.Group(app(t, "a"), window.NoTime)
	early, late := arm(g, 20), arm(g, 50)
	lag := func(readUpTo int64) Lag {
		return NewLag(matcher.LaggingStream{Labels: matcher.Labels{"app": "a"}}, readUpTo)
	}
	due := func(at int64, lagging ...Lag) []int64 {
		s.Advance("a", at, lagging...)
		return times(s.TakeDue(computed, nil))
	}
	require.Equal(t, []int64{20}, due(100, lag(30)))
	require.Equal(t, int64(90), g.Watermark(), "the source itself goes on")
	require.Empty(t, due(110, lag(59)))
	require.Len(t, g.ArmedDeadlines(), 1)
	require.Equal(t, []int64{50}, due(110, lag(60)))
	require.Nil(t, early.in)
	require.Nil(t, late.in)

	moved := arm(g, 70)
	require.Empty(t, due(200, lag(60)))
	moved.at = 300 // a line postponed it while it was parked
	require.Empty(t, due(210))
	require.Equal(t, []int64{300}, due(310))
	gone := arm(g, 320)
	require.Empty(t, due(400, lag(100)))
	gone.Disarm()
	require.Empty(t, due(410))

	arm(g, 420)
	require.Empty(t, due(500, NewLag(matcher.LaggingStream{}, 100)), "any stream may lag")
	require.Equal(t, int64(90), g.Watermark())
	require.Empty(t, due(450), "a report that was overtaken")
	require.Equal(t, []int64{420}, due(500))
}
