package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is the daemon, over its restarts. It is safe for concurrent use by
// those who read.
type process struct {
	t    *testing.T
	dir  string
	addr string
	// prepare changes how the daemon is started, storage is the folder of its
	// state if it is not in dir.
	prepare func(cmd *exec.Cmd)
	storage string

	mu      sync.Mutex
	cmd     *exec.Cmd
	starts  int
	up      time.Time          // since when the running process is there
	hwm     int64              // greatest resident set, in KiB, over all processes
	last    map[string]float64 // newest metrics of the running process
	lines   float64            // lines read by the processes before it
	repeats []time.Duration    // how much at most is read again after each kill
	exits   []time.Duration    // from SIGTERM to the exit
	stop    func()             // ends the sampling
}

// newProcess writes the configuration and starts nothing.
func newProcess(t *testing.T, dir, config string) *process {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crowsnest.yml"), []byte(config), 0o600))
	p := &process{t: t, dir: dir, addr: freeAddr(t)}
	t.Cleanup(func() { p.kill() })
	return p
}

// freeAddr returns a loopback address below the ports of passing connections.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// start starts the daemon and does not wait until it is ready.
func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "daemon.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	cmd := exec.Command(binary, "run", "--config.file", filepath.Join(p.dir, "crowsnest.yml"),
		"--storage.path", p.statePath(), "--web.listen-address", p.addr, "--web.enable-lifecycle", "--log.format=json")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.prepare != nil {
		p.prepare(cmd)
	}
	require.NoError(p.t, cmd.Start())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.last, p.up = cmd, nil, time.Now()
	p.starts++
	p.stop = func() { cancel(); <-done }
	p.mu.Unlock()
	go func() {
		defer close(done)
		p.sample(ctx, cmd.Process.Pid)
	}()
}

func (p *process) statePath() string {
	if p.storage != "" {
		return p.storage
	}
	return filepath.Join(p.dir, "state")
}

// sample keeps the newest metrics and the greatest resident set.
func (p *process) sample(ctx context.Context, pid int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if kib := highWater(pid); kib > 0 {
			p.mu.Lock()
			p.hwm = max(p.hwm, kib)
			p.mu.Unlock()
		}
		if n%5 != 0 && !p.stopping() {
			continue
		}
		if m, err := p.metrics(ctx); err == nil {
			p.mu.Lock()
			p.last = m
			p.mu.Unlock()
		}
	}
}

// stopping tells whether SIGTERM was sent: then every moment counts, because the
// listener closes last.
func (p *process) stopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd == nil
}

// signal sends a signal to the running daemon.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// end sends a signal and waits for the exit.
func (p *process) end(sig syscall.Signal) (time.Duration, error) {
	p.mu.Lock()
	cmd := p.cmd
	p.cmd = nil
	p.mu.Unlock()
	if cmd == nil {
		return 0, nil
	}
	began := time.Now()
	_ = cmd.Process.Signal(sig)
	guard := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	err := cmd.Wait()
	took := time.Since(began)
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += p.last[linesRead]
	return took, err
}

const linesRead = `crowsnest_source_lines_total{source="kubelet"}`

// kill kills the daemon and notes how old its saved state was.
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

// savedAt is when the state on the disk was copied.
func (p *process) savedAt() (time.Time, bool) {
	b, err := os.ReadFile(filepath.Join(p.statePath(), "state"))
	if err != nil {
		return time.Time{}, false
	}
	_, rest, ok := strings.Cut(string(b[:min(len(b), 4096)]), `"saved":"`)
	text, _, ok2 := strings.Cut(rest, `"`)
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, ok && ok2 && err == nil
}

// term stops the daemon as the kubelet does.
func (p *process) term() {
	p.t.Helper()
	began := time.Now()
	took, err := p.end(syscall.SIGTERM)
	if took == 0 {
		return
	}
	if err != nil && began.Sub(p.up) > 500*time.Millisecond { // before, it may not have got to its handler
		p.t.Errorf("after SIGTERM: %v in %v", err, took)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exits = append(p.exits, took)
}

// ready waits until the daemon says so.
func (p *process) ready() {
	p.t.Helper()
	if !await(30*time.Second, func() bool {
		_, err := p.get(p.t.Context(), "/-/ready")
		return err == nil
	}) {
		log, _ := os.ReadFile(filepath.Join(p.dir, "daemon.log"))
		require.Fail(p.t, "the daemon is not ready", "%s", log[max(0, len(log)-3000):])
	}
}

// get returns the body of an answer.
func (p *process) get(ctx context.Context, path string) (string, error) {
	return request(ctx, http.MethodGet, "http://"+p.addr+path)
}

func request(ctx context.Context, method, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

// metrics returns every series by its text.
func (p *process) metrics(ctx context.Context) (map[string]float64, error) {
	body, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		name, value, ok := cutLast(sc.Text())
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[name] = v
		}
	}
	return out, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 || s[0] == '#' {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// newest returns the newest metrics of the running process.
func (p *process) newest() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// read returns the lines that all processes have read.
func (p *process) read() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return p.lines
	}
	return p.lines + p.last[linesRead]
}

// descriptors counts the open files of the running daemon, and those of them
// that were deleted.
func (p *process) descriptors() (all, deleted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, 0
	}
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasSuffix(to, " (deleted)") {
			deleted++
		}
	}
	return len(entries), deleted
}

// highWater is the greatest resident set of a process, in KiB.
func highWater(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// eventually waits for a condition.
func eventually(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	require.True(t, await(patience, ok), what)
}

// await waits for a condition and tells whether it came.
func await(patience time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// pause waits, as the plan says.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
