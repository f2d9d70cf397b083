package episodes

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// silentModel implements `silent` for one key. It keeps everything.
type silentModel struct {
	r      *rules.Rule
	key    string
	newest time.Duration // line
	mutes  []time.Duration
	gone   time.Duration // when its pod was deleted
	armed  bool
	fires  bool
	starts time.Duration

	reported []report
}

func (m *silentModel) excused(t, w time.Duration) bool {
	muted := m.r.Unless != nil && slices.ContainsFunc(m.mutes, func(at time.Duration) bool {
		return at > t-m.r.Unless.Within && (t >= w || at <= t+m.r.Silent+rules.Lateness)
	})
	return muted || t <= m.gone
}

func (m *silentModel) end(reason Reason, at time.Duration) {
	m.fires = false
	m.reported = append(m.reported, report{m.key, StateResolved, reason, m.starts, max(at, m.starts)})
}

func (m *silentModel) line(t, w time.Duration) {
	if t <= m.newest {
		return
	}
	m.newest = t
	excused := m.excused(t, w)
	switch {
	case m.fires && t+m.r.Silent <= w:
		return
	case m.fires:
		m.end(ReasonClear, t)
	}
	m.armed = !excused && t+m.r.Silent+m.r.Expire > w
}

func (m *silentModel) mute(t time.Duration) {
	m.mutes = append(m.mutes, t)
	if t > m.newest-m.r.Unless.Within {
		m.armed = false
	}
}

func (m *silentModel) deleted(t time.Duration) {
	m.gone = t
	if m.newest <= t {
		m.armed = false
	}
}

// until draws the conclusions at a time of the clock.
func (m *silentModel) until(w, now time.Duration) {
	if m.armed && m.newest+m.r.Silent <= w {
		m.armed, m.fires, m.starts = false, true, m.newest+m.r.Silent
		m.reported = append(m.reported, report{m.key, StateFiring, "", m.starts, 0})
	}
	if m.fires && m.newest+m.r.Silent+m.r.Expire <= w {
		m.end(ReasonExpired, m.newest+m.r.Silent+m.r.Expire)
	}
	if m.fires && m.newest <= m.gone && now >= m.gone+podDeletedDelay {
		m.end(ReasonPodDeleted, m.gone)
	}
}

// silentEvent is what happens at one time of the clock.
type silentEvent struct {
	arrives, t time.Duration
	kind       string
	key        string
}

func anySilentEvent(t *rapid.T, kinds []string) silentEvent {
	seconds := func(label string, hi int) time.Duration {
		return time.Duration(rapid.IntRange(0, hi).Draw(t, label)) * time.Second
	}
	arrives := 500*time.Second + seconds("arrives", 800)
	late := rapid.SampledFrom([]int{0, 0, 9, 40, 400}).Draw(t, "late")
	return silentEvent{
		arrives: arrives, t: arrives - seconds("delay", late),
		kind: rapid.SampledFrom(kinds).Draw(t, "kind"), key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
	}
}

func (ev silentEvent) hit(r *rules.Rule) matcher.Hit {
	part := matcher.Part(0)
	if ev.kind == "unless" {
		part = matcher.PartUnless
	}
	h := lineHit(r, part, ev.t, ev.kind, "k", ev.key)
	h.Labels = matcher.Labels{"namespace": "ns"}
	return h
}

// TestSilentModel compares the reports about two pods with the model: lines in any order of
// arrival, late ones among them, muting lines, deleted pods, a source that is lost, restarts, and
// lines that are read again.
func TestSilentModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"line", "line", "line", "line", "gone", "lost", "back", "restart", "again"}
		r := rule(func(r *rules.Rule) {
			r.By, r.KeepFiringFor = []string{"k", "pod"}, 0
			r.Silent = time.Duration(rapid.IntRange(1, 60).Draw(t, "silent")) * time.Second
			r.Expire = time.Duration(rapid.IntRange(1, 400).Draw(t, "expire")) * time.Second
			if rapid.Bool().Draw(t, "has unless") {
				r.Unless = &rules.ClearOrUnless{Same: r.By, Within: time.Duration(rapid.IntRange(1, 60).Draw(t, "within")) * time.Second}
				if rapid.Bool().Draw(t, "share") {
					r.Unless.Same = r.By[:1]
				}
				kinds = append(kinds, "unless")
			}
		})
		events := make([]silentEvent, rapid.IntRange(1, 40).Draw(t, "n"))
		for i := range events {
			events[i] = anySilentEvent(t, kinds)
		}
		slices.SortStableFunc(events, func(a, b silentEvent) int { return cmp.Compare(a.arrives, b.arrives) })

		b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
		b.e = b.engine(Config{})
		models := map[string]*silentModel{"a": {r: r, key: "a"}, "b": {r: r, key: "b"}}
		lost, readUpTo := false, time.Duration(0)
		reach := func(now time.Duration) {
			if !lost {
				readUpTo = now
			}
			b.e.AdvanceWatermark("s", at(readUpTo))
			b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			for _, m := range models {
				m.until(readUpTo-rules.Lateness, now)
			}
		}
		var before []matcher.Hit
		for _, ev := range events {
			now := ev.arrives
			reach(now - 1)
			switch ev.kind {
			case "lost", "back":
				lost = ev.kind == "lost"
			case "restart":
				b.restart(now - 1)
				b.e.AdvanceWatermark("s", at(readUpTo))
			case "again":
				b.take(now, before...)
			case "gone":
				b.e.PodDeleted(matcher.Labels{"namespace": "ns", "pod": ev.key}, at(ev.arrives))
				models[ev.key].deleted(ev.arrives)
			case "unless":
				b.take(now, ev.hit(r))
				before = append(before, ev.hit(r))
				for key, m := range models {
					if key == ev.key || len(r.Unless.Same) == 1 {
						m.mute(ev.t)
					}
				}
			default:
				b.take(now, ev.hit(r))
				before = append(before, ev.hit(r))
				models[ev.key].line(ev.t, readUpTo-rules.Lateness)
			}
			b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			for _, m := range models {
				m.until(readUpTo-rules.Lateness, now)
			}
		}
		lost = false
		reach(2 * time.Hour)
		for key, m := range models {
			require.Equal(t, m.reported, reportsBy(b.reported, "pod", key), "%s of silent %s expire %s unless %+v", key, r.Silent, r.Expire, r.Unless)
		}
		require.Empty(t, b.e.rules["Demo"].armed.Items)
		require.Zero(t, b.e.rules["Demo"].armed.n)
		require.Zero(t, b.e.departed.Len())
	})
}
