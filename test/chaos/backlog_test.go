package chaos

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// page is a block of CRI lines that is written repeatedly. Only the timestamps
// change, and the number in its last line, which is planted.
type page struct {
	text   []byte
	stamps []int // offsets of the timestamps
	number int   // offset of the number
	lines  int
	last   time.Time
}

const (
	stampForm  = "2006-01-02T15:04:05.000000000Z"
	numberForm = "%07d"
)

// newPage returns a page of about size bytes; name is part of the planted line.
func newPage(size int, name string) *page {
	p := &page{}
	add := func(text string) {
		p.stamps = append(p.stamps, len(p.text))
		p.text = append(p.text, stampForm+" stdout F "+text+"\n"...)
		p.lines++
	}
	for len(p.text) < size {
		add(`I0102 15:04:05.000000       1 reconciler.go:41] "Reconciled" object="kube-system/some-controller" generation=12 took="3.4ms" requeue=false reason="nothing changed"`)
	}
	add("planted detection id=" + name + "-" + strings.Repeat("0", 7) + ";")
	p.number = len(p.text) - len("0000000;\n")
	return p
}

// next sets the time of every line to now and the number of the planted line, and returns
// the page.
func (p *page) next(number int) []byte {
	now := time.Now().UTC()
	if !now.After(p.last) {
		now = p.last
	}
	for _, at := range p.stamps {
		now = now.Add(time.Nanosecond)
		now.AppendFormat(p.text[at:at], stampForm)
	}
	p.last = now
	copy(p.text[p.number:], fmt.Sprintf(numberForm, number))
	return p.text
}

// backlog writes size bytes of pages into the container and plants an alert in
// every every-th page; the other pages repeat the number before.
type backlog struct {
	c      *kubesim.Container
	page   *page
	name   string
	led    *ledger
	every  int
	pages  int
	lines  int
	bytes  int64
	number int
}

func (s *scene) newBacklog(name string, every int) *backlog {
	c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "backlog", Pod: name, Container: "chaos"})
	s.t.Cleanup(c.Close)
	return &backlog{c: c, page: newPage(1<<20, name), name: name, led: s.led, every: every}
}

func (b *backlog) write(size int64) {
	for n := int64(0); n < size; {
		fresh := b.pages%b.every == 0
		if fresh {
			b.number++
		}
		text := b.page.next(b.number)
		if fresh {
			b.led.plant("ChaosPlanted", fmt.Sprintf("%s-"+numberForm, b.name, b.number), plant{first: b.page.last, last: b.page.last})
		}
		b.c.Raw(string(text))
		b.pages++
		b.lines += b.page.lines
		n += int64(len(text))
		b.bytes += int64(len(text))
	}
}

// turn rotates without compressing older files, and compresses the new one if
// told so.
func (b *backlog) turn(t *testing.T, compress bool) {
	t.Helper()
	before, err := filepath.Glob(b.c.Path() + ".*")
	require.NoError(t, err)
	b.c.RenameAway()
	b.c.Reopen()
	after, err := filepath.Glob(b.c.Path() + ".*")
	require.NoError(t, err)
	require.Len(t, after, len(before)+1)
	if compress {
		squeeze(t, after[len(after)-1])
	}
}

func squeeze(t *testing.T, name string) {
	t.Helper()
	in, err := os.Open(name)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(name + ".tmp")
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = in.WriteTo(z)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, out.Close())
	require.NoError(t, os.Rename(name+".tmp", name+".gz"))
	require.NoError(t, os.Remove(name))
}

