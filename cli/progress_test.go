package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/replay"
)

// What takes at most two seconds shows nothing; longer work shows its rate and the time
// left, and nothing of that stays.
func TestProgress(t *testing.T) {
	const erase = "\r\x1b[K"
	run := func(bytesRead, total int64, state func() (float64, string), lasts time.Duration) (shown string) {
		synctest.Test(t, func(t *testing.T) {
			var w bytes.Buffer
			p := &progress{w: &w, doing: "reading", began: time.Now(), state: state, stop: make(chan struct{})}
			p.ended.Go(p.run)
			in := []replay.Input{{Size: total, Open: func() (io.ReadCloser, error) {
				return io.NopCloser(io.LimitReader(nulBytes{}, bytesRead)), nil
			}}}
			p.countReading(in, 1)
			rc, err := in[0].Open()
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, rc)
			require.NoError(t, err)
			<-time.After(lasts)
			p.end()
			p.end()
			shown = w.String()
		})
		return shown
	}
	require.Empty(t, run(1<<20, 4<<20, nil, 1900*time.Millisecond))
	require.Equal(t, erase+"reading: 20 MiB of 80 MiB, 10 MiB/s, 25 %, 6s left"+erase, run(20<<20, 80<<20, nil, 2100*time.Millisecond))
	require.Equal(t, erase+"reading: 20 MiB, 10 MiB/s"+erase, run(20<<20, 0, nil, 2100*time.Millisecond), "nobody knows the size of a pipe")
	require.Equal(t, erase+"reading: 20 MiB, 10 MiB/s"+erase, run(20<<20, 1<<20, nil, 2100*time.Millisecond), "a file that grows")
	require.Equal(t, erase+"reading, 2s"+erase, run(0, 10, nil, 2100*time.Millisecond), "unpacking")
	half := func() (float64, string) { return 0.5, "10:00, 7 lines" }
	require.Equal(t, erase+"reading: 10:00, 7 lines, 50 %, 2s left"+erase, run(0, 0, half, 2100*time.Millisecond))
	require.Len(t, strings.Split(run(1<<20, 0, nil, 3100*time.Millisecond), erase), 5, "it is updated twice a second")
}

type nulBytes struct{}

func (nulBytes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Nothing is shown to what is not a terminal.
func TestNoProgressWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		c := &cli{err: &w, getenv: func(string) string { return "" }}
		p := c.startProgress("reading", nil)
		<-time.After(time.Minute)
		p.end()
		require.Empty(t, w.String())
	})
}
