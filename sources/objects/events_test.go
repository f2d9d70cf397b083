package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
	"crowsnest/test/fakekube"
)

var _ sources.Source = (*Events)(nil)

const allEvents = eventsPath + "/events"

// eventRecord is a line that a pipe got.
type eventRecord struct {
	namespace, text string
	at              time.Time
}

// eventPipe collects lines.
type eventPipe struct {
	sources.Pipeline
	mu      sync.Mutex
	records []eventRecord
	proved  time.Time
}

func (p *eventPipe) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, eventRecord{s.Labels()["namespace"], string(rec.Text), rec.Time})
	commit()
}

func (p *eventPipe) AdvanceWatermark(_ string, t time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proved = t
}

// eventBench is a source in a bubble with a fake API server.
type eventBench struct {
	*testing.T
	api *fakekube.Server
	cfg EventsConfig
	*eventPipe
	src  *Events
	stop func()
}

func eventsInBubble(t *testing.T, test func(b *eventBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &eventBench{T: t, api: fakekube.New(), eventPipe: &eventPipe{}}
		b.cfg = EventsConfig{Transport: b.api}
		test(b)
		b.stop()
		require.Zero(t, b.api.Open())
	})
}

// start starts a source that continues from positions.
func (b *eventBench) start(positions json.RawMessage) {
	b.src = NewEvents(b.cfg)
	require.NoError(b, b.src.Restore(positions))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- b.src.Run(ctx, b.eventPipe) }()
	b.stop = func() {
		cancel()
		require.NoError(b, <-done)
	}
	b.pass(time.Second)
}

func (b *eventBench) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// put creates an Event, or changes it to another count.
func (b *eventBench) put(namespace, name string, count int, at time.Time) {
	o := fakekube.Object{
		"metadata":  fakekube.Object{"namespace": namespace, "name": name, "uid": "uid-" + namespace + name, "creationTimestamp": eventTime(at)},
		"eventTime": eventTime(at), "type": "Warning", "reason": "BackOff", "note": "restarting",
		"regarding":           fakekube.Object{"kind": "Pod", "namespace": namespace, "name": name, "uid": "u"},
		"reportingController": "kubelet",
	}
	if count > 1 {
		o["series"] = fakekube.Object{"count": count, "lastObservedTime": eventTime(at)}
	}
	b.api.Put(allEvents, o)
}

func eventTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// wrote returns the names and counts of the lines so far.
func (b *eventBench) wrote() (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.records {
		_, name, _ := strings.Cut(r.text, " name=")
		name, _, _ = strings.Cut(name, " ")
		_, count, _ := strings.Cut(r.text, " count=")
		count, _, _ = strings.Cut(count, " ")
		out = append(out, r.namespace+"/"+name+"="+count)
	}
	return out
}

func TestEvents(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		b.put("shop", "old", 1, time.Now().Add(-time.Hour))
		b.put("shop", "web", 1, time.Now().Add(-time.Minute))
		b.start(nil)
		require.Equal(b, []string{"shop/web=1"}, b.wrote())
		require.Equal(b, `msg="event" type=Warning reason=BackOff kind=Pod object=shop/web name=web pod=web uid=u reporter=kubelet count=1 message=restarting`, b.records[0].text)
		require.Equal(b, time.Now().Add(-time.Second-time.Minute).UTC(), b.records[0].at.UTC())
		b.put("shop", "web", 4, time.Now())
		b.put("shop", "web", 4, time.Now()) // an edit
		b.put("team", "db", 1, time.Now().Add(time.Hour))
		b.api.Remove(allEvents, "shop", "web")
		b.pass(time.Second)
		require.Equal(b, []string{"shop/web=1", "shop/web=4", "team/db=1"}, b.wrote())
		require.Equal(b, time.Now().Add(-time.Second), b.records[2].at, "no time is in the future")
		b.pass(time.Hour)
		st := b.src.Status()
		require.True(b, st.Up && st.Opened)
		require.EqualValues(b, 3, st.Lines)
		require.Len(b, st.Streams, 2)
		require.Zero(b, st.Lag)
		require.Less(b, time.Since(b.proved), lagAfter)
		require.Empty(b, st.Losses)
		require.Equal(b, 1, b.api.Asked("list"), "the watch is silent, and continues")
	})
}

