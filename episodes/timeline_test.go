package episodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/intake"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// timelineText writes a timeline, a line per event.
func timelineText(tl Timeline) string {
	var lines []string
	for _, ev := range tl.Events {
		text := fmt.Sprintf("%s %s", ev.Time.Sub(start), ev.Kind)
		if ev.Total > 0 {
			text += fmt.Sprintf(" %d/%d", ev.N, ev.Total)
		}
		if ev.Sources != nil {
			text += fmt.Sprint(" ", ev.Sources)
		}
		text += strings.TrimRight(" "+string(ev.Reason)+" "+string(ev.Line), " ")
		lines = append(lines, strings.Join(strings.Fields(text), " "))
	}
	return strings.Join(lines, "\n")
}

// requireTimeline compares the timeline of the only reported episode.
func (b *bench) requireTimeline(now time.Duration, want ...string) Timeline {
	require.NotEmpty(b.t, b.reported)
	tl, ok := b.e.Timeline(b.reported[len(b.reported)-1].Fingerprint, at(now))
	require.True(b.t, ok)
	require.Equal(b.t, strings.Join(want, "\n"), timelineText(tl))
	return tl
}

func TestTimelineCounted(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.Count, r.Within, r.By = 5, time.Minute, []string{"pod"} })
	b := newBench(t, r)
	for i := range 5 {
		b.take(time.Duration(10+i)*time.Second, lineHit(r, 0, time.Duration(i)*time.Second, "bad", "a"))
	}
	b.advance(15 * time.Second)
	want := []string{"0s counted 1/5", "3s counted 4/5", "4s opened bad", "14s fired"}
	b.requireTimeline(15*time.Second, want...)
	// A further trigger is not an event.
	for i := 5; i < 50; i++ {
		b.take(time.Duration(10+i)*time.Second, lineHit(r, 0, time.Duration(i)*time.Second, "again", "a"))
	}
	b.advance(time.Minute)
	b.requireTimeline(time.Minute, want...)
	b.advance(time.Hour)
	b.requireTimeline(time.Hour, append(want, "15m49s ended quiet")...)
	_, ok := b.e.Timeline(1, at(time.Hour))
	require.False(t, ok)
}

func TestTimelineOfDistinctAndSequence(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.Count, r.Within, r.Distinct, r.CapturedNames = 3, time.Minute, "pod", []string{"pod"}
	})
	b := newBench(t, r)
	for i, pod := range []string{"a", "a", "b", "c"} {
		b.take(time.Duration(i)*time.Second, lineHit(r, 0, time.Duration(i)*time.Second, "bad", pod))
	}
	b.advance(5 * time.Second)
	b.requireTimeline(5*time.Second, "1s counted 1/3", "2s counted 2/3", "3s opened bad", "3s fired")

	r = rule(func(r *rules.Rule) { r.Sequence, r.Steps, r.Within = true, make([]rules.Step, 3), time.Minute })
	b = newBench(t, r)
	for i := range 3 {
		b.take(time.Duration(i)*time.Second, lineHit(r, matcher.Part(i), time.Duration(i)*time.Second, fmt.Sprint("step ", i)))
	}
	b.advance(5 * time.Second)
	b.requireTimeline(5*time.Second, "0s counted 1/3", "1s counted 2/3", "2s opened step 2", "2s fired")
}

