package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/test/kubesim"
)

// plant is what was planted under one key, and the expected result.
type plant struct {
	first, last time.Time     // startsAt lies between them: the line may be split
	ends        time.Time     // zero: it stays open
	again       time.Time     // when it fires again; zero: never
	never       bool          // it must not arrive
	slack       time.Duration // another process writes the time of a line that is this much later at most
}

// history is the expected sequence of notifications, without repeats; "": none.
func (p *plant) history() string {
	switch {
	case p.never:
		return ""
	case !p.again.IsZero():
		return "firing resolved firing"
	case !p.ends.IsZero():
		return "firing resolved"
	}
	return "firing"
}

// ledger records what was planted. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex
	plants map[string]*plant // by "alertname id"
	lines  map[string]int64  // whole lines, by the key of the alert that counts them
}

func newLedger() *ledger { return &ledger{plants: map[string]*plant{}, lines: map[string]int64{}} }

func (l *ledger) plant(alert, id string, p plant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plants[alert+" "+id] = &p
}

// recover records the line that ends an alert.
func (l *ledger) recover(alert, id string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plants[alert+" "+id].ends = at
}

// relapse records the line that starts it again.
func (l *ledger) relapse(alert, id string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plants[alert+" "+id].again = at
}

// count records a line that the alert of a key counts.
func (l *ledger) count(key string, p plant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[key] == 0 {
		l.plants[key] = &p
	}
	l.lines[key]++
}

func (l *ledger) total() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.lines {
		n += v
	}
	return n
}

// load defines how much is written and how often it is rotated.
type load struct {
	perSecond int
	pad       int              // bytes of each line
	maxSize   int64            // of a file
	counted   int              // ChaosLines counts one in so many lines; 0: all
	planted   int              // one in so many lines is planted
	period    int              // lines in one round of blocks and sequences; a multiple of 1,000
	recovery  time.Duration    // delay of the recovery of a lost lease, long enough that the alert fires first
	quiet     bool             // only planted lines match
	once      bool             // no alert starts again
	clock     func() time.Time // of the lines; nil: time.Now
}

// maxFiles is how many files of a container exist. A file is written in 3.5 seconds, so
// the five of the kubelet's default would be deleted, rightly unread, while a loaded
// machine takes ten seconds to start the daemon again.
const maxFiles = 12

// writer is one container that writes lines.
type writer struct {
	load
	name string
	c    *kubesim.Container
	led  *ledger
	rng  *rand.Rand
	do   chan func() // functions of others to run in the writer's goroutine
	calm atomic.Bool // plant only what ends soon
	left atomic.Int64

	n       int // lines so far
	slot    int // in the schedule: recoveries and split lines have none
	records int // as the runtime writes them: lines and partial lines
	ids     int
	size    int64
	filler  string
	pending []recovery
	rotated int
	split   bool // this rotation happens in the middle of a line
	half    struct{ at, rest string }
}

// recovery is a line that is yet to be written.
type recovery struct {
	at      time.Time
	id      string
	relapse bool // a relapse follows it
	lost    bool // it is the relapse
}

func newWriter(root, name string, l load, led *ledger, seed uint64) *writer {
	w := &writer{
		load: l, name: name, led: led, rng: rand.New(rand.NewPCG(seed, 1)), do: make(chan func()),
		filler: strings.Repeat("some more text of a controller, ", l.pad/32+1)[:l.pad],
	}
	if l.quiet { // not all at once
		w.slot = w.rng.IntN(l.planted)
	}
	w.c = kubesim.New(kubesim.Options{
		Root: root, Namespace: "chaos", Pod: name, Container: "chaos", UID: fmt.Sprintf("6b1c9b5e-0000-4000-8000-%012d", seed),
		Hole: w.hole, Late: w.late, Clock: w.clock, MaxFiles: maxFiles,
	})
	return w
}

// run writes at its rate until ctx ends.
func (w *writer) run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for base := w.n; ; {
		select {
		case <-ctx.Done():
			return
		case f := <-w.do:
			f()
		case <-tick.C:
			w.lines(min(int(time.Since(began).Seconds()*float64(w.perSecond))-(w.n-base), w.perSecond))
			w.recover()
			if w.size > w.maxSize {
				w.rotate()
			}
		}
	}
}

// ask makes the writer run f and waits for it.
func (w *writer) ask(f func()) {
	done := make(chan struct{})
	w.do <- func() { defer close(done); f() }
	<-done
}

// rotate rotates, sometimes in the middle of a line.
func (w *writer) rotate() {
	w.size = 0
	w.rotated++
	if w.rotated%3 != 0 {
		w.c.Rotate()
		return
	}
	w.split = true
	w.c.Rotate()
	w.split = false
	w.end(w.half.at, w.c.Stamp()+" stdout F "+w.half.rest+"\n")
}

