package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// rateResult is the cost of following files.
type rateResult struct {
	lines, read int64
	bytes       int64
	span        time.Duration
	cpu         time.Duration
	hwm, rss    float64 // MiB
	reloads     []time.Duration
	latency     []time.Duration // from a line to its alert, sorted
	missing     int             // probes that were not notified
}

func (r rateResult) String() string {
	text := fmt.Sprintf("lines=%d read=%d lines/s=%.0f MB/s=%.1f cpu=%.2f%% of a core VmHWM=%.1fMiB RSS=%.1fMiB",
		r.lines, r.read, float64(r.lines)/r.span.Seconds(), float64(r.bytes)/1e6/r.span.Seconds(), 100*r.cpu.Seconds()/r.span.Seconds(), r.hwm, r.rss)
	if len(r.latency)+r.missing > 0 {
		text += fmt.Sprintf(" latency p50=%v p99=%v max=%v of %d (%d missing)", at(r.latency, 0.5), at(r.latency, 0.99), at(r.latency, 1), len(r.latency), r.missing)
	}
	if len(r.reloads) > 0 {
		text += fmt.Sprintf(" reloads=%d p50=%v max=%v", len(r.reloads), at(r.reloads, 0.5), at(r.reloads, 1))
	}
	return text
}

// at returns a quantile of sorted values.
func at(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(time.Millisecond)
}

// record is a line, or its parts: each without the timestamp, with its newline.
// Parts stay together, because a partial line is read twice.
type record [][]byte

// writers write lines to many files.
type writers struct {
	texts []record
	all   []*kubesim.Container
	next  int // text
	lines int64
	bytes int64
}

// flushEvery is the interval between writes to each file.
const flushEvery = 20 * time.Millisecond

func newWriters(o options, root string) (*writers, error) {
	f, err := os.Open(o.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 8<<20))
	if err != nil {
		return nil, err
	}
	w := &writers{}
	var rec record
	for line := range bytes.Lines(text) {
		i := bytes.IndexByte(line, ' ')
		if i < 0 || line[len(line)-1] != '\n' {
			continue
		}
		rec = append(rec, line[i:])
		if !bytes.HasPrefix(line[i:], []byte(" stdout P ")) && !bytes.HasPrefix(line[i:], []byte(" stderr P ")) {
			w.texts = append(w.texts, rec)
			rec = nil
		}
	}
	if len(w.texts) == 0 {
		return nil, fmt.Errorf("%s has no lines as CRI runtimes write them", o.log)
	}
	for n := range o.files {
		w.all = append(w.all, kubesim.New(kubesim.Options{Root: root, Namespace: "load", Pod: fmt.Sprintf("p%d", n), Container: "manager"}))
	}
	return w, nil
}

// run writes at the rate until ctx ends.
func (w *writers) run(ctx context.Context, o options) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	began, file := time.Now(), 0
	var block bytes.Buffer
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		elapsed := time.Since(began).Seconds()
		behind := func() int {
			if o.mb > 0 {
				return int((o.mb*1e6*elapsed - float64(w.bytes)) / 300)
			}
			return int(float64(o.lines)*elapsed) - int(w.lines)
		}
		share := max(1, (behind()+len(w.all)-1)/len(w.all))
		for n := behind(); n > 0; n -= share {
			c := w.all[file%len(w.all)]
			file++
			block.Reset()
			stamp := c.Stamp()
			for range share {
				rec := w.texts[w.next%len(w.texts)]
				for _, part := range rec {
					block.WriteString(stamp)
					block.Write(part)
				}
				w.lines += int64(len(rec))
				w.next++
			}
			c.Raw(block.String())
			w.bytes += int64(block.Len())
		}
	}
}

// probes are lines that alert.
type probes struct {
	mu  sync.Mutex
	out map[string]time.Time // by the time of writing
}

func (p *probes) run(ctx context.Context, root string, every time.Duration) {
	c := kubesim.New(kubesim.Options{Root: root, Namespace: "load", Pod: "probe", Container: "probe"})
	defer c.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := fmt.Sprint(n)
		p.mu.Lock()
		p.out[id] = time.Now()
		p.mu.Unlock()
		c.Write("stdout", "probe of the load "+id)
	}
}

