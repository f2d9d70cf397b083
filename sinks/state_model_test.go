package sinks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes"
)

// receiver is a model of an endpoint: it records what it accepts and checks what it
// is sent.
type receiver struct {
	took map[episodes.Fingerprint]taken
}

type taken struct {
	startsAt    time.Time
	firing      time.Time // first accepted as firing since its start
	resolved    time.Time
	last        time.Time
	lastFiring  bool
	seenAnyTime bool
}

func (r *receiver) take(t *rapid.T, m Message, now time.Time) {
	fp := m.Episode.Fingerprint
	k := r.took[fp]
	if !k.startsAt.Equal(m.Episode.StartsAt) {
		k = taken{startsAt: m.Episode.StartsAt}
	}
	if m.Resolved {
		require.True(t, k.seenAnyTime, "%d: resolved before firing", fp)
		require.False(t, now.Sub(k.firing) < DefaultMinFiring, "%d: resolved %s after firing", fp, now.Sub(k.firing))
		require.Equal(t, episodes.StateResolved, m.Episode.State)
		if k.resolved.IsZero() {
			k.resolved = now
		}
		require.LessOrEqual(t, now.Sub(k.resolved), DefaultResolvedFor+DefaultResend+downMax, "%d: resent for ever", fp)
	} else {
		require.True(t, k.resolved.IsZero(), "%d: firing again after resolved", fp)
		if k.firing.IsZero() {
			k.firing = now
		}
	}
	k.seenAnyTime, k.last, k.lastFiring = true, now, !m.Resolved
	r.took[fp] = k
}

const downMax = 30 * time.Minute

// modelRun is one run of the model.
type modelRun struct {
	now  time.Time
	s    *State
	rcv  *receiver
	down bool
	word map[episodes.Fingerprint]episodes.Episode // the newest of each key
}

// pump sends all that is due, as a sender does.
func (m *modelRun) pump(t *rapid.T) {
	for range 20 {
		due := m.s.Due(m.now, 3)
		if len(due) == 0 || m.down {
			return
		}
		for _, msg := range due {
			m.rcv.take(t, msg, m.now)
		}
		m.s.Accepted(due, m.now)
	}
	require.Fail(t, "a message is due again and again")
}

// pass lets time pass, waking as a sender does.
func (m *modelRun) pass(t *rapid.T, d time.Duration) {
	end := m.now.Add(d)
	for {
		m.pump(t)
		next, ok := m.s.Next(m.now)
		if !m.down && ok {
			require.True(t, next.After(m.now), "next is not in the future")
		}
		if !ok || m.down || next.After(end) {
			m.now = end
			return
		}
		m.now = next
	}
}

func (m *modelRun) notify(ep episodes.Episode) {
	if old, ok := m.word[ep.Fingerprint]; ok && old.State == episodes.StateResolved && old.StartsAt.Equal(ep.StartsAt) {
		return // the engine does not reopen an episode
	}
	m.word[ep.Fingerprint] = ep
	m.s.Notify([]episodes.Episode{ep}, m.now)
}

func (m *modelRun) act(t *rapid.T) {
	fp := episodes.Fingerprint(rapid.IntRange(1, 5).Draw(t, "fp"))
	switch rapid.IntRange(0, 7).Draw(t, "act") {
	case 0, 1: // opens, or goes on
		ep := m.word[fp]
		if ep.State != episodes.StateFiring {
			ep = firing(int(fp), m.now.Sub(t0))
		}
		ep.Count++
		m.notify(ep)
	case 2: // ends
		if ep := m.word[fp]; ep.State == episodes.StateFiring {
			ep.State, ep.EndsAt = episodes.StateResolved, m.now
			m.notify(ep)
		}
	case 3: // a blip of which only the end is seen
		if m.word[fp].State != episodes.StateFiring {
			m.notify(resolved(int(fp), m.now.Sub(t0)-time.Second, m.now.Sub(t0)))
		}
	case 4:
		m.down = !m.down
	case 5: // crowsnest restarts: the engine knows what is open and ended lately
		next := NewState(m.s.cfg)
		next.Import(m.s.Export(m.now), m.now)
		m.s = next
		for _, ep := range m.word {
			if ep.State == episodes.StateFiring || m.now.Sub(ep.EndsAt) < DefaultResolvedFor {
				m.s.Notify([]episodes.Episode{ep}, m.now)
			}
		}
	case 6: // the endpoint restarts and forgets
		for fp, k := range m.rcv.took {
			k.firing = time.Time{}
			m.rcv.took[fp] = k
		}
		m.now = m.now.Add(time.Millisecond)
		m.s.Restarted(m.now, m.now)
	case 7:
		// Shorter than the time for which ends are remembered, so that no end
		// is repeated after it was forgotten.
		m.pass(t, time.Duration(rapid.IntRange(1, int(downMax/time.Second)).Draw(t, "pass"))*time.Second)
		return
	}
	m.pass(t, time.Second)
}

// TestStateModel checks the promises against a model, over outages and restarts
// of both sides.
func TestStateModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &modelRun{
			now: t0, s: NewState(testConfig()), rcv: &receiver{took: map[episodes.Fingerprint]taken{}},
			word: map[episodes.Fingerprint]episodes.Episode{},
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.act(t)
		}
		// In every case: once the endpoint answers, it soon has the true state.
		m.down = false
		m.pass(t, DefaultMinFiring+DefaultTextDelay+time.Second)
		for fp, ep := range m.word {
			k := m.rcv.took[fp]
			require.True(t, k.startsAt.Equal(ep.StartsAt), "%d: another episode", fp)
			require.Equal(t, ep.State == episodes.StateFiring, k.lastFiring, "%d: the end", fp)
			if ep.State == episodes.StateFiring {
				require.LessOrEqual(t, m.now.Sub(k.last), DefaultResend, "%d: not sent again", fp)
			}
		}
		require.Zero(t, m.s.Stats().Pending)
		open := 0
		for _, ep := range m.word {
			if ep.State == episodes.StateFiring {
				open++
			}
		}
		m.pass(t, 3*DefaultResolvedFor)
		m.s.Due(m.now, 1)
		require.Equal(t, open, m.s.Stats().Keys, "what is over is forgotten")
	})
}