// hole writes while the path is absent: some lines, or the first part of one.
func (w *writer) hole() {
	if !w.split {
		w.lines(w.rng.IntN(5))
		return
	}
	at, text := w.begin("")
	n := len(text) / 2
	w.raw(at + " stdout P " + text[:n] + "\n")
	w.half.at, w.half.rest = at, text[n:]
}

// late writes to the old file after the new one was created.
func (w *writer) late() {
	if !w.split {
		w.lines(w.rng.IntN(5))
	}
}

func (w *writer) restart() { w.c.Restart(); w.size = 0 }

// lines writes n lines.
func (w *writer) lines(n int) {
	for range n {
		w.line()
	}
}

// line writes the next line and notes what it plants. The schedule repeats.
func (w *writer) line() {
	n := w.slot % w.period
	id := fmt.Sprintf("%s-%d", w.name, w.slot/w.period)
	w.slot++
	switch {
	case w.planted > 0 && n%w.planted == w.planted/2+1:
		w.ids++
		w.plant("ChaosPlanted", fmt.Sprintf("%s-p%d", w.name, w.ids), "planted detection id=%s;")
	case w.quiet:
		w.write("")
	case n == w.period/10+1:
		w.write("first of three id=" + id + ";")
	case n == 4*w.period/10+1:
		w.write("second of three id=" + id + ";")
	case n == 7*w.period/10+1:
		w.plant("ChaosSequence", id, "third of three id=%s;")
	case n == 9*w.period/10+2:
		w.lose()
	case n == w.period-w.period/200:
		w.plant("ChaosBlock", id, "block of many id=%s;")
	case n%(w.period/200) == 0:
		w.write("block of many id=" + id + ";")
	default:
		w.write("")
	}
}

// plant writes a line that raises an alert.
func (w *writer) plant(alert, id, format string) {
	first, last := w.write(fmt.Sprintf(format, id))
	w.led.plant(alert, id, plant{first: first, last: last})
}

// lose writes a lost lease: it is acquired again immediately, later, never, or
// later and lost once more.
func (w *writer) lose() {
	w.ids++
	id := fmt.Sprintf("%s-l%d", w.name, w.ids)
	kind := w.rng.IntN(4)
	switch {
	case w.calm.Load():
		kind = 2
	case w.once:
		kind %= 3
	}
	first, last := w.write("planted lease lost id=" + id + ";")
	w.led.plant("ChaosLost", id, plant{first: first, last: last, never: kind == 0})
	switch kind {
	case 0:
		w.pending = append(w.pending, recovery{at: time.Now().Add(400 * time.Millisecond), id: id})
	case 1, 3:
		w.pending = append(w.pending, recovery{at: time.Now().Add(w.recovery), id: id, relapse: kind == 3})
	}
	w.left.Store(int64(len(w.pending)))
}

// recover writes the recoveries that are due.
func (w *writer) recover() {
	now := time.Now()
	kept := w.pending[:0]
	for _, r := range w.pending {
		if now.Before(r.at) {
			kept = append(kept, r)
			continue
		}
		if r.lost {
			_, at := w.write("planted lease lost id=" + r.id + ";")
			w.led.relapse("ChaosLost", r.id, at)
			continue
		}
		_, at := w.write("planted lease taken id=" + r.id + ";")
		w.led.recover("ChaosLost", r.id, at)
		if r.relapse { // not before the end is notified
			kept = append(kept, recovery{at: now.Add(15 * time.Second), id: r.id, lost: true})
		}
	}
	w.pending = kept
	w.left.Store(int64(len(kept)))
}

// write writes one line, sometimes in two parts or to stderr, and returns the
// times of its first and its last part.
func (w *writer) write(what string) (first, last time.Time) {
	stream := "stdout"
	if w.n%10 == 3 {
		stream = "stderr"
	}
	at, text := w.begin(what)
	if w.n%97 != 0 {
		return w.end(at, at+" "+stream+" F "+text+"\n")
	}
	half := len(text) / 3
	w.raw(at + " " + stream + " P " + text[:half] + "\n")
	return w.end(at, w.c.Stamp()+" "+stream+" F "+text[half:]+"\n")
}

func (w *writer) begin(what string) (at, text string) {
	w.n++
	kind := "other"
	if w.counts() {
		kind = "chaos line"
	}
	return w.c.Stamp(), fmt.Sprintf("I0102 15:04:05.000000       1 chaos.go:12] %s seq=%d %s %s", kind, w.n, what, w.filler)
}

func (w *writer) counts() bool { return !w.quiet && (w.counted == 0 || w.n%w.counted == 0) }

func (w *writer) end(first, raw string) (from, to time.Time) {
	w.raw(raw)
	last, _, _ := strings.Cut(raw, " ")
	from, _ = time.Parse(time.RFC3339Nano, first)
	to, _ = time.Parse(time.RFC3339Nano, last)
	if w.counts() {
		w.led.count("ChaosLines "+w.name, plant{first: to, last: to})
	}
	return from, to
}

func (w *writer) raw(s string) {
	w.size += int64(len(s))
	w.records++
	w.c.Raw(s)
}
