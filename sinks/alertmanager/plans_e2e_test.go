//go:build e2e

package alertmanager

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

// The plans run with the default times, 60 times as fast: an hour is a minute. Times that
// are not configurable, such as that between two tries, are unchanged.
const (
	planFaster  = 60
	planSpan    = 70 * time.Second // in which everything happens
	planAway    = time.Minute      // longest absence of a member
	planSave    = 700 * time.Millisecond
	planTick    = 50 * time.Millisecond
	foundWithin = 10 * time.Second // 5 s are promised; the machine may be busy
)

// The ways in which a member is away.
const (
	stopped   = "SIGTERM"
	killed    = "SIGKILL"
	suspended = "SIGSTOP"
	cut       = "cut"      // packets between crowsnest and it are dropped
	isolated  = "isolated" // so are those between it and the other member
)

// TestMemberPlans: a member of a cluster of two is away for a time between
// nothing and an hour, while alerts open and end and crowsnest restarts. People
// are notified of every beginning and of every end once.
//
// A member that keeps running, or wakes up, and was not sent the ends notifies of these
// alerts as firing once the other member reports that they were resolved. No client can
// prevent that. Such notifications are counted separately, and only if the log of the
// member shows that it flushed the group before it answered any request after its absence.
// A second cluster, with a client that sends as Prometheus does, goes through the same plan
// for comparison.
//
// CROWSNEST_PLANS is how many plans are run, CROWSNEST_SEED the seed of the first;
// with -parallel 4, 50 of them take 18 minutes.
func TestMemberPlans(t *testing.T) {
	plans, seed := number("CROWSNEST_PLANS", 3), number("CROWSNEST_SEED", 1)
	var mu sync.Mutex
	var results []planResult
	t.Cleanup(func() { t.Log(table(results)) }) // after the last plan
	for i := range plans {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			t.Parallel()
			p := newPlan(uint64(seed + i))
			ours, control := p.run(t)
			mu.Lock()
			results = append(results, planResult{p, ours, control})
			mu.Unlock()
			t.Logf("%s for %s: %s; control: %s", p.how, p.away.Round(time.Millisecond), ours, control)
			require.Empty(t, ours.missing, "not notified\n%s", p)
			require.Empty(t, ours.extra, "notified too often\n%s", p)
		})
	}
}

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

// event is something that happens to a scene.
type event struct {
	at   time.Duration
	what string
	do   func(s *scene)
}

// plan is what happens.
type plan struct {
	member     int // that is away
	how        string
	from, away time.Duration
	events     []event
}

func (p *plan) String() string {
	var out []string
	for _, e := range p.events {
		out = append(out, fmt.Sprintf("%s: %s", e.at.Round(time.Millisecond), e.what))
	}
	return strings.Join(out, "\n")
}

// newPlan draws what happens.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, seed))
	at := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	p := &plan{away: at(0, planAway)}
	if r.IntN(3) == 0 {
		p.away = at(0, 6*time.Second)
	}
	p.from = at(3*time.Second, 8*time.Second)
	back := p.from + p.away
	for i := range 12 {
		name := fmt.Sprintf("A%d", i)
		opens := at(0, planSpan-10*time.Second)
		ends := opens + at(0, planSpan-opens)
		switch i {
		case 0, 1: // open before, and end while the member is away
			opens, ends = at(0, 2*time.Second), at(p.from, back+time.Second)
		case 2: // opens and ends meanwhile
			opens, ends = p.from+p.away/4, p.from+p.away/2
		case 3: // ends when it returns
			opens, ends = at(0, p.from), back+at(0, 2*time.Second)
		}
		p.add(opens, "opens "+name, func(s *scene) { s.notify(fire(name)) })
		if i < 10 {
			p.add(max(ends, opens+planTick), "ends "+name, func(s *scene) { s.notify(end(s.words[name])) })
		}
	}
	p.member, p.how = r.IntN(2), []string{stopped, killed, suspended, cut, isolated}[r.IntN(5)]
	p.add(p.from, fmt.Sprint(p.how, " of member ", p.member+1), func(s *scene) { s.leave(p.member, p.how) })
	p.add(back, "back", func(s *scene) { s.back(p.how) })
	for range r.IntN(3) {
		kill := r.IntN(2) == 0
		p.add(at(0, planSpan), fmt.Sprint("crowsnest restarts, killed: ", kill), func(s *scene) { s.client.restart(kill) })
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return int(a.at - b.at) })
	return p
}

func (p *plan) add(at time.Duration, what string, do func(s *scene)) {
	p.events = append(p.events, event{at, what, do})
}

// run plays the plan with crowsnest and with the control.
func (p *plan) run(t *testing.T) (ours, control verdict) {
	scenes := []*scene{newScene(t, newSinkClient), newScene(t, newPlainClient)}
	began := time.Now()
	for events := p.events; time.Since(began) < planSpan || len(events) > 0; wait.Pause(t.Context(), planTick) {
		for ; len(events) > 0 && events[0].at <= time.Since(began); events = events[1:] {
			for _, s := range scenes {
				events[0].do(s)
			}
		}
		for _, s := range scenes {
			s.client.save()
		}
	}
	for end := time.Now().Add(time.Minute); len(scenes[0].judge().missing) > 0 && time.Now().Before(end); {
		wait.Pause(t.Context(), planTick)
	}
	wait.Pause(t.Context(), 12*time.Second) // two group_intervals: superfluous notifications arrive by then
	if p.how == suspended || p.how == cut || p.how == isolated {
		require.WithinDuration(t, scenes[0].backAt, scenes[0].client.answered(), foundWithin, "not found when it was back")
	}
	for _, s := range scenes {
		s.client.stop()
	}
	return scenes[0].judge(), scenes[1].judge()
}
