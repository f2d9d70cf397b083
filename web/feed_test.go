package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// changed decodes a message of the stream.
func changed(t *testing.T, message []byte) (c Change) {
	t.Helper()
	name, data, ok := strings.Cut(string(message), "\ndata: ")
	require.True(t, ok)
	require.Equal(t, "event: change", name)
	require.NoError(t, json.Unmarshal([]byte(data), &c))
	return c
}

func TestFeed(t *testing.T) {
	list := exampleView().Episodes()
	f := newFeed(func() []episodes.Episode { return append([]episodes.Episode(nil), list...) })
	f.publishChanges(now) // nobody reads
	sub := f.subscribe()
	next := func() *Change {
		f.publishChanges(now)
		select {
		case m := <-sub:
			c := changed(t, m)
			return &c
		default:
			return nil
		}
	}
	require.Nil(t, next(), "nothing changed since the subscription")
	list[3].Count++
	c := next()
	require.Len(t, c.Episodes, 1)
	require.Equal(t, "0000000000000abc", c.Episodes[0].Fingerprint)
	require.EqualValues(t, 1235, c.Episodes[0].Count)
	require.False(t, c.Episodes[0].StateChanged)
	require.Nil(t, next())
	list[3].OnHold = true
	require.True(t, next().Episodes[0].StateChanged)
	list = list[:3]
	c = next()
	require.Empty(t, c.Episodes)
	require.Equal(t, []string{"0000000000000abc"}, c.Gone)

	// A message is bounded.
	for i := range 500 {
		list = append(list, episodes.Episode{Fingerprint: episodes.Fingerprint(0x9000 + i), Alert: "A", State: episodes.StateFiring})
	}
	f.publishChanges(now)
	m := <-sub
	require.Less(t, len(m), 50<<10)
	require.Equal(t, 500-maxChanges, changed(t, m).More)

	// A reader that takes nothing is dropped, and the others are not.
	other := f.subscribe()
	for i := range maxWaiting + 1 {
		list[0].Count = int64(10_000 + i)
		f.publishChanges(now)
		<-sub
	}
	n := 0
	for range other {
		n++
	}
	require.Equal(t, maxWaiting, n, "its channel is closed")
	f.unsubscribe(other)
	f.unsubscribe(sub)
	require.Nil(t, f.lastSent, "nothing is compared while nobody reads")
}

func TestFeedIsBounded(t *testing.T) {
	f := newFeed(func() []episodes.Episode { return nil })
	for range maxSubscribers {
		require.NotNil(t, f.subscribe())
	}
	require.Nil(t, f.subscribe())
	f.endStreams()
	require.NotNil(t, f.subscribe())
}

// The stream works behind the limits of the listener, outlasts the time of other requests,
// proves every few seconds that the daemon is alive, and ends with the server.
func TestStream(t *testing.T) {
	view := exampleView()
	var count atomic.Int64
	view.Episodes = func() []episodes.Episode {
		all := exampleView().Episodes()
		all[3].Count += count.Load()
		return all
	}
	s := newTestServer(t, view, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l, nil) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + l.Addr().String() + "/api/v1/stream")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		require.Fail(t, "the stream ended", "before %q", want)
	}
	until("event: hello")
	count.Add(1)
	until(`"count":1235`)
	cancel()
	require.NoError(t, <-done)
	for range 3 { // the rest of the last message
		if !lines.Scan() {
			return
		}
	}
	require.Fail(t, "the stream goes on after the server ended")
}

// Without changes, a reader hears every five seconds that the daemon is alive.
func TestStreamHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, exampleView(), Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/v1/stream", nil)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, 1, strings.Count(w.Body.String(), "event: hello"))
		require.Equal(t, 2, strings.Count(w.Body.String(), "event: alive"))
		require.Empty(t, s.feed.subs)
	})
}

func TestCompareOfEndedAndOpen(t *testing.T) {
	open := episodes.Episode{Fingerprint: 5, State: episodes.StateFiring, StartsAt: now}
	ended := episodes.Episode{Fingerprint: 5, State: episodes.StateResolved, StartsAt: now.Add(-time.Hour), EndsAt: now}
	before, _ := compareEpisodes(nil, []episodes.Episode{ended})
	_, c := compareEpisodes(before, []episodes.Episode{open, ended})
	require.Len(t, c.Episodes, 1)
	require.Equal(t, episodes.StateFiring, c.Episodes[0].State)
	require.Equal(t, "[]", fmt.Sprint(c.Gone))
}
