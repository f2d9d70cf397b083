package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSamples(t *testing.T) {
	s := newSamples()
	at := now.Truncate(time.Minute)
	take := func(after time.Duration, value int64, fresh bool) {
		s.addSample(at.Add(after), map[string]counter{"a": {value, fresh}})
	}
	take(0, 1000, false)
	counts, _ := s.perMinute("a")
	require.Equal(t, []uint32{0}, counts, "what was counted before is not of this minute")
	take(15*time.Second, 1004, false)
	take(time.Minute, 1010, false)
	take(3*time.Minute, 1011, false)
	counts, from := s.perMinute("a")
	require.Equal(t, []uint32{4, 6, 0, 1}, counts)
	require.Equal(t, at, from)
	perSecond, ok := s.perSecond("a")
	require.True(t, ok)
	require.InDelta(t, 10.0/180, perSecond, 1e-9)
	take(4*time.Minute, 3, false) // the counter began again
	take(5*time.Minute, 5, false)
	counts, _ = s.perMinute("a")
	require.Equal(t, []uint32{4, 6, 0, 1, 0, 2}, counts)

	take(100*time.Minute, 5, false)
	counts, _ = s.perMinute("a")
	require.Len(t, counts, minutes)
	for _, n := range counts {
		require.Zero(t, n)
	}
	s.addSample(at.Add(101*time.Minute), map[string]counter{"b": {7, true}})
	counts, _ = s.perMinute("a")
	require.Nil(t, counts, "it is forgotten with its counter")
	counts, _ = s.perMinute("b")
	require.Equal(t, []uint32{7}, counts, "a fresh counter began at 0")
	s.addSample(at, map[string]counter{"b": {8, true}}) // a clock that was set back
	counts, _ = s.perMinute("b")
	require.Equal(t, []uint32{8}, counts)
}

func TestSamplesAreBounded(t *testing.T) {
	s := newSamples()
	values := map[string]counter{}
	for i := range maxSeries + 10 {
		values[itoa(i)] = counter{}
	}
	s.addSample(now, values)
	require.Len(t, s.series, maxSeries)
}

func TestDownSince(t *testing.T) {
	s := newSamples()
	e := Endpoint{Sink: "am", Endpoint: "http://a"}
	s.setDown(now, []Endpoint{e})
	s.setDown(now.Add(time.Minute), []Endpoint{e})
	require.Equal(t, now, s.downSince(e))
	e.Up = true
	s.setDown(now.Add(2*time.Minute), []Endpoint{e})
	require.True(t, s.downSince(e).IsZero())
}

// The pages and the API have the rates and the time since when a receiver is down.
func TestSamplesAreShown(t *testing.T) {
	view := exampleView()
	s := newTestServer(t, view, Options{})
	lines := int64(0)
	sources := view.Sources
	s.view.Sources = func() []Source {
		all := sources()
		all[0].Lines += lines
		return all
	}
	at := now.Add(-10 * time.Minute)
	s.opt.Now = func() time.Time { return at }
	for range 10 {
		s.Sample()
		at, lines = at.Add(time.Minute), lines+600
	}
	require.Contains(t, request(s, "GET", "/sources").Body.String(), "<dd>10</dd>")
	require.Contains(t, request(s, "GET", "/").Body.String(), "Not delivered to alertmanager http://am:9093 for 10m 0s: ")
	require.Contains(t, request(s, "GET", "/api/v1/sources").Body.String(), `"linesPerSecond":10`)
	require.Contains(t, request(s, "GET", "/api/v1/sources").Body.String(), `"downSince":"2026-01-02T02:54:05Z"`)
	require.Contains(t, request(s, "GET", "/api/v1/episodes/0000000000000abc").Body.String(), `"perMinute":{"from":"2026-01-02T02:54:00Z"`)
}