// TestEventsRestart: a restart continues from its position, with or without the events of the
// watch, and repeats nothing.
func TestEventsRestart(t *testing.T) {
	f := func(expire bool, lists int) {
		t.Helper()
		eventsInBubble(t, func(b *eventBench) {
			b.put("shop", "web", 1, time.Now())
			b.put("shop", "db", 1, time.Now())
			b.start(nil)
			b.put("shop", "db", 2, time.Now())
			b.pass(time.Second)
			b.stop()
			saved := b.src.Positions()
			b.put("shop", "web", 2, time.Now())
			b.put("shop", "new", 1, time.Now().Add(-50*time.Minute)) // reaches the API server late
			if expire {
				b.api.Expire()
			}
			b.pass(30 * time.Minute)
			asked := b.api.Asked("list")
			b.start(saved)
			b.pass(2 * time.Second)
			got := b.wrote()
			slices.Sort(got)
			require.Equal(b, []string{"shop/db=1", "shop/db=2", "shop/new=1", "shop/web=1", "shop/web=2"}, got)
			require.Equal(b, lists, b.api.Asked("list")-asked)
			require.Empty(b, b.src.Status().Losses)
		})
	}
	f(false, 0)
	f(true, 1)
}

// TestEventsForgottenCounts: without the counts, versions alone repeat nothing in a list.
func TestEventsForgottenCounts(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		for i := range maxCounts + 100 {
			b.put("shop", fmt.Sprint("e", i), 1, time.Now())
		}
		b.start(nil)
		b.stop()
		saved := b.src.Positions()
		require.Less(b, len(saved), 150_000)
		b.put("shop", "new", 1, time.Now())
		b.api.Expire()
		b.start(saved)
		b.pass(2 * time.Second)
		require.Len(b, b.wrote(), maxCounts+101)
	})
}

// TestEventsListInterrupted: a list that fails halfway repeats nothing.
func TestEventsListInterrupted(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		for i := range 600 {
			b.put("shop", fmt.Sprint("e", i), 1, time.Now())
		}
		b.api.Break(func(r *http.Request) *http.Response {
			if r.URL.Query().Get("continue") != "" {
				return fakekube.Answer(500, "etcdserver: request timed out")
			}
			return nil
		})
		b.start(nil)
		require.Len(b, b.wrote(), 250)
		b.stop()
		saved := b.src.Positions()
		b.api.Break(nil)
		b.start(saved)
		got := b.wrote()
		slices.Sort(got)
		require.Len(b, slices.Compact(got), 600)
		require.Len(b, b.records, 600)
	})
}

// TestEventsLongOutage: Events that are gone may have been lost, and that is reported once.
func TestEventsLongOutage(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		b.start(nil)
		b.pass(time.Minute)
		b.stop()
		saved := b.src.Positions()
		b.put("shop", "web", 1, time.Now())
		b.pass(2 * time.Hour)
		b.api.Expire()
		b.start(saved)
		b.pass(2 * time.Second)
		require.Equal(b, []string{"shop/web=1"}, b.wrote())
		require.EqualValues(b, 1, b.src.Status().Losses[reasonExpired].Count)
		b.api.Expire()
		b.pass(time.Minute)
		b.stop()
		b.start(b.src.Positions())
		require.EqualValues(b, 1, b.src.Status().Losses[reasonExpired].Count)
	})
}

