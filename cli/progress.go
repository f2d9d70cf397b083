package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/replay"
)

const (
	// progressAfter is the time from the start of a command until it shows its progress.
	progressAfter = 2 * time.Second
	progressEvery = 500 * time.Millisecond
)

// progress shows the progress of a long command on one line of a terminal. The line contains the activity, the speed
// and the remaining time. Nothing is shown if the output is not a terminal, or if the command ends within
// progressAfter. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	doing string
	began time.Time
	read  atomic.Int64 // number of bytes that were read
	total atomic.Int64 // number of bytes to read; zero if unknown
	// state returns the fraction of the work that is done, from 0 to 1, and a text about it. It may be nil.
	state func() (done float64, text string)

	stop  chan struct{}
	ended sync.WaitGroup
}

// startProgress starts to show the progress of a command. The caller must call end before it prints anything else.
// doing is a verb such as "reading".
func (c *cli) startProgress(doing string, state func() (float64, string)) *progress {
	p := &progress{w: c.err, doing: doing, began: time.Now(), state: state, stop: make(chan struct{})}
	if !isTerminal(c.err) || c.getenv("TERM") == "dumb" || c.liveOutput {
		return p
	}
	p.ended.Go(p.run)
	return p
}

func (p *progress) run() {
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	shown := false
	for {
		select {
		case <-p.stop:
			if shown {
				fmt.Fprint(p.w, "\r\x1b[K")
			}
			return
		case <-wait.C:
			fmt.Fprint(p.w, "\r\x1b[K"+p.progressText(time.Now()))
			shown = true
			wait.Reset(progressEvery)
		}
	}
}

// end erases the line of progress. It may be called more than once.
func (p *progress) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.ended.Wait()
}

// countReading counts the bytes that are read from logs after the call. times is the number of times that each log will
// be read.
func (p *progress) countReading(logs []replay.Input, times int) {
	for i := range logs {
		p.total.Add(int64(times) * logs[i].Size)
		open := logs[i].Open
		logs[i].Open = func() (io.ReadCloser, error) {
			rc, err := open()
			if err != nil {
				return nil, err
			}
			return &countingReader{rc, p}, nil
		}
	}
}

type countingReader struct {
	io.ReadCloser
	p *progress
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.p.read.Add(int64(n))
	return n, err
}

func (p *progress) progressText(now time.Time) string {
	took := now.Sub(p.began)
	if p.state != nil {
		done, text := p.state()
		return fmt.Sprintf("%s: %s%s", p.doing, text, timeLeft(done, took))
	}
	read, total := p.read.Load(), p.total.Load()
	rate := int64(float64(read) / took.Seconds())
	if read == 0 {
		return fmt.Sprintf("%s, %s", p.doing, took.Round(time.Second))
	}
	if total == 0 || read > total {
		return fmt.Sprintf("%s: %s, %s/s", p.doing, bytesText(read), bytesText(rate))
	}
	return fmt.Sprintf("%s: %s of %s, %s/s%s", p.doing, bytesText(read), bytesText(total), bytesText(rate), timeLeft(float64(read)/float64(total), took))
}

// timeLeft returns the estimated remaining time, assuming constant speed. It returns "" if it is too early for an
// estimate.
func timeLeft(done float64, took time.Duration) string {
	if done < 0.01 || done > 1 {
		return ""
	}
	left := time.Duration(float64(took) * (1 - done) / done)
	return fmt.Sprintf(", %.0f %%, %s left", 100*done, max(left, time.Second).Round(time.Second))
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}
