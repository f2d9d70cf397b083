package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakekube"
)

const things = "/apis/test/v1/things"

// store is a Handler that keeps what a projection of objects would be.
type store struct {
	mu      sync.Mutex
	now     map[string]string // names and values
	unseen  map[string]bool   // by the list in progress
	listed  int
	deleted []string
	errs    []string
	lasting error
	proved  time.Time
	fails   error         // of the next Changed
	blocks  chan struct{} // holds Changed
}

func (s *store) Listing() {
	s.unseen = map[string]bool{}
	for name := range s.now {
		s.unseen[name] = true
	}
}

func (s *store) Changed(raw json.RawMessage) error {
	if s.blocks != nil {
		<-s.blocks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fails; err != nil {
		s.fails = nil
		return err
	}
	name, value := thing(raw)
	s.now[name] = value
	delete(s.unseen, name)
	return nil
}

func (s *store) Deleted(_ context.Context, raw json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _ := thing(raw)
	delete(s.now, name)
	s.deleted = append(s.deleted, name)
	return nil
}

func (s *store) Listed(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed++
	for _, name := range slices.Sorted(maps.Keys(s.unseen)) {
		delete(s.now, name)
		s.deleted = append(s.deleted, name)
	}
}

func (s *store) Passed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasting = nil
}

func (s *store) Failed(err error, lasting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err.Error())
	if lasting {
		s.lasting = err
	}
}

func (s *store) progress(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.proved) {
		panic("progress went back")
	}
	s.proved = at
}

func thing(raw json.RawMessage) (name, value string) {
	var o struct {
		Metadata struct{ Name string }
		Value    string
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		panic(err)
	}
	return o.Metadata.Name, o.Value
}

// watching runs a Watcher in a bubble.
type watching struct {
	*testing.T
	api *fakekube.Server
	w   *Watcher
	*store
}

func inBubble(t *testing.T, test func(b *watching), set ...func(b *watching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &watching{T: t, api: fakekube.New(), store: &store{now: map[string]string{}}}
		b.w = &Watcher{
			Client: New(Options{Transport: b.api}), Path: things, Clock: time.Now, Handler: b.store, Progress: b.store.progress,
		}
		b.put("a", "1")
		for _, f := range set {
			f(b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.w.Run(ctx); close(done) }()
		b.mu.Lock()
		b.pass(time.Second)
		test(b)
		b.mu.Unlock()
		cancel()
		<-done
		require.Zero(t, b.api.Open())
	})
}

// pass lets time pass. A test may look at the store until its next call.
func (b *watching) pass(d time.Duration) {
	b.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	b.mu.Lock()
}

func (b *watching) put(name, value string) {
	b.api.Put(things, fakekube.Object{"metadata": fakekube.Object{"name": name}, "value": value})
}

// has requires the names and values that the handler knows.
func (b *watching) has(want string) {
	b.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(b.now)) {
		got = append(got, name+"="+b.now[name])
	}
	require.Equal(b, want, strings.Join(got, " "))
}

// age returns how long ago the proved time is.
func (b *watching) age() time.Duration { return time.Since(b.proved) }

func TestWatcher(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.has("a=1")
		require.Equal(b, State{Synced: true, Open: true, LastRead: time.Now().Add(-time.Second)}, b.w.State())
		b.put("b", "1")
		b.put("a", "2")
		b.pass(time.Millisecond)
		b.has("a=2 b=1")
		b.api.Remove(things, "", "a")
		b.pass(time.Millisecond)
		b.has("b=1")
		b.pass(time.Hour)
		require.Equal(b, 1, b.listed, "a watch that ends continues from its version")
		require.Empty(b, b.errs)
	})
}

// TestRelist: a list has several pages, and its repetition after 410 reports what was
// deleted meanwhile.
func TestRelist(t *testing.T) {
	inBubble(t, func(b *watching) {
		for i := range 2 * pageSize {
			b.put(fmt.Sprint("n", i), "1")
		}
		b.pass(time.Second)
		require.Len(b, b.now, 2*pageSize+1)
		b.api.Freeze(true)
		b.put("a", "2")
		b.api.Remove(things, "", "n7")
		b.api.Expire()
		b.api.Freeze(false)
		asked := b.api.Asked("list")
		b.pass(10 * time.Second)
		require.Len(b, b.now, 2*pageSize)
		require.Equal(b, "2", b.now["a"])
		require.Equal(b, []string{"n7"}, b.deleted)
		require.Equal(b, 2, b.api.Asked("list")-asked)
		require.Equal(b, []string{"the API server answers 410: too old resource version"}, b.errs)
		require.NoError(b, b.lasting)
	})
}

