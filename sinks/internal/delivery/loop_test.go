package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a receiver that can be made to fail.
type fake struct {
	mu       sync.Mutex
	accepted []string // messages, in order
	sizes    []int    // of requests
	fail     func(msgs []string) Answer
	hang     bool // no answer until the request is cancelled
	requests int
}

func (f *fake) Encode(m sinks.Message, _ time.Time) (string, int, error) {
	if m.Episode.Alert == "Unspeakable" {
		return "", 0, errors.New("it has no form")
	}
	event := "opened"
	switch {
	case m.Resolved:
		event = "resolved"
	case !m.New:
		event = fmt.Sprintf("updated(%d)", m.Episode.Count)
	}
	return m.Episode.Alert + " " + event, 100, nil
}

func (f *fake) Deliver(ctx context.Context, msgs []string) Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	f.sizes = append(f.sizes, len(msgs))
	if f.hang {
		<-ctx.Done()
		return TimedOut()
	}
	if f.fail != nil {
		if a := f.fail(msgs); a.Err != nil {
			return a
		}
	}
	f.accepted = append(f.accepted, msgs...)
	return Answer{}
}

func (f *fake) Close() {}

// set sets how requests fail; nil: they do not.
func (f *fake) set(fail func([]string) Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fake) sentMessages() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.accepted)
}

func (f *fake) all() string { return strings.Join(f.sentMessages(), ", ") }

// refuse refuses requests with a message that contains text.
func refuse(text string) func([]string) Answer {
	return func(msgs []string) Answer {
		if strings.Contains(strings.Join(msgs, " "), text) {
			return Answer{Reason: ReasonRefused, Err: errors.New("not accepted")}
		}
		return Answer{}
	}
}

func down([]string) Answer {
	return Answer{Reason: ReasonConnection, Err: errors.New("no receiver")}
}

type bench struct {
	t    *testing.T
	to   *fake
	loop *Loop[string]
	stop func()
}

const updateDelay = 5 * time.Minute

// inBubble runs f with a running loop, in virtual time.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, to: &fake{}}
		b.open(nil)
		defer func() { b.stop() }()
		f(b)
	})
}

func (b *bench) open(state []byte) {
	b.t.Helper()
	b.loop = New(Config{
		Name: "s", Endpoint: "http://there", MaxItems: 16, MaxBytes: 1000, Options: Options{Log: zerolog.Nop(), MaxKeys: 1000},
		State: History(updateDelay),
	}, b.to)
	if state != nil {
		require.NoError(b.t, b.loop.Import(state))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.loop.Run(ctx) }()
	stopped := false
	b.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(b.t, <-done)
		}
	}
}

func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bench) notify(eps ...episodes.Episode) {
	b.loop.Notify(eps)
	synctest.Wait()
}

func (b *bench) status() sinks.EndpointStatus { return b.loop.Status()[0] }

func fire(name string, count int64) episodes.Episode {
	var fp episodes.Fingerprint
	for _, c := range name {
		fp = fp*131 + episodes.Fingerprint(c)
	}
	return episodes.Episode{
		Fingerprint: fp, Alert: name, State: episodes.StateFiring, Count: count, Labels: map[string]string{"alertname": name},
		StartsAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), FiredAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func end(ep episodes.Episode) episodes.Episode {
	ep.State, ep.Reason, ep.EndsAt = episodes.StateResolved, episodes.ReasonClear, time.Now()
	return ep
}

// An alert is sent when it opens, at most every update delay while it changes, and
// when it ends; without a change it is not sent again.
func TestTransitions(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.notify(fire("A", 1))
		require.Equal(t, "A opened", b.to.all())
		for i := range int64(60) { // a change each 10 s, for 10 minutes
			b.notify(fire("A", 2+i))
			b.pass(10 * time.Second)
		}
		require.Equal(t, "A opened, A updated(31), A updated(61)", b.to.all())
		b.pass(24 * time.Hour)
		b.notify(fire("B", 1)) // nothing of A comes along
		require.Equal(t, "A opened, A updated(31), A updated(61), B opened", b.to.all())
		b.notify(end(fire("A", 61)))
		b.pass(24 * time.Hour)
		require.Equal(t, "A opened, A updated(31), A updated(61), B opened, A resolved", b.to.all())
		require.True(t, b.status().Up)
		require.EqualValues(t, 5, b.status().Sent)
	})
}