// TestEventsRestored: after the API server's storage was restored from a backup, versions of
// new Events are older than the position.
func TestEventsRestored(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		version := b.api.Version()
		for i := range 30 {
			b.put("shop", fmt.Sprint("e", i), 1, time.Now())
		}
		b.start(nil)
		b.stop()
		b.api.Rewind(version)
		b.put("shop", "new", 1, time.Now())
		b.start(b.src.Positions())
		b.pass(20 * time.Second)
		require.Len(b, b.wrote(), 31)
		require.Equal(b, "shop/new=1", b.wrote()[30])
		require.Less(b, time.Since(b.proved), lagAfter)
	})
}

// TestEventsAway: while the API server is away, the watermark stands and the source reports
// why; afterwards nothing is missing.
func TestEventsAway(t *testing.T) {
	f := func(code int, message, text string) {
		t.Helper()
		eventsInBubble(t, func(b *eventBench) {
			b.put("shop", "web", 1, time.Now())
			b.start(nil)
			b.pass(time.Minute)
			b.api.Break(func(*http.Request) *http.Response { return fakekube.Answer(code, message) })
			b.api.Cut()
			b.pass(time.Second)
			held := b.proved
			b.put("shop", "web", 2, time.Now())
			b.pass(10 * time.Minute)
			st := b.src.Status()
			require.False(b, st.Up)
			require.Equal(b, text, st.Error)
			require.Equal(b, held, b.proved)
			require.Greater(b, st.Lag, 10*time.Minute)
			require.NotZero(b, st.Errors["watch"])
			b.api.Break(nil)
			b.pass(45 * time.Second)
			require.Equal(b, []string{"shop/web=1", "shop/web=2"}, b.wrote())
			st = b.src.Status()
			require.True(b, st.Up)
			require.Empty(b, st.Error)
			require.Less(b, time.Since(b.proved), lagAfter)
		})
	}
	f(401, "Unauthorized", "the API server refuses the credentials: renew the token or the kubeconfig, it is read again every 30s (the API server answers 401: Unauthorized)")
	f(403, "events is forbidden", "not allowed: grant list and watch of events.events.k8s.io (the API server answers 403: events is forbidden)")
	f(500, "etcd is down", "Events cannot be read: the API server answers 500: etcd is down")
}

// TestEventsHistories compares random histories, with everything that can go wrong, with the
// Events that were put.
func TestEventsHistories(t *testing.T) {
	for seed := range uint64(30) {
		eventsInBubble(t, func(b *eventBench) {
			r := rand.New(rand.NewPCG(seed, 0))
			want, counts := []string{}, map[string]int{}
			b.start(nil)
			for range 300 {
				switch r.IntN(12) {
				default:
					name := fmt.Sprint("e", r.IntN(40))
					counts[name] += 1 + r.IntN(2)
					b.put("shop", name, counts[name], time.Now())
					want = append(want, fmt.Sprintf("shop/%s=%d", name, counts[name]))
					b.pass(time.Millisecond) // a list has only the newest count
				case 0:
					b.api.Cut()
				case 1:
					b.api.Expire()
				case 2:
					b.stop()
					b.start(b.src.Positions())
				case 3:
					b.pass(time.Duration(r.IntN(200)) * time.Second)
				case 4:
					b.pass(5 * time.Second)
				}
				if b.api.Open() == 0 {
					b.pass(5 * time.Second)
				}
			}
			b.pass(2 * time.Minute)
			got := b.wrote()
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(b, want, got, "seed %d", seed)
		})
	}
}

// TestEventsNamespaces: each namespace has a watch and a position.
func TestEventsNamespaces(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		b.cfg.Namespaces = []string{"shop", "team"}
		b.api.Break(func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "/team/") {
				return fakekube.Answer(403, "team is forbidden")
			}
			return nil
		})
		b.start(nil)
		b.pass(time.Minute)
		require.False(b, b.src.Status().Up)
		require.Contains(b, b.src.Status().Error, "team is forbidden")
		require.True(b, b.proved.IsZero())
		b.api.Break(nil)
		b.pass(time.Minute)
		require.True(b, b.src.Status().Up)
		require.Less(b, time.Since(b.proved), lagAfter)
		var p eventPositions
		require.NoError(b, json.Unmarshal(b.src.Positions(), &p))
		require.Len(b, p.Namespaces, 2)
	})
}

