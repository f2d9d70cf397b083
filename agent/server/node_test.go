package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
)

// The times of a node are those of this process, whatever the clock of the node shows. A difference that may be the
// duration of messages changes nothing.
func TestTimesOfANodeAreCorrected(t *testing.T) {
	f := func(want time.Duration, samples ...time.Duration) {
		t.Helper()
		b := newBench(t, Config{})
		for _, sample := range samples {
			b.say(wire.Message{OldestSequence: 1, SentAt: b.now.Add(sample), Watermark: b.now.Add(sample)})
		}
		require.Equal(t, at(want), b.p.watermarks["agents/n1"], "%v", samples)
	}
	s := time.Second
	f(0, 60*s)
	f(0, -60*s)
	f(0, -24*time.Hour)
	f(0, 24*time.Hour)
	f(-1900*time.Millisecond, -1900*time.Millisecond)
	f(1900*time.Millisecond, 1900*time.Millisecond)
	f(-5*s, -5*s, -5*s)           // two messages may be slow
	f(0, -5*s, -5*s, -5*s)        // three are not
	f(0, 5*s)                     // no message arrives before it was sent
	f(-25*s, -60*s, -60*s, -85*s) // a slow message does not move the estimate, and its watermark is older
	f(0, -80*s, -60*s)            // the first one was slow
	f(-s, 60*s, 59*s)             // what is sent twice keeps its time
}

// A correction survives a restart of this process: what is sent again has the same time.
func TestCorrectionsAreSaved(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{OldestSequence: 1, SentAt: at(time.Minute)})
	pos := b.save()
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	b.say(wire.Message{OldestSequence: 1, SentAt: at(time.Minute - 1500*time.Millisecond), Watermark: at(time.Minute)})
	require.Equal(t, start, b.p.watermarks["agents/n1"])
	require.Equal(t, "its clock is 59s ahead, which is corrected", b.s.Status().Members["agents/n1"].Error)
}