// After an outage, the receiver is sent the newest message of each alert, and both
// the beginning and the end of alerts that opened and ended meanwhile.
func TestOutage(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.set(down)
		b.notify(fire("A", 1), fire("B", 1))
		for i := range int64(3600) {
			b.notify(fire("A", i), fire("C", i))
			b.pass(time.Second)
		}
		b.notify(end(fire("B", 7)))
		require.Less(t, b.to.requests, 200, "tries back off")
		st := b.status()
		require.False(t, st.Up)
		require.Equal(t, 3, st.Pending)
		require.Equal(t, "no receiver", st.Error)
		require.Positive(t, st.Failed[ReasonConnection])
		b.to.set(nil)
		b.pass(maxRetry)
		require.ElementsMatch(t, []string{"A opened", "B opened", "C opened", "B resolved"}, b.to.sentMessages())
		require.Zero(t, b.status().Pending)
		answers := b.loop.Answers(fire("B", 1).Fingerprint)
		require.Equal(t, "no receiver", answers[0].Error)
		require.Greater(t, answers[0].Times, 1, "the tries are one entry")
		require.True(t, answers[len(answers)-1].Resolved)
		require.Empty(t, answers[len(answers)-1].Error)
	})
}

// Requests are bounded in messages and bytes.
func TestBatches(t *testing.T) {
	inBubble(t, func(b *bench) {
		var eps []episodes.Episode
		for i := range 100 {
			eps = append(eps, fire(fmt.Sprint("A", i), 1))
		}
		b.notify(eps...)
		require.Len(t, b.to.sentMessages(), 100)
		for _, n := range b.to.sizes {
			require.LessOrEqual(t, n, 10)
		}
	})
}

// A refused message does not delay others, and is sent again alone.
func TestPoison(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.set(refuse("Bad"))
		b.notify(fire("A", 1), fire("Bad", 1), fire("B", 1), fire("Unspeakable", 1))
		require.ElementsMatch(t, []string{"A opened", "B opened"}, b.to.sentMessages())
		st := b.status()
		require.EqualValues(t, 1, st.Failed[ReasonRefused])
		require.EqualValues(t, 1, st.Failed[ReasonInvalid])
		require.True(t, st.Up)
		require.NotEmpty(t, b.loop.Answers(fire("Bad", 1).Fingerprint)[0].Error)
		require.NotEmpty(t, b.loop.Answers(fire("Unspeakable", 1).Fingerprint)[0].Error)
		b.to.set(nil)
		b.pass(5 * time.Minute)
		require.Contains(t, b.to.sentMessages(), "Bad opened")
	})
}

// A receiver that refuses everything counts as down: nothing is dropped.
func TestEverythingRefused(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.set(refuse(""))
		b.notify(fire("A", 1), fire("B", 1))
		b.notify(end(fire("B", 1)))
		b.pass(time.Hour)
		require.False(t, b.status().Up)
		b.to.set(nil)
		b.pass(maxRetry)
		require.ElementsMatch(t, []string{"A opened", "B opened", "B resolved"}, b.to.sentMessages())
	})
}

// The loop waits as long as the receiver asks.
func TestRetryAfter(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.set(func([]string) Answer {
			return Answer{Reason: ReasonRateLimited, Err: errors.New("slowly"), RetryAfter: 10 * time.Minute}
		})
		b.notify(fire("A", 1))
		b.to.set(nil)
		b.pass(9 * time.Minute)
		require.Empty(t, b.to.sentMessages())
		b.pass(time.Minute)
		require.Equal(t, "A opened", b.to.all())
	})
}

// A receiver that hangs delays a stop by no more than Drain, and is sent what is due
// if it answers meanwhile.
func TestStop(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.hang = true
		b.notify(fire("A", 1))
		at := time.Now()
		b.stop()
		require.Equal(t, Drain, time.Since(at))
		require.Empty(t, b.to.sentMessages())
	})
	inBubble(t, func(b *bench) {
		b.to.set(down)
		b.notify(fire("A", 1))
		b.to.set(nil)
		at := time.Now()
		b.stop()
		require.Zero(t, time.Since(at))
		require.Equal(t, "A opened", b.to.all())
	})
}

// After a restart, only what was not accepted before is sent.
func TestRestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.notify(fire("A", 1), fire("B", 1), fire("C", 1))
		b.notify(end(fire("C", 1)))
		b.to.set(down)
		b.notify(end(fire("B", 1)), fire("D", 1))
		b.stop()
		state, err := b.loop.Export()
		require.NoError(t, err)

		b.to = &fake{}
		b.open(state)
		b.notify(fire("A", 1), fire("D", 1), end(fire("C", 1)))
		b.pass(time.Minute)
		require.ElementsMatch(t, []string{"B resolved", "D opened"}, b.to.sentMessages())
		for _, bad := range []string{"", "{", `{"version":99}`, `[1]`} {
			require.Error(t, b.loop.Import([]byte(bad)), bad)
		}
	})
}

// The state is bounded, and dropped messages are counted.
func TestBound(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.to.set(down)
		for i := range 3000 {
			b.loop.Notify([]episodes.Episode{fire(fmt.Sprint("A", i), 1)})
		}
		synctest.Wait()
		require.Equal(t, 1000, b.status().Pending)
		require.EqualValues(t, 2000, b.status().Failed[ReasonEvicted])
	})
}