// TestEventsUnreadable: an Event in an unknown form is reported, and does not stop the others.
func TestEventsUnreadable(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		b.start(nil)
		b.api.Put(allEvents, fakekube.Object{"metadata": fakekube.Object{"namespace": "shop", "name": "odd"}, "series": fakekube.Object{"count": "many"}})
		b.put("shop", "web", 1, time.Now())
		b.pass(time.Minute)
		require.Equal(b, []string{"shop/web=1"}, b.wrote())
		require.EqualValues(b, 1, b.src.Status().Losses[reasonUnreadable].Count)
		require.True(b, b.src.Status().Up)
	})
}

func TestEventsManyNamespaces(t *testing.T) {
	eventsInBubble(t, func(b *eventBench) {
		b.start(nil)
		for i := range 3 * maxStreams {
			b.put(fmt.Sprint("ns", i), "web", 1, time.Now())
		}
		b.pass(time.Second)
		st := b.src.Status()
		require.LessOrEqual(b, len(st.Streams), maxStreams)
		require.EqualValues(b, 3*maxStreams, st.Lines)
	})
}

func TestEventsServes(t *testing.T) {
	f := func(cfg EventsConfig, text string, want bool) {
		t.Helper()
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, NewEvents(cfg).Serves(sel), text)
	}
	f(EventsConfig{}, `{component="events"}`, true)
	f(EventsConfig{}, `{component="events", namespace="shop"}`, true)
	f(EventsConfig{}, `{component="leases"}`, false)
	f(EventsConfig{}, `{container="web"}`, false)
	f(EventsConfig{Labels: map[string]string{"cluster": "c1"}}, `{component="events", cluster="c1"}`, true)
	f(EventsConfig{Labels: map[string]string{"cluster": "c1"}}, `{component="events", cluster="c2"}`, false)
	f(EventsConfig{Namespaces: []string{"a", "b"}}, `{component="events", namespace="b"}`, true)
	f(EventsConfig{Namespaces: []string{"a", "b"}}, `{component="events", namespace="c"}`, false)
}

func TestEventsConfig(t *testing.T) {
	f := func(cfg EventsConfig, want string) {
		t.Helper()
		err := cfg.Validate()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, want)
	}
	f(EventsConfig{Namespaces: []string{"shop"}, Labels: map[string]string{"cluster": "c"}}, "")
	f(EventsConfig{Namespaces: []string{"shop*"}}, `events: namespaces: "shop*" is not the name of a namespace; list names, or remove the key to select all`)
	f(EventsConfig{Namespaces: []string{"a", "a"}}, `events: namespaces: "a" is listed twice; remove one`)
	f(EventsConfig{LookBack: -1}, "events: look_back is -1ns; use a duration above 0, such as 15m")
	f(EventsConfig{Labels: map[string]string{"component": "x"}}, `events: label "component" is already set by the source; remove it here`)
	f(EventsConfig{Labels: map[string]string{"a-b": "x"}}, `events: label "a-b" is not a label name; use letters, digits and _`)
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	f(EventsConfig{Namespaces: many}, "events: namespaces: the list has 51 names, which is too many; remove the key, which selects all")
}

func TestEventsRestoreRefuses(t *testing.T) {
	for _, bad := range []string{`{`, `[]`, `{"counts":"AAA="}`, `{"namespaces":{"":{"version":7}}}`} {
		require.ErrorContains(t, NewEvents(EventsConfig{}).Restore(json.RawMessage(bad)), "read the positions of events: ", bad)
	}
	require.NoError(t, NewEvents(EventsConfig{}).Restore(nil))
}
