package replay

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes"
	"crowsnest/matcher"
)

const recordedPack = `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Once
  from: '{container=~".+"}'
  match: {regex: 'once (?P<object>\w+)'}
  by: [object]
  keep_firing_for: 1m
  limit: 2
  severity: warning
- alert: Lost
  from: '{container="a"}'
  match: {regex: 'lost (?P<object>\w+)'}
  clear: {contains: "found", from: '{container="b"}'}
  for: 2m
  symptom_of: [{alert: Once, same: []}]
  severity: critical
- alert: Often
  from: '{container=~".+"}'
  match: {contains: "often"}
  unless: {contains: "planned", within: 1m}
  count: 3
  within: 1m
  severity: warning
- alert: Silent
  from: '{container="a"}'
  match: {regex: 'beat (?P<object>\w+)'}
  by: [object]
  silent: 1m
  expire: 10m
  severity: warning
- alert: Steps
  from: '{container="a"}'
  sequence: ["first", "second"]
  within: 30s
  severity: info
`

// takeOneByOne is takeRecorded, one hit after the other.
func takeOneByOne(s *session, hits []matcher.Hit) {
	for i := range hits {
		if t := hits[i].Time; t.After(s.now) {
			s.reachTime(t)
			s.now = t
		}
		s.engine.Take(hits[i:i+1], s.now)
		s.evaluateEngine()
	}
}

// Hits in batches of any size cause what they cause one by one.
func TestRecordedHits(t *testing.T) {
	set, prog := compile(t, recordedPack)
	began := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	texts := rapid.SampledFrom([]string{
		"once x", "once y", "once z", "once v", "lost x", "lost y", "found", "often", "often", "planned", "beat x", "beat y", "first", "second", "nothing",
	})
	rapid.Check(t, func(t *rapid.T) {
		var streams []*matcher.Stream
		for _, labels := range []matcher.Labels{{"container": "a", "namespace": "n"}, {"container": "b", "namespace": "n"}, {"container": "a", "namespace": "m"}} {
			streams = append(streams, matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText}))
		}
		var hits []matcher.Hit
		at := began
		for i := range rapid.IntRange(1, 150).Draw(t, "lines") {
			step := rapid.SampledFrom([]time.Duration{0, 0, 1, time.Millisecond, time.Second, 20 * time.Second, 90 * time.Second, 20 * time.Minute, -5 * time.Second, -time.Minute}).Draw(t, "step")
			at = at.Add(step)
			text := texts.Draw(t, "text")
			if rapid.Bool().Draw(t, "distinct") {
				text += fmt.Sprint(" ", i)
			}
			s := rapid.SampledFrom(streams).Draw(t, "stream")
			hits = append(hits, prog.Match(s, matcher.Record{Time: at, Text: []byte(text)})...)
		}
		if len(hits) == 0 {
			return
		}
		type outcome struct {
			seen, open []episodes.Episode
			histories  []episodes.Timeline
			now        time.Time
		}
		run := func(take func(*session)) (o outcome) {
			s := newSession(set, prog, hits[0].Time, episodes.Config{Unlabelled: true, UpdateEvery: math.MaxInt64})
			s.notify = func(x episodes.Episode) { o.seen = append(o.seen, x) }
			take(s)
			o.now, o.open = s.now, s.engine.Episodes(s.now)
			for _, x := range o.open {
				history, _ := s.engine.Timeline(x.Fingerprint, s.now)
				o.histories = append(o.histories, history)
			}
			s.settleAt(o.now.Add(time.Hour))
			return o
		}
		want := run(func(s *session) { takeOneByOne(s, hits) })
		got := run(func(s *session) {
			for left := hits; len(left) > 0; {
				n := rapid.IntRange(1, len(left)).Draw(t, "batch")
				s.takeRecorded(left[:n])
				left = left[n:]
			}
		})
		require.Equal(t, want, got)
	})
}
