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
	// progressAfter is how long a command may take without showing its progress.
	progressAfter = 2 * time.Second
	progressEvery = 500 * time.Millisecond
)

// progress shows on one line of a terminal what a long command does, how fast, and how
// long it still takes. What is not a terminal gets nothing, and a command that ends within
// two seconds shows nothing. Safe for concurrent use.
type progress struct {
	w     io.Writer
	doing string
	began time.Time
	read  atomic.Int64 // bytes
	total atomic.Int64 // bytes; zero if unknown
	// state, if set, returns the part that is done, from 0 to 1, and a text.
	state func() (done float64, text string)

	stop  chan struct{}
	ended sync.WaitGroup
}

// startProgress returns the progress of a command. The caller calls end before it prints
// anything else. doing is a verb such as "reading".
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
			fmt.Fprint(p.w, "\r\x1b[K"+p.line(time.Now()))
			shown = true
			wait.Reset(progressEvery)
		}
	}
}

// end erases the line. It can be called again.
func (p *progress) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.ended.Wait()
}

// expect adds the inputs to what has to be read.
func (p *progress) expect(logs []replay.Input) {
	for _, in := range logs {
		p.total.Add(in.Size)
	}
}

// watch counts the reading of the inputs from now on.
func (p *progress) watch(logs []replay.Input) {
	for i := range logs {
		open := logs[i].Open
		logs[i].Open = func() (io.ReadCloser, error) {
			rc, err := open()
			if err != nil {
				return nil, err
			}
			return &counting{rc, p}, nil
		}
	}
}

type counting struct {
	io.ReadCloser
	p *progress
}

// Read counts what is read.
func (r *counting) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.p.read.Add(int64(n))
	return n, err
}

// line returns the text for a moment.
func (p *progress) line(now time.Time) string {
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

// timeLeft returns the time that the rest takes at the same speed, "" while nobody knows.
func timeLeft(done float64, took time.Duration) string {
	if done < 0.01 || done > 1 {
		return ""
	}
	left := time.Duration(float64(took) * (1 - done) / done)
	return fmt.Sprintf(", %.0f %%, %s left", 100*done, max(left, time.Second).Round(time.Second))
}

// bytesText returns a number of bytes with a unit.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}