// TestExpiredAfterAnOutage: a server that answers again is asked again at once, although it no
// longer knows the version.
func TestExpiredAfterAnOutage(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.api.Break(func(*http.Request) *http.Response { return fakekube.Answer(http.StatusServiceUnavailable, "down") })
		b.api.Cut()
		b.pass(5 * time.Minute)
		b.put("a", "2")
		b.api.Expire()
		b.api.Break(nil)
		b.pass(36 * time.Second) // the longest wait, and a second
		b.has("a=2")
	})
}

func TestResync(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.pass(59 * time.Minute)
		require.Equal(b, 1, b.listed)
		b.pass(10 * time.Minute)
		require.Equal(b, 2, b.listed)
	}, func(b *watching) { b.w.Resync = time.Hour })
}

// TestProgress: progress is proved by a version that the watch has delivered, or by its
// silence after the answer.
func TestProgress(t *testing.T) {
	inBubble(t, func(b *watching) {
		for range 30 {
			b.pass(time.Second)
			require.Less(b, b.age(), 2*(proveEvery+settleFor), "nothing happens")
			b.api.Touch()
		}
		for i := range 300 {
			b.put("a", fmt.Sprint(i))
			b.pass(100 * time.Millisecond)
		}
		require.Less(b, b.age(), 2*(proveEvery+settleFor), "much happens")
		require.Less(b, b.api.Asked("one"), 15)
	})
}

// TestNoProgress: nothing is proved while the API server cannot be asked, and it hangs in
// any way; afterwards nothing is missing.
func TestNoProgress(t *testing.T) {
	f := func(name string, most time.Duration, fault func(r *http.Request) *http.Response, text string) {
		t.Helper()
		inBubble(t, func(b *watching) {
			b.pass(time.Minute)
			before := b.proved
			b.api.Freeze(true)
			b.api.Break(fault)
			b.pass(time.Millisecond)
			b.put("b", "1")
			b.pass(10 * time.Minute)
			require.Less(b, b.proved.Sub(before), most, name)
			require.ErrorContains(b, b.lasting, text, name)
			require.Less(b, b.api.Asked("one")+b.api.Asked("watch")+b.api.Asked("list"), 60, name)
			b.api.Break(nil)
			b.api.Freeze(false)
			b.pass(75 * time.Second)
			b.has("a=1 b=1")
			require.NoError(b, b.lasting, name)
			require.Less(b, b.age(), 2*(proveEvery+settleFor), name)
			require.Equal(b, 1, b.listed, name)
		})
	}
	f("hangs", 10*time.Second, fakekube.Hang, "no answer within 30s")
	f("broken", 10*time.Second, func(*http.Request) *http.Response { return fakekube.Answer(500, "etcdserver: leader changed") }, "etcdserver: leader changed")
	f("token", 10*time.Second, func(*http.Request) *http.Response { return fakekube.Answer(401, "Unauthorized") }, "401: Unauthorized")
	f("role", 10*time.Second, func(*http.Request) *http.Response { return fakekube.Answer(403, "things is forbidden") }, "403: things is forbidden")
	f("removed", 10*time.Second, func(*http.Request) *http.Response { return fakekube.Answer(404, "not found") }, "404: not found")
	f("busy", 10*time.Second, func(*http.Request) *http.Response { return fakekube.Answer(429, "slow down") }, "429: slow down")
}

// TestFrozen: a watch that stays open and delivers nothing is given up.
func TestFrozen(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.pass(5 * time.Second)
		b.api.Freeze(true)
		b.put("b", "1")
		b.pass(silentFor)
		b.has("a=1")
		asked := b.api.Asked("watch")
		b.api.Freeze(false) // for new connections as well
		b.pass(time.Second)
		b.has("a=1 b=1")
		require.LessOrEqual(b, asked, 2)
		require.Empty(b, b.errs)
	})
}

