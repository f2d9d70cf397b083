package sinks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/test/setclock"
)

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func testConfig() StateConfig {
	return StateConfig{
		Resend: DefaultResend, MinFiring: DefaultMinFiring, ResolvedFor: DefaultResolvedFor,
		TextDelay: DefaultTextDelay, RefusedDelay: 5 * time.Minute,
	}
}

func firing(fp int, start time.Duration) episodes.Episode {
	return episodes.Episode{
		Fingerprint: episodes.Fingerprint(fp), Alert: "A", State: episodes.StateFiring,
		Labels: map[string]string{"alertname": "A", "n": fmt.Sprint(fp)}, StartsAt: t0.Add(start), Count: 1,
	}
}

func resolved(fp int, start, end time.Duration) episodes.Episode {
	ep := firing(fp, start)
	ep.State, ep.Reason, ep.EndsAt = episodes.StateResolved, episodes.ReasonClear, t0.Add(end)
	return ep
}

// words renders messages as "1 firing new, 2 resolved".
func words(msgs []Message) string {
	var out []string
	for _, m := range msgs {
		w := fmt.Sprintf("%d firing", uint64(m.Episode.Fingerprint))
		if m.Resolved {
			w = fmt.Sprintf("%d resolved", uint64(m.Episode.Fingerprint))
		}
		if m.New {
			w += " new"
		}
		if m.Suspect {
			w += " suspect"
		}
		out = append(out, w)
	}
	return strings.Join(out, ", ")
}

// step is one thing that happens to a state, in order of time.
type step struct {
	at   time.Duration
	eps  []episodes.Episode
	want string // what is due then; it is accepted, unless down
	down bool
}

func eps(e ...episodes.Episode) []episodes.Episode { return e }

const (
	sec = time.Second
	mnt = time.Minute
)

// walk returns a function that takes a state through steps.
func walk(t *testing.T) func(name string, steps ...step) {
	t.Helper()
	return func(name string, steps ...step) {
		t.Helper()
		s := NewState(testConfig())
		for _, st := range steps {
			now := t0.Add(st.at)
			s.Notify(st.eps, now)
			due := s.Due(now, 100)
			require.Equal(t, st.want, words(due), "%s at %s", name, st.at)
			if !st.down {
				s.Accepted(due, now)
				require.Empty(t, s.Due(now, 100), "%s at %s: due again at once", name, st.at)
			}
		}
	}
}

func TestStateWords(t *testing.T) {
	f := walk(t)
	f("sent, and again each minute",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 59 * sec}, step{at: mnt, want: "1 firing"}, step{at: 2*mnt - 1}, step{at: 2 * mnt, want: "1 firing"})
	f("a new text waits",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: sec, eps: eps(firing(1, 0))}, step{at: 9 * sec}, step{at: 10 * sec, want: "1 firing"},
		step{at: 69 * sec}, step{at: 70 * sec, want: "1 firing"})
	f("resolved waits for min_firing",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 10 * sec, eps: eps(resolved(1, 0, 10*sec))},
		step{at: mnt - 1}, step{at: mnt, want: "1 resolved new"})
	f("resolved at once after min_firing, then for 15m",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: mnt, want: "1 firing"},
		step{at: 61 * sec, eps: eps(resolved(1, 0, mnt)), want: "1 resolved new"},
		step{at: 2 * mnt}, step{at: 121 * sec, want: "1 resolved"},
		step{at: 61*sec + 14*mnt, want: "1 resolved"}, step{at: 61*sec + 15*mnt, want: "1 resolved"},
		step{at: 61*sec + 16*mnt}, step{at: 61*sec + 40*mnt})
	f("a blip during an outage",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new", down: true},
		step{at: 5 * sec, eps: eps(resolved(1, 0, 5*sec)), want: "1 firing new", down: true},
		step{at: 24 * time.Hour, want: "1 firing new"},
		step{at: 24*time.Hour + 59*sec}, step{at: 24*time.Hour + mnt, want: "1 resolved new"})
	f("a blip seen only when over",
		step{at: 0, eps: eps(resolved(1, -5*sec, 0)), want: "1 firing new"},
		step{at: mnt, want: "1 resolved new"})
}

