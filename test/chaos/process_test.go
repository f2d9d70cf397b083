package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/child"
	"crowsnest/test/daemon"
	"crowsnest/test/wait"
)

// process is the daemon over its restarts, with the observations. Readers may
// use it concurrently.
type process struct {
	*daemon.Daemon
	t *testing.T

	mu      sync.Mutex
	starts  int
	up      time.Time          // start of the running process
	hwm     int64              // maximum resident set over all processes, in KiB
	last    map[string]float64 // newest metrics of the running process
	lines   float64            // lines evaluated by the previous processes
	repeats []time.Duration    // the upper bound of lines read again after each kill, as a time
	exits   []time.Duration    // from SIGTERM to the exit
	stop    func()             // ends the sampling
}

// newProcess writes the configuration and starts nothing.
func newProcess(t *testing.T, dir, config string) *process {
	t.Helper()
	p := &process{t: t, Daemon: &daemon.Daemon{Binary: binary, Dir: dir, Addr: freeAddr(t), Flags: []string{"--web.enable-lifecycle"}}}
	require.NoError(t, p.Configure(config))
	t.Cleanup(func() { p.kill() })
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	return addr
}

// start starts the daemon without waiting until it is ready.
func (p *process) start() {
	p.t.Helper()
	require.NoError(p.t, p.Start())
	proc := p.Process()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.mu.Lock()
	p.last, p.up = nil, time.Now()
	p.starts++
	p.stop = func() { cancel(); <-done }
	p.mu.Unlock()
	go func() {
		defer close(done)
		p.sample(ctx, proc)
	}()
}

// sample keeps the newest metrics and the maximum resident set.
func (p *process) sample(ctx context.Context, proc *child.Process) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if kib := proc.Memory("VmHWM"); kib > 0 {
			p.mu.Lock()
			p.hwm = max(p.hwm, kib)
			p.mu.Unlock()
		}
		// After SIGTERM every moment counts: the listener closes last.
		if n%5 != 0 && p.Process() != nil {
			continue
		}
		if m, err := p.Metrics(ctx); err == nil {
			p.mu.Lock()
			p.last = m
			p.mu.Unlock()
		}
	}
}

// end sends a signal and waits for the exit.
func (p *process) end(sig syscall.Signal) (time.Duration, error) {
	took, err := p.End(sig)
	if took == 0 {
		return 0, nil
	}
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += p.last[evaluatedLines]
	return took, err
}

// kill kills the daemon and records the age of its saved state.
func (p *process) kill() {
	began := time.Now()
	if took, _ := p.end(syscall.SIGKILL); took == 0 {
		return
	}
	if saved, ok := p.savedAt(); ok {
		p.mu.Lock()
		p.repeats = append(p.repeats, min(began.Sub(saved), began.Sub(p.up)))
		p.mu.Unlock()
	}
}

// savedAt returns the time of the snapshot on disk.
func (p *process) savedAt() (time.Time, bool) {
	b, err := os.ReadFile(filepath.Join(p.StatePath(), "state"))
	if err != nil {
		return time.Time{}, false
	}
	_, rest, ok := strings.Cut(string(b[:min(len(b), 4096)]), `"saved":"`)
	text, _, ok2 := strings.Cut(rest, `"`)
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, ok && ok2 && err == nil
}

// savedOffset says whether the snapshot on disk has a stream that is read up to
// the offset.
func (p *process) savedOffset(offset int64) bool {
	b, err := os.ReadFile(filepath.Join(p.StatePath(), "state"))
	return err == nil && strings.Contains(string(b), fmt.Sprintf(`"o":%d,`, offset))
}

// term stops the daemon like the kubelet does.
func (p *process) term() {
	p.t.Helper()
	began := time.Now()
	took, err := p.end(syscall.SIGTERM)
	if took == 0 {
		return
	}
	if err != nil && began.Sub(p.up) > 500*time.Millisecond { // earlier it may not have installed its signal handler
		p.t.Errorf("after SIGTERM: %v in %v", err, took)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exits = append(p.exits, took)
}

// ready waits until the daemon is ready.
func (p *process) ready() {
	p.t.Helper()
	require.NoError(p.t, p.Ready(p.t.Context(), 30*time.Second))
}

// newest returns the newest metrics of the running process.
func (p *process) newest() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// evaluated returns the number of records in the lines that all processes evaluated.
// A part that two processes read, because its line ended after the first one, counts
// once.
func (p *process) evaluated() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Process() == nil {
		return p.lines
	}
	return p.lines + p.last[evaluatedLines]
}

// descriptors counts the open files of the running daemon, and the deleted ones
// among them.
func (p *process) descriptors() (all, deleted int) {
	proc := p.Process()
	if proc == nil {
		return 0, 0
	}
	return proc.Descriptors()
}

// eventually waits for a condition.
func eventually(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	require.True(t, wait.Until(patience, ok), what)
}

// pause waits, as the plan requires.
func pause(d time.Duration) { wait.Pause(context.Background(), d) }