// TestBacklog: while the handler is behind, nothing is proved.
func TestBacklog(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.pass(time.Minute)
		b.blocks = make(chan struct{})
		b.put("b", "1")
		b.put("c", "1")
		b.pass(time.Millisecond)
		before := b.proved
		b.pass(time.Minute)
		b.blocks <- struct{}{}
		b.pass(time.Minute)
		require.Less(b, b.proved.Sub(before), proveEvery)
		close(b.blocks)
		b.pass(time.Minute)
		b.has("a=1 b=1 c=1")
		require.Less(b, b.age(), 2*(proveEvery+settleFor))
	})
}

// TestHandlerFails: an object is passed on again after an error.
func TestHandlerFails(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.fails = errors.New("no thing")
		b.put("b", "1")
		b.pass(time.Minute)
		b.has("a=1 b=1")
		require.Equal(b, []string{"no thing"}, b.errs)
	})
}

// TestCut: broken connections lose nothing and cause no list.
func TestCut(t *testing.T) {
	inBubble(t, func(b *watching) {
		for i := range 20 {
			b.put("a", fmt.Sprint(i))
			b.api.Cut()
			b.put("b", fmt.Sprint(i))
			b.pass(10 * time.Second)
			b.has(fmt.Sprintf("a=%d b=%d", i, i))
		}
		require.Equal(b, 1, b.listed)
		require.NoError(b, b.lasting)
	})
}

// TestRefused: an API server that has just started answers 403 for some seconds. A right that
// was really withdrawn is reported, and asked for every half minute.
func TestRefused(t *testing.T) {
	refuse := func(*http.Request) *http.Response { return fakekube.Answer(http.StatusForbidden, "forbidden") }
	inBubble(t, func(b *watching) {
		b.api.Break(refuse)
		b.api.Cut()
		b.pass(10 * time.Second)
		b.api.Break(nil)
		b.pass(9 * time.Second)
		require.NoError(b, b.lasting)
		require.True(b, b.w.State().Open)

		b.pass(time.Minute)
		b.errs = nil
		b.api.Break(refuse)
		b.api.Cut()
		b.pass(10 * time.Second)
		require.NoError(b, b.lasting)
		b.pass(20 * time.Second)
		require.ErrorContains(b, b.lasting, "forbidden")
		tries := len(b.errs)
		b.pass(10 * time.Minute)
		require.InDelta(b, 20, len(b.errs)-tries, 2)
	})
}

// TestRewound: after the storage was restored from a backup, a watch from a later version
// would stay silent.
func TestRewound(t *testing.T) {
	rewound := 0
	inBubble(t, func(b *watching) {
		version := b.api.Version()
		for i := range 20 {
			b.put("a", fmt.Sprint(i))
		}
		b.pass(20 * time.Second)
		require.NotZero(b, b.proved)
		b.api.Rewind(version)
		b.put("b", "1")
		b.pass(20 * time.Second)
		b.has("a=19 b=1")
		require.Equal(b, 1, rewound)
		require.Equal(b, 2, b.listed)
		require.Less(b, b.age(), 2*(proveEvery+settleFor))
	}, func(b *watching) { b.w.Rewound = func() { rewound++ } })
}

// TestFrom: a watch continues from a version without a list, or lists if that is gone.
func TestFrom(t *testing.T) {
	f := func(expire bool, want string, lists int) {
		t.Helper()
		inBubble(t, func(b *watching) {
			b.pass(10 * time.Second)
			b.has(want)
			require.Equal(b, lists, b.listed)
		}, func(b *watching) {
			b.w.StartVersion = fmt.Sprint(b.api.Version())
			b.put("b", "1")
			if expire {
				b.api.Expire()
			}
		})
	}
	f(false, "b=1", 0)
	f(true, "a=1 b=1", 1)
}

// TestBookmarks: a bookmark moves the version to watch from.
func TestBookmarks(t *testing.T) {
	inBubble(t, func(b *watching) {
		b.api.Touch()
		b.pass(2 * time.Minute)
		b.api.Expire()
		b.pass(time.Minute)
		b.api.Cut()
		b.pass(time.Minute)
		require.Equal(b, 2, b.listed, "the events are gone for the open watch only")
		b.pass(time.Hour)
		require.Equal(b, 2, b.listed)
	}, func(b *watching) { b.api.Bookmarks = time.Minute })
}