func TestStateWordsOfNextEpisodes(t *testing.T) {
	f := walk(t)
	f("fires again before the end was sent",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 10 * sec, eps: eps(resolved(1, 0, 10*sec))},
		step{at: 20 * sec, eps: eps(firing(1, 20*sec)), want: "1 firing new"},
		step{at: 79 * sec}, step{at: 80 * sec, want: "1 firing"})
	f("fires again after the end was sent",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 2 * mnt, eps: eps(resolved(1, 0, 2*mnt)), want: "1 resolved new"},
		step{at: 3 * mnt, eps: eps(firing(1, 3*mnt)), want: "1 firing new"},
		step{at: 4*mnt - 1, eps: eps(resolved(1, 3*mnt, 4*mnt-1))},
		step{at: 4 * mnt, want: "1 resolved new"})
	f("fires again with the same start: an identity that came back",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 2 * mnt, eps: eps(resolved(1, 0, 2*mnt)), want: "1 resolved new"},
		step{at: 3 * mnt, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 4 * mnt, eps: eps(resolved(1, 0, 4*mnt)), want: "1 resolved new"})
	f("two episodes in one call",
		step{at: 0, eps: eps(firing(1, 0), resolved(1, 0, 1), firing(1, 2)), want: "1 firing new"},
		step{at: mnt, want: "1 firing"})
	f("a repeated end is not new",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 2 * mnt, eps: eps(resolved(1, 0, 2*mnt)), want: "1 resolved new"},
		step{at: 2*mnt + sec, eps: eps(resolved(1, 0, 2*mnt))},
		step{at: 3 * mnt, eps: eps(resolved(1, 0, 2*mnt)), want: "1 resolved"},
		step{at: 20 * mnt, want: "1 resolved"}, // overdue: nobody asked meanwhile
		step{at: 21 * mnt, eps: eps(resolved(1, 0, 2*mnt))})
	f("new messages first, by age",
		step{at: 0, eps: eps(firing(2, 1), firing(1, 2)), want: "2 firing new, 1 firing new"},
		step{at: mnt, eps: eps(firing(3, mnt), resolved(2, 1, mnt)), want: "3 firing new, 2 resolved new, 1 firing"})
	f("what is soon due comes along",
		step{at: 0, eps: eps(firing(1, 0)), want: "1 firing new"},
		step{at: 5 * sec, eps: eps(firing(2, sec)), want: "2 firing new"},
		step{at: mnt, want: "1 firing, 2 firing"})
}

func TestStateSilentPendingDropped(t *testing.T) {
	f := func(change func(*episodes.Episode), want string) {
		t.Helper()
		s := NewState(testConfig())
		ep := firing(1, 0)
		change(&ep)
		s.Notify([]episodes.Episode{ep}, t0)
		require.Equal(t, want, words(s.Due(t0, 10)))

		// If it replaces a firing episode, it ends that.
		s = NewState(testConfig())
		s.Notify([]episodes.Episode{firing(1, 0)}, t0)
		s.Accepted(s.Due(t0, 10), t0)
		s.Notify([]episodes.Episode{ep}, t0)
		due := s.Due(t0.Add(time.Minute), 10)
		if want == "" {
			require.Equal(t, "1 resolved new", words(due))
			require.Equal(t, t0, due[0].Episode.EndsAt)
		} else {
			require.Equal(t, "1 firing", words(due))
		}
	}
	f(func(ep *episodes.Episode) { ep.Silent = true }, "")
	f(func(ep *episodes.Episode) { ep.Silent, ep.Overflow = true, true }, "")
	f(func(ep *episodes.Episode) { ep.State = episodes.StatePending }, "")
	f(func(ep *episodes.Episode) { ep.State = episodes.StateDropped }, "")
	f(func(ep *episodes.Episode) { ep.State = "" }, "")
	f(func(ep *episodes.Episode) { ep.Overflow = true }, "1 firing new")
}

// A message that changes while an older one is being sent is not lost.
func TestStateChangesInFlight(t *testing.T) {
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0)}, t0)
	inFlight := s.Due(t0, 10)
	s.Notify([]episodes.Episode{firing(1, 0)}, t0)
	require.Len(t, s.Accepted(inFlight, t0), 1)
	require.Equal(t, "1 firing", words(s.Due(t0.Add(10*time.Second), 10)), "the newer text")

	inFlight = s.Due(t0.Add(time.Minute), 10)
	s.Notify([]episodes.Episode{resolved(1, 0, time.Minute), firing(1, 2*time.Minute)}, t0.Add(2*time.Minute))
	require.Empty(t, s.Accepted(inFlight, t0.Add(2*time.Minute)))
	require.Equal(t, "1 firing new", words(s.Due(t0.Add(2*time.Minute), 10)), "another episode by now")

	inFlight = s.Due(t0.Add(2*time.Minute), 10)
	s.Notify([]episodes.Episode{resolved(1, 2*time.Minute, 3*time.Minute)}, t0.Add(3*time.Minute))
	require.Len(t, s.Accepted(inFlight, t0.Add(3*time.Minute)), 1)
	require.Empty(t, s.Due(t0.Add(3*time.Minute), 10))
	require.Equal(t, "1 resolved new", words(s.Due(t0.Add(4*time.Minute), 10)))
}