// The line that clears or mutes is shown, even for an episode that never fired.
func TestTimelineClearedAndMuted(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.For, r.Clear, r.Unless = 2*time.Minute, &rules.ClearOrUnless{}, &rules.ClearOrUnless{Within: time.Minute}
	})
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "lost"))
	b.advance(time.Second)
	b.take(time.Minute, lineHit(r, matcher.PartClear, time.Minute, "back password=hunter2"))
	b.advance(time.Minute)
	require.Equal(t, StateDropped, b.reported[len(b.reported)-1].State)
	tl := b.requireTimeline(time.Minute, "0s opened lost", "1m0s ended clear back password=hunter2")
	require.Equal(t, StateDropped, tl.Episode.State)

	b.take(5*time.Minute, lineHit(r, 0, 5*time.Minute, "lost again"))
	b.advance(5 * time.Minute)
	b.take(6*time.Minute, lineHit(r, matcher.PartUnless, 6*time.Minute, "planned"))
	b.advance(6 * time.Minute)
	b.requireTimeline(6*time.Minute, "5m0s opened lost again", "6m0s ended muted planned")

	// Both are kept for as long as resolved episodes.
	b.advance(6*time.Minute + keepResolved)
	b.requireTimeline(6*time.Minute+keepResolved, "5m0s opened lost again", "6m0s ended muted planned")
	b.advance(6*time.Minute + keepResolved + time.Second)
	_, ok := b.e.Timeline(tl.Episode.Fingerprint, at(time.Hour))
	require.False(t, ok)

	// The lines are redacted.
	b = newBench(t, r)
	b.e = b.engine(Config{Redactor: redact.New(nil)})
	b.take(0, lineHit(r, 0, 0, "lost password=hunter2"))
	b.advance(time.Second)
	b.take(time.Minute, lineHit(r, matcher.PartClear, time.Minute, "back password=hunter2"))
	b.advance(time.Minute)
	b.requireTimeline(time.Minute, "0s opened lost password=<redacted>", "1m0s ended clear back password=<redacted>")
}

func TestTimelineOnHold(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.For, r.Clear = 2*time.Minute, &rules.ClearOrUnless{} })
	b := newBench(t, r)
	b.e.AddSource("other", rules.Lateness, nil)
	b.e.AdvanceWatermark("other", at(0))
	b.advance(0)
	b.take(0, lineHit(r, 0, 0, "lost"))
	b.advance(20 * time.Second)
	b.requireTimeline(20*time.Second, "0s opened lost")
	b.advance(31 * time.Second)
	b.advance(60 * time.Second) // still on hold
	held := []string{"0s opened lost", "31s held [other]"}
	tl := b.requireTimeline(time.Minute, held...)
	require.Equal(t, []string{"other"}, tl.Episode.WaitsFor)
	require.Equal(t, []AwaitedPart{{Part: "clear", Selector: r.Clear.From.String(), Sources: []string{"other"}}}, tl.Episode.AwaitedParts)
	require.True(t, tl.Episode.OnHold)
	b.advance(10 * time.Minute)
	require.Equal(t, StatePending, b.reported[len(b.reported)-1].State, "nothing is invented")
	b.e.AdvanceWatermark("other", at(10*time.Minute))
	b.advance(10 * time.Minute)
	tl = b.requireTimeline(10*time.Minute, append(held, "10m0s fired", "10m0s resumed")...)
	require.Empty(t, tl.Episode.WaitsFor)

	// An open episode goes on hold once, also if another source is added meanwhile.
	b.advance(11 * time.Minute)
	b.e.AddSource("third", rules.Lateness, nil)
	b.advance(11 * time.Minute)
	b.requireTimeline(11*time.Minute, append(held, "10m0s fired", "10m0s resumed", "11m0s held [other]")...)
	tl, ok := b.e.Timeline(tl.Episode.Fingerprint, at(11*time.Minute))
	require.True(t, ok)
	require.Equal(t, []string{"other", "third"}, tl.Episode.WaitsFor)
}