// The daemon reads lines that were written while it was down at its own pace
// and in bounded memory; a kill in between costs a second.
func TestBacklog(t *testing.T) {
	onlyLong(t)
	const (
		gib   = int64(1) << 30
		kills = 5
	)
	s := newScene(t, seed(t), options{resend: 10 * time.Second, shipped: true})
	one, many, packed := s.newBacklog("one", 32), s.newBacklog("many", 32), s.newBacklog("packed", 32)
	all := []*backlog{one, many, packed}
	for _, b := range all {
		b.write(1)
	}
	s.p.start()
	s.p.ready()
	s.awaitSaved(map[string]*kubesim.Container{"one": one.c, "many": many.c, "packed": packed.c})
	eventually(t, 20*time.Second, "the beginning is read", func() bool { return s.lag() < 1 && len(hear(s.good.AM)) >= 4 })
	pause(2 * time.Second)
	s.p.term()

	began := time.Now()
	one.write(4 * gib)
	for range 4 {
		many.write(gib)
		many.turn(t, false)
	}
	for range 4 {
		packed.write(gib / 2)
		packed.turn(t, true)
	}
	var lines int
	var size int64
	for _, b := range all {
		require.NoError(t, b.c.Err)
		lines, size = lines+b.lines, size+b.bytes
	}
	t.Logf("%s in %d lines written in %v", mib(size), lines, time.Since(began).Round(time.Second))

	s.p.mu.Lock()
	s.p.hwm = 0
	s.p.mu.Unlock()
	began = time.Now()
	read := s.p.evaluated()
	s.p.start()
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range kills {
		eventually(t, 10*time.Minute, "a part is read", func() bool { return s.p.evaluated() > read+float64(lines*(n+1)/(kills+1)) })
		pause(upTo(rng, time.Second))
		s.p.kill()
		s.p.start()
	}
	s.p.ready()
	eventually(t, 10*time.Minute, "all is read", func() bool { return s.p.evaluated() >= float64(lines)*0.9 && s.lag() < 1 })
	took := time.Since(began)
	good, bad := s.settle(40*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("read with %d kills in %v: %.0f MiB/s, %.0f lines/s; VmHWM %.1f MiB, state %.2f MiB", kills, took.Round(100*time.Millisecond),
		float64(size)/(1<<20)/took.Seconds(), float64(lines)/took.Seconds(), s.hwm(), float64(s.stateSize())/(1<<20))
	s.p.mu.Lock()
	again := sorted(s.p.repeats)
	s.p.mu.Unlock()
	require.LessOrEqual(t, s.hwm(), promisedMiB, "MiB")
	require.LessOrEqual(t, at(again, 1), promisedAgain, "read again after a kill")
	require.NoError(t, os.RemoveAll(s.pods)) // the files are large
}

// One file is written as fast as the disk allows, a hundred get one line per
// second, and another hundred get one line after a minute.
func TestFairness(t *testing.T) {
	onlyLong(t)
	const rate = 100 << 20 // bytes/s
	s := newScene(t, seed(t), options{
		writers: 100, load: load{perSecond: 1, pad: 100, maxSize: 1 << 30, planted: 5, period: 1000, quiet: true}, resend: 10 * time.Second,
	})
	idle := make([]*kubesim.Container, 100)
	for n := range idle {
		idle[n] = kubesim.New(kubesim.Options{Root: s.pods, Namespace: "idle", Pod: fmt.Sprintf("i%d", n), Container: "chaos"})
		t.Cleanup(idle[n].Close)
		some(idle[n], 1)
	}
	s.p.start()
	s.p.ready()
	pause(3 * time.Second)
	hot := s.newBacklog("hot", 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	from := time.Now()
	go func() { // at the rate, or as fast as possible
		defer close(done)
		for ctx.Err() == nil {
			hot.write(1)
			if ahead := time.Duration(float64(hot.bytes)/rate*float64(time.Second)) - time.Since(from); ahead > 0 {
				pause(ahead)
			}
		}
	}()
	pause(60 * time.Second)
	to := time.Now()
	said := sayOnce(s, idle)
	cancel()
	<-done
	took := time.Since(from)
	written, read := hot.bytes, s.p.newest()[`crowsnest_source_bytes_total{source="kubelet"}`]
	good, bad := s.settle(time.Minute, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	quiet := s.led.latencies(good, from, to)
	late := s.led.latencies(good, said, said.Add(20*time.Second))
	t.Logf("hot file: %.0f MiB/s written, %.0f MiB/s read for %v", float64(written)/(1<<20)/took.Seconds(), read/(1<<20)/took.Seconds(), took.Round(time.Second))
	t.Logf("a line a second: %s", percentiles(quiet))
	t.Logf("after a minute of silence: %s", percentiles(late))
	require.NoError(t, hot.c.Err)
	require.LessOrEqual(t, at(quiet, 0.99), promisedP99, "p99")
	require.LessOrEqual(t, at(late, 0.99), promisedP99, "p99 after silence")
	require.NoError(t, os.RemoveAll(s.pods)) // the files are large
}

// sayOnce makes each container write one line that raises an alert.
func sayOnce(s *scene, idle []*kubesim.Container) time.Time {
	s.t.Helper()
	began := time.Now()
	for n, c := range idle {
		stamp := c.Stamp()
		c.Raw(stamp + fmt.Sprintf(" stdout F planted detection id=idle-%d;\n", n))
		require.NoError(s.t, c.Err)
		at, err := time.Parse(time.RFC3339Nano, stamp)
		require.NoError(s.t, err)
		s.led.plant("ChaosPlanted", fmt.Sprintf("idle-%d", n), plant{first: at, last: at})
		pause(50 * time.Millisecond)
	}
	return began
}

// A page has lines of the expected format.
func TestPage(t *testing.T) {
	p := newPage(4096, "x")
	before := bytes.Clone(p.next(1))
	after := p.next(12)
	require.Equal(t, p.lines, bytes.Count(after, []byte("\n")))
	require.Contains(t, string(before), "planted detection id=x-0000001;\n")
	require.Contains(t, string(after), "planted detection id=x-0000012;\n")
	last := ""
	for _, line := range strings.Split(strings.TrimSpace(string(before)+string(after)), "\n") {
		stamp, rest, _ := strings.Cut(line, " ")
		require.Less(t, last, stamp, "no two are equal")
		require.True(t, strings.HasPrefix(rest, "stdout F "))
		last = stamp
	}
}