func TestStateRefused(t *testing.T) {
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0)}, t0)
	due := s.Due(t0, 10)
	require.True(t, s.Refused(due[0], t0))
	s.Accepted(due[1:], t0)
	require.Equal(t, 1, s.Stats().Pending)
	require.Equal(t, "2 firing", words(s.Due(t0.Add(time.Minute), 10)))
	s.Accepted(due[1:], t0.Add(5*time.Minute))
	again := s.Due(t0.Add(5*time.Minute), 10)
	require.Equal(t, "1 firing new suspect", words(again))
	require.False(t, s.Refused(again[0], t0.Add(5*time.Minute)), "not the first time")

	s.Notify([]episodes.Episode{resolved(1, 0, 6*time.Minute)}, t0.Add(6*time.Minute))
	s.Accepted(s.Due(t0.Add(10*time.Minute), 10)[:1], t0.Add(10*time.Minute))
	again = s.Due(t0.Add(10*time.Minute), 1)
	require.Equal(t, "1 firing new suspect", words(again))
	s.Refused(again[0], t0.Add(10*time.Minute))
	require.Zero(t, s.Stats().Pending, "an ended one is dropped")
	require.Equal(t, "2 firing", words(s.Due(t0.Add(20*time.Minute), 10)))
	require.Empty(t, s.Export(t0.Add(10*time.Minute)).Ended)
	s.Due(t0.Add(2*time.Hour), 10)
	require.Equal(t, 1, s.Stats().Keys)

	// Once accepted, it is like any other.
	s.Notify([]episodes.Episode{firing(3, 0)}, t0)
	m := s.Due(t0.Add(3*time.Hour), 1)
	require.Equal(t, "3 firing new", words(m))
	s.Refused(m[0], t0.Add(3*time.Hour))
	s.Accepted(m, t0.Add(4*time.Hour))
	for _, m := range s.Due(t0.Add(5*time.Hour), 10) {
		require.False(t, m.Suspect)
	}
}

func TestStateWitness(t *testing.T) {
	s := NewState(testConfig())
	_, ok := s.Canary()
	require.False(t, ok)
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0), firing(3, 0)}, t0)
	due := s.Due(t0, 10)
	_, ok = s.Canary()
	require.False(t, ok, "nothing was taken yet")
	s.Accepted(due[:1], t0)
	s.Refused(due[1], t0)
	m, ok := s.Canary()
	require.True(t, ok)
	require.Equal(t, "1 firing", words([]Message{m}))
	s.Notify([]episodes.Episode{resolved(1, 0, 1)}, t0)
	_, ok = s.Canary()
	require.False(t, ok, "it ended")
}

func TestStateBounds(t *testing.T) {
	cfg := testConfig()
	cfg.MaxKeys = 3
	s := NewState(cfg)
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0), firing(3, 0), firing(4, 0)}, t0)
	require.Equal(t, StateStats{Keys: 3, Pending: 3, Evicted: 1}, s.Stats(), "open ones stay")

	s.Accepted(s.Due(t0, 10), t0)
	now := t0.Add(2 * time.Minute)
	s.Notify([]episodes.Episode{resolved(1, 0, 3), resolved(2, 0, 2)}, now)
	s.Accepted(s.Due(now, 1), now)
	s.Notify([]episodes.Episode{firing(4, 0)}, now)
	require.Equal(t, int64(1), s.Stats().Evicted, "an accepted end is no loss")
	s.Notify([]episodes.Episode{firing(5, 0)}, now)
	require.Equal(t, StateStats{Keys: 3, Pending: 2, Evicted: 2}, s.Stats(), "an end that was not accepted is")
}

// A clock that is set back silences nothing.
func TestStateClockSetBack(t *testing.T) {
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0)}, t0)
	s.Accepted(s.Due(t0, 10), t0)
	back := t0.Add(-time.Hour)
	s.Notify([]episodes.Episode{resolved(1, 0, 1)}, back)
	next, ok := s.Next(back)
	require.True(t, ok)
	require.False(t, next.After(back.Add(time.Minute)))
	require.Equal(t, "1 resolved new, 2 firing", words(s.Due(back.Add(time.Minute), 10)))
}