// The first and the newest events are always kept.
func TestTimelineIsBounded(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.Clear, r.Expire = &rules.ClearOrUnless{}, 1000*time.Hour })
	b := newBench(t, r)
	b.advance(0)
	b.take(0, lineHit(r, 0, 0, "lost"))
	for i := range 100 {
		now := time.Duration(i+1) * time.Minute
		b.reported = append(b.reported, b.e.Evaluate(at(now))...) // held
		b.advance(now)
	}
	tl, ok := b.e.Timeline(b.reported[0].Fingerprint, at(time.Hour))
	require.True(t, ok)
	require.Len(t, tl.Events, maxEvents)
	require.Equal(t, 2+200-maxEvents, tl.Skipped)
	require.Equal(t, EventOpened, tl.Events[0].Kind)
	require.Equal(t, EventFired, tl.Events[1].Kind)
	require.Equal(t, at(100*time.Minute), tl.Events[maxEvents-1].Time)

	for i := range 3 * maxEnded {
		r := rule(func(r *rules.Rule) { r.Alert = fmt.Sprint("R", i) })
		b.e.Swap(&rules.Set{Rules: []*rules.Rule{r}}, at(2*time.Hour))
		b.e.Take([]matcher.Hit{lineHit(r, 0, 2*time.Hour, fmt.Sprint(i))}, at(2*time.Hour))
	}
	require.Len(t, b.e.journal.ended, maxEnded)
}

func TestTimelineOverRestartReloadAndOverflow(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.For, r.Clear, r.By, r.Limit = 2*time.Minute, &rules.ClearOrUnless{}, []string{"pod"}, 1
	})
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "lost", "a"))
	b.advance(3 * time.Minute)
	b.restart(4 * time.Minute)
	b.advance(4 * time.Minute)
	b.requireTimeline(4*time.Minute, "0s opened lost", "3m0s fired", "4m0s restored")

	// An episode keeps its history when its labels change.
	other := *r
	other.Severity = rules.SeverityCritical
	b.e.Swap(&rules.Set{Rules: []*rules.Rule{&other}}, at(5*time.Minute))
	b.advance(5 * time.Minute)
	b.requireTimeline(5*time.Minute, "0s opened lost", "3m0s fired", "4m0s restored", "5m0s renamed")

	// The history of an episode that ended before a restart is derived from its saved fields.
	b.take(6*time.Minute, lineHit(&other, matcher.PartClear, 6*time.Minute, "back"))
	b.advance(6 * time.Minute)
	fp := b.reported[len(b.reported)-1].Fingerprint
	b.set = &rules.Set{Rules: []*rules.Rule{&other}}
	b.restart(7 * time.Minute)
	tl, ok := b.e.Timeline(fp, at(7*time.Minute))
	require.True(t, ok)
	require.Equal(t, "0s opened lost\n3m0s fired\n6m0s ended clear", timelineText(tl))

	// The overflow alert has a history, too.
	b.take(8*time.Minute, lineHit(&other, 0, 8*time.Minute, "lost", "b"), lineHit(&other, 0, 8*time.Minute, "lost", "c"))
	b.advance(8 * time.Minute)
	for _, x := range b.reported {
		if x.Overflow {
			tl, ok := b.e.Timeline(x.Fingerprint, at(8*time.Minute))
			require.True(t, ok)
			require.Equal(t, "8m0s opened\n8m0s fired", timelineText(tl))
			return
		}
	}
	t.Fatal("no overflow")
}

// A suspended rule is on hold though all its sources make progress.
func TestTimelineOfSuspendedRule(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.Clear = &rules.ClearOrUnless{} })
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "lost"))
	b.advance(time.Second)
	b.e.Suspend(r, at(2*time.Second))
	b.advance(3 * time.Second)
	tl := b.requireTimeline(3*time.Second, "0s opened lost", "0s fired", "3s held")
	require.Empty(t, tl.Episode.WaitsFor)
	require.True(t, tl.Episode.OnHold)
}

// A further trigger adds nothing to the history, however many there are.
func TestTimelineCostsNothingPerLine(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By = []string{"pod"} })
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "bad", "a"))
	ep := b.e.rules[r.Alert].open[intake.JoinKey([]string{"a"}, nil)]
	before := len(ep.history.events)
	for i := range 1000 {
		b.take(time.Second, lineHit(r, 0, time.Second, fmt.Sprint("bad ", i), "a"))
	}
	require.Len(t, ep.history.events, before)
	require.LessOrEqual(t, cap(ep.history.events), maxEvents)
}
