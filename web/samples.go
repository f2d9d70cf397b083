package web

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	sampleEvery = 15 * time.Second
	minutes     = 60   // number of minutes that a series covers
	maxSeries   = 8192 // maximum number of series, which limits the memory to about 2 MiB
)

// samples records the growth of counters of lines and costs in each minute of the last hour. It is safe for concurrent
// use.
type samples struct {
	mu     sync.Mutex
	minute int64 // minute of the newest sample, in minutes since 1970; zero if there is none
	series map[string]*series
	downAt map[string]time.Time // start of the current outage of each receiver
}

type series struct {
	last   int64 // newest value of the counter
	since  int64 // minute of the first sample
	counts [minutes]uint32
}

// counter is the value of a counter. fresh means that the counter began at zero after the last sample.
type counter struct {
	value int64
	fresh bool
}

func newSamples() *samples {
	return &samples{series: map[string]*series{}, downAt: map[string]time.Time{}}
}

// addSample adds the current values of all counters. It drops the series of counters that are absent.
func (s *samples) addSample(now time.Time, values map[string]counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	minute := now.Unix() / 60
	for m := max(s.minute+1, minute-minutes+1); m <= minute && s.minute > 0; m++ {
		for _, x := range s.series {
			x.counts[m%minutes] = 0
		}
	}
	s.minute = max(s.minute, minute)
	maps.DeleteFunc(s.series, func(name string, _ *series) bool { _, ok := values[name]; return !ok })
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, x := values[name], s.series[name]
		if x == nil {
			if len(s.series) >= maxSeries {
				continue
			}
			x = &series{since: s.minute, last: v.value}
			if v.fresh {
				x.last = 0
			}
			s.series[name] = x
		}
		if grown := v.value - x.last; grown > 0 {
			x.counts[s.minute%minutes] += uint32(min(grown, 1<<31))
		}
		x.last = v.value
	}
}

// perMinute returns the growth of a counter in each of the last minutes, and the start of the first minute. The last
// minute is incomplete. The result is nil if the counter is not known.
func (s *samples) perMinute(name string) ([]uint32, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.series[name]
	if x == nil {
		return nil, time.Time{}
	}
	first := max(x.since, s.minute-minutes+1)
	out := make([]uint32, 0, minutes)
	for m := first; m <= s.minute; m++ {
		out = append(out, x.counts[m%minutes])
	}
	return out, time.Unix(first*60, 0).UTC()
}

// perSecond returns the mean growth per second over the last complete minutes, at most five. It returns false if there
// is no complete minute.
func (s *samples) perSecond(name string) (float64, bool) {
	counts, _ := s.perMinute(name)
	if len(counts) < 2 {
		return 0, false
	}
	counts = counts[:len(counts)-1]
	counts = counts[max(0, len(counts)-5):]
	sum := 0.0
	for _, n := range counts {
		sum += float64(n)
	}
	return sum / float64(60*len(counts)), true
}

// setDown records which receivers are down.
func (s *samples) setDown(now time.Time, all []Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.downAt
	s.downAt = map[string]time.Time{}
	for _, e := range all {
		if !e.Up {
			key := e.Sink + " " + e.Endpoint
			s.downAt[key] = cmp.Or(before[key], now)
		}
	}
}

// downSince returns the start of the current outage of a receiver. It returns zero if no outage is known.
func (s *samples) downSince(e Endpoint) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downAt[e.Sink+" "+e.Endpoint]
}

// These functions return names of series.
func episodeSeries(fingerprint string) string { return "episode " + fingerprint }
func ruleSeries(alert string) string          { return "rule " + alert }
func triesSeries(alert string) string         { return "tries " + alert }
func costSeries(alert string) string          { return "cost " + alert } // the counter is the cost in microseconds
func sourceSeries(name string) string         { return "source " + name }
func namespaceSeries(source, namespace string) string {
	return "namespace " + source + " " + namespace
}

// Sample records the counters that pages show per minute. Run calls it every 15 seconds.
func (s *Server) Sample() {
	now := s.opt.Now()
	values := map[string]counter{}
	for _, e := range s.own.Episodes() {
		if isEpisodeOpen(e) {
			values[episodeSeries(e.Fingerprint.String())] = counter{e.Count, now.Sub(e.StartsAt) < 2*sampleEvery}
		}
	}
	for _, r := range s.view.Stats().Rules {
		values[ruleSeries(r.Rule.Alert)] = counter{value: r.Matches}
	}
	loaded := s.view.Rules()
	for alert, n := range loaded.Evaluations {
		values[triesSeries(alert)] = counter{value: n}
	}
	for alert, d := range loaded.Cost {
		values[costSeries(alert)] = counter{value: d.Microseconds()}
	}
	for _, src := range s.view.Sources() {
		values[sourceSeries(src.Name)] = counter{value: src.Lines}
		for _, st := range src.Streams {
			key := namespaceSeries(src.Name, st.Labels["namespace"])
			values[key] = counter{value: values[key].value + st.Lines}
		}
	}
	s.samples.addSample(now, values)
	s.samples.setDown(now, s.view.Endpoints())
}

func (s *Server) takeSamples(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.Sample()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