// reborn returns the state after a stop and a start.
func reborn(t *testing.T, s *State, now time.Time) *State {
	t.Helper()
	b, err := json.Marshal(s.Export(now))
	require.NoError(t, err)
	var in SavedState
	require.NoError(t, json.Unmarshal(b, &in))
	out := NewState(s.cfg)
	out.Import(in, now)
	return out
}

func TestStateOverRestart(t *testing.T) {
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0), firing(3, 0)}, t0)
	s.Accepted(s.Due(t0, 3), t0)
	now := t0.Add(30 * time.Second)
	blip := resolved(4, 0, 5*time.Second)
	blip.Annotations = map[string]string{"summary": "a blip"}
	s.Notify([]episodes.Episode{resolved(2, 0, 30*time.Second), blip}, now)

	s = reborn(t, s, now)
	require.Equal(t, "4 firing new", words(s.Due(now, 10)), "no other endpoint knows of the blip")
	require.Equal(t, blip.Annotations, s.Due(now, 10)[0].Episode.Annotations)
	s.Notify([]episodes.Episode{firing(1, 0), resolved(2, 0, 30*time.Second), firing(3, 0)}, now)
	due := s.Due(now, 10)
	require.Equal(t, "4 firing new, 1 firing, 3 firing", words(due))
	require.Len(t, s.Accepted(due, now), 1, "of the others not for the first time")
	require.Empty(t, s.Due(t0.Add(time.Minute-1), 10), "min_firing holds over the restart")
	now = t0.Add(time.Minute)
	due = s.Due(now, 10)
	require.Equal(t, "2 resolved new", words(due))
	s.Accepted(due, now)

	now = now.Add(time.Minute)
	s = reborn(t, s, now)
	require.Equal(t, "4 resolved new", words(s.Due(now, 10)), "an accepted end waits: it may have started again")
	s.Notify([]episodes.Episode{resolved(2, 0, 30*time.Second)}, now)
	require.Equal(t, "4 resolved new, 2 resolved", words(s.Due(now, 10)), "an end is resent over a restart")
	now = now.Add(time.Hour)
	s = reborn(t, s, now)
	s.Due(now, 10)
	require.Equal(t, 1, s.Stats().Keys, "only the end that was never accepted is left")
}

func TestStateImportHostile(t *testing.T) {
	s := NewState(testConfig())
	future := t0.Add(1000 * time.Hour)
	s.Import(SavedState{
		Marks: []Mark{
			{},
			{Fingerprint: "zz"},
			{Fingerprint: "-000000000000001", StartsAt: t0},
			{Fingerprint: "0000000000000001", StartsAt: t0, AcceptedAt: future, SentAt: future, EndedAt: future, IsEnded: true},
		},
		Ended: []EndedEpisode{{}, {Fingerprint: "0000000000000002"}, {Fingerprint: "x", Alert: "A", StartsAt: t0}},
	}, t0)
	require.Equal(t, StateStats{Keys: 1}, s.Stats())
	s.Notify([]episodes.Episode{firing(1, time.Second)}, t0)
	require.Equal(t, "1 firing new", words(s.Due(t0, 10)))
}

// Saved times follow the clock at the time of the save. Restored times do not age by an
// hour when the clock is set by one.
func TestStateOverRestartAndSetClock(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		var clock setclock.Clock
		cfg := StateConfig{Resend: time.Minute, ResolvedFor: 15 * time.Minute}
		s := NewState(cfg)
		ep := episodes.Episode{Fingerprint: 1, State: episodes.StateFiring, StartsAt: clock.Now()}
		over := ep
		over.State, over.EndsAt = episodes.StateResolved, clock.Now()
		for _, word := range []episodes.Episode{ep, over} {
			s.Notify([]episodes.Episode{word}, clock.Now())
			s.Accepted(s.Due(clock.Now(), 10), clock.Now())
		}
		for range 3 {
			clock.Set(by)
			now := clock.Now()
			saved := s.Export(now)
			require.Len(t, saved.Marks, 1)
			require.WithinDuration(t, now, saved.Marks[0].EndedAt, time.Minute)
			s = NewState(cfg)
			s.Import(saved, now)
			clock.Set(by)
			s.Notify([]episodes.Episode{over}, clock.Now())
			for _, m := range s.Due(clock.Now(), 10) {
				require.True(t, m.Resolved, "it is not sent again")
			}
		}
	}
}