// heard returns the latencies of the probes written between two times.
func (p *probes) heard(d *run, from, to time.Time) (all []time.Duration, missing int) {
	accepted := map[string]time.Time{}
	for _, word := range d.am.AM.Accepted("LoadProbe") {
		if id := word.Alert.Labels["probe"]; accepted[id].IsZero() {
			accepted[id] = word.Time
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, at := range p.out {
		if at.Before(from) || at.After(to) {
			continue
		}
		if accepted[id].IsZero() {
			missing++
			continue
		}
		all = append(all, accepted[id].Sub(at))
	}
	slices.Sort(all)
	return all, missing
}

// atRate makes the daemon follow files that are being written.
func atRate(ctx context.Context, o options) (r rateResult, err error) {
	d, err := newRun(o)
	if err != nil {
		return r, err
	}
	w, err := newWriters(o, d.pods)
	if err != nil {
		return r, err
	}
	if err := d.start(ctx); err != nil {
		_, stopErr := d.stop()
		return r, errors.Join(err, stopErr)
	}
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	p := &probes{out: map[string]time.Time{}}
	var wg sync.WaitGroup
	wg.Go(func() { w.run(writing, o) })
	if o.probe > 0 {
		wg.Go(func() { p.run(writing, d.pods, o.probe) })
	}
	err = d.span(ctx, o, &r)
	to := time.Now()
	wait.Pause(ctx, 500*time.Millisecond)
	stopWriting()
	wg.Wait()
	if err == nil {
		err = d.readAll(ctx, w, p, &r)
	}
	for _, c := range w.all {
		err = errors.Join(err, c.Err)
		c.Close()
	}
	wait.Pause(ctx, time.Second) // until the last probes are notified
	r.latency, r.missing = p.heard(d, to.Add(-r.span), to.Add(-time.Second))
	r.lines, r.bytes = int64(float64(w.lines)*share(o, r)), int64(float64(w.bytes)*share(o, r))
	_, stopErr := d.stop()
	return r, errors.Join(err, stopErr)
}

// share is the part of the written lines that falls into the measurement.
func share(o options, r rateResult) float64 {
	return r.span.Seconds() / (o.warm + r.span + 500*time.Millisecond).Seconds()
}

// span measures, after the warm-up.
func (d *run) span(ctx context.Context, o options, r *rateResult) error {
	wait.Pause(ctx, o.warm)
	cpu, err := d.Process().CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	profiled := make(chan error, 1)
	go func() { profiled <- d.profile(ctx, o, o.span-time.Second) }()
	for n := 1; o.reload != "" && time.Since(began)+o.every < o.span; n++ {
		wait.Pause(ctx, o.every)
		from := o.reload
		if n%2 == 0 {
			from = o.rules
		}
		if err := linkRules(filepath.Join(d.Dir, "rules"), from); err != nil {
			return err
		}
		at := time.Now()
		if err := d.reload(ctx); err != nil {
			return err
		}
		r.reloads = append(r.reloads, time.Since(at))
	}
	wait.Pause(ctx, o.span-time.Since(began))
	now, err := d.Process().CPU()
	r.cpu, r.span = now-cpu, time.Since(began)
	r.hwm, r.rss = d.mib("VmHWM"), d.mib("VmRSS")
	slices.Sort(r.reloads)
	return errors.Join(err, <-profiled)
}

// reload may take long because a large set of rules is compiled.
func (d *run) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.Reload(ctx)
}

// profile writes a CPU profile over some time.
func (d *run) profile(ctx context.Context, o options, span time.Duration) error {
	if o.pprof == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, span+time.Minute)
	defer cancel()
	body, err := d.Get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(span.Seconds())))
	if err != nil {
		return err
	}
	return os.WriteFile(o.pprof, []byte(body), 0o600)
}

// readAll waits until every line was read.
func (d *run) readAll(ctx context.Context, w *writers, p *probes, r *rateResult) error {
	want := float64(w.lines) + float64(len(p.out))
	return wait.NoError(ctx, 10*time.Second, func() error {
		n, err := d.lines(ctx)
		if r.read = int64(n); err == nil && n != want {
			err = fmt.Errorf("%v of %v lines were read", n, want)
		}
		return err
	})
}
