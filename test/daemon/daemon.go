// Package daemon builds, starts, queries and stops the real binary, for tests and
// measurements of the whole process.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"crowsnest/test/child"
	"crowsnest/test/wait"
)

const (
	answersWithin = 10 * time.Second // a request whose context has no deadline
	endsWithin    = 20 * time.Second // after a signal; then it is killed
)

// LinesRead is the series that counts the lines of the kubelet source.
const LinesRead = `crowsnest_source_lines_total{source="kubelet"}`

// Build builds the daemon as it is released, into file binary. flags are additional
// flags of go build.
func Build(binary string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.Command("go", append(args, "crowsnest/cmd/crowsnest")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// FreeAddr returns an address of loopback at which a daemon can listen.
func FreeAddr() (string, error) {
	port, err := child.FreePort()
	return child.Address(port), err
}

// Daemon is the daemon across its restarts; at most one process runs at a time. Its
// fields are set before Start and must not change while it runs. Its methods are safe
// for concurrent use.
type Daemon struct {
	Binary string
	// Dir holds its configuration, crowsnest.yml, and its output: daemon.log, with
	// stdout and stderr of all its processes, and the folder state.
	Dir string
	// Storage is the folder of its state, if it is not in Dir.
	Storage string
	// Addr is the listen address.
	Addr string
	// Flags are additional flags of `crowsnest run`.
	Flags []string
	// Prepare modifies the command before the start; may be nil.
	Prepare func(cmd *exec.Cmd)

	mu   sync.Mutex
	proc *child.Process // nil: not running
}

// Configure writes its configuration.
func (d *Daemon) Configure(text string) error {
	return os.WriteFile(filepath.Join(d.Dir, "crowsnest.yml"), []byte(text), 0o600)
}

// Start starts it and does not wait until it is ready. It must not be running.
func (d *Daemon) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.proc != nil {
		return errors.New("the daemon runs already")
	}
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{
		"run", "--config.file", filepath.Join(d.Dir, "crowsnest.yml"), "--storage.path", d.StatePath(),
		"--web.listen-address", d.Addr, "--log.format=json",
	}
	cmd := exec.Command(d.Binary, append(args, d.Flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if d.Prepare != nil {
		d.Prepare(cmd)
	}
	d.proc, err = child.Start(cmd)
	return err
}

// StatePath returns the folder of its state.
func (d *Daemon) StatePath() string {
	if d.Storage != "" {
		return d.Storage
	}
	return filepath.Join(d.Dir, "state")
}

func (d *Daemon) logFile() string { return filepath.Join(d.Dir, "daemon.log") }

// Log returns all output so far; "" if it cannot be read.
func (d *Daemon) Log() string {
	b, err := os.ReadFile(d.logFile())
	if err != nil {
		return ""
	}
	return string(b)
}

// LogEnd returns about a screen of the end of Log.
func (d *Daemon) LogEnd() string {
	log := d.Log()
	return log[max(0, len(log)-3000):]
}

// Process returns the running process; nil if there is none, and once End was called.
func (d *Daemon) Process() *child.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proc
}

// Signal sends a signal to the running process, if there is one.
func (d *Daemon) Signal(sig os.Signal) {
	if proc := d.Process(); proc != nil {
		_ = proc.Signal(sig) // it may have ended
	}
}

// End sends a signal and waits for the end of the process; after 20 s it kills the
// process. It returns the duration and the error of the process; 0 if none runs.
func (d *Daemon) End(sig os.Signal) (time.Duration, error) {
	d.mu.Lock()
	proc := d.proc
	d.proc = nil
	d.mu.Unlock()
	if proc == nil {
		return 0, nil
	}
	began := time.Now()
	err := proc.End(sig, endsWithin)
	return time.Since(began), err
}

// Ready waits until it reports ready. The error contains the end of its log.
func (d *Daemon) Ready(ctx context.Context, patience time.Duration) error {
	err := wait.NoError(ctx, patience, func() error {
		_, err := d.Get(ctx, "/-/ready")
		return err
	})
	if err != nil {
		err = fmt.Errorf("the daemon is not ready: %w\n%s", err, d.LogEnd())
	}
	return err
}

// Reload makes it read its configuration and rules again.
func (d *Daemon) Reload(ctx context.Context) error {
	_, err := d.request(ctx, http.MethodPost, "/-/reload")
	return err
}

// Get returns the body of a response. Any status other than 200 is an error that
// contains the body. The timeout is 10 s, or the deadline of ctx.
func (d *Daemon) Get(ctx context.Context, path string) (string, error) {
	return d.request(ctx, http.MethodGet, path)
}

// client keeps no connections: tests check for leaked goroutines.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (d *Daemon) request(ctx context.Context, method, path string) (string, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answersWithin)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.Addr+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// Metrics returns every series by its name and labels, such as LinesRead.
func (d *Daemon) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := d.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out, nil
}