// What was accepted is known after a restart whatever the clock shows then: an alert that ended is not sent again.
func TestStateOverRestartAtAnyTime(t *testing.T) {
	for _, by := range []time.Duration{31 * mnt, 24 * time.Hour, -24 * time.Hour} {
		for _, each := range []bool{false, true} {
			cfg := testConfig()
			cfg.EachEpisode = each
			s := NewState(cfg)
			for _, word := range []episodes.Episode{firing(1, 0), firing(2, 0), resolved(1, 0, 2*mnt)} {
				s.Notify([]episodes.Episode{word}, t0.Add(2*mnt))
				s.Accepted(s.Due(t0.Add(2*mnt), 10), t0.Add(2*mnt))
				s.Accepted(s.Due(t0.Add(3*mnt), 10), t0.Add(3*mnt))
			}
			now := t0.Add(3*mnt + by)
			out := NewState(cfg)
			out.Import(s.Export(t0.Add(3*mnt)), now)
			out.Due(now, 10)
			out.Notify([]episodes.Episode{firing(2, 0), resolved(1, 0, 2*mnt)}, now)
			for _, m := range out.Due(now, 10) {
				require.False(t, m.New, "%v: %d", by, m.Episode.Fingerprint)
			}
		}
	}
}

// Ends that wait for an endpoint are dropped from the namespace that has the most.
func TestStateIsShared(t *testing.T) {
	cfg := testConfig()
	cfg.MaxKeys = 10
	s := NewState(cfg)
	of := func(party string, e episodes.Episode) episodes.Episode {
		e.Tenant = party
		return e
	}
	s.Notify([]episodes.Episode{of("shop", resolved(1, 0, 1)), of("shop", resolved(2, 0, 1))}, t0)
	for i := 3; i < 50; i++ {
		s.Notify([]episodes.Episode{of("evil", resolved(i, 0, time.Duration(i)))}, t0)
	}
	var waiting []string
	for _, m := range s.Due(t0.Add(time.Hour), 100) {
		if m.Episode.Tenant == "shop" {
			waiting = append(waiting, m.Episode.Fingerprint.String())
		}
	}
	require.Len(t, waiting, 2)
}

// Nobody knows whether the failure of a displaced alert is over, so a receiver with a memory is
// not told that it is until its end is known, and is sent nothing after a day.
func TestDisplacedIsNotResolved(t *testing.T) {
	displaced := func(at time.Duration) episodes.Episode {
		ep := resolved(1, 0, at)
		ep.Reason, ep.Annotations = episodes.ReasonDisplaced, map[string]string{"ended": "not known"}
		return ep
	}
	begin := func(cfg StateConfig) *State {
		s := NewState(cfg)
		s.Notify([]episodes.Episode{firing(1, 0)}, t0)
		s.Accepted(s.Due(t0, 9), t0)
		s.Notify([]episodes.Episode{displaced(5 * time.Minute)}, t0.Add(5*time.Minute))
		return s
	}
	send := func(s *State, at time.Duration) string {
		due := s.Due(t0.Add(at), 9)
		s.Accepted(due, t0.Add(at))
		return words(due)
	}
	s := begin(testConfig())
	require.Equal(t, "1 firing", send(s, 6*time.Minute), "with the annotation")
	require.Zero(t, s.Stats().Pending)
	require.Equal(t, "1 firing", send(s, 10*time.Minute))
	restarted := NewState(testConfig())
	restarted.Import(s.Export(t0.Add(11*time.Minute)), t0.Add(11*time.Minute))
	require.Equal(t, "1 firing", send(restarted, 20*time.Minute), "a restart changes nothing")
	s.Notify([]episodes.Episode{resolved(1, 0, 15*time.Minute)}, t0.Add(16*time.Minute))
	require.Equal(t, "1 resolved new", send(s, 17*time.Minute), "a clear line was read")

	s = begin(testConfig())
	s.Notify([]episodes.Episode{firing(1, 6*time.Minute)}, t0.Add(7*time.Minute))
	require.Equal(t, "1 firing new", send(s, 7*time.Minute), "it got a place again")
	s = begin(testConfig())
	require.Equal(t, "1 firing", send(s, 24*time.Hour))
	require.Empty(t, send(s, 25*time.Hour), "the receiver forgets it by itself")
	require.Zero(t, s.Stats())

	history := testConfig()
	history.Resend = 0
	require.Equal(t, "1 resolved new", send(begin(history), 6*time.Minute), "a receiver without a memory gets the reason")
}
