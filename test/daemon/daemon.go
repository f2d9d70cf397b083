// Package daemon runs the real binary: it is built, started with a folder and an
// address, asked over HTTP and ended, for tests and measurements of the whole
// process.
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

// Build builds the daemon as file binary, as it is released. flags are further
// ones of go build.
func Build(binary string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), "crowsnest/cmd/crowsnest")...)
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

// Daemon is the daemon over its restarts; one process of it runs at a time. Its
// fields are set before Start and stay as they are while it runs. Its methods are
// safe for concurrent use.
type Daemon struct {
	Binary string
	// Dir has its configuration, crowsnest.yml, and what it writes: daemon.log,
	// with both outputs of all its processes, and the folder state.
	Dir string
	// Storage is the folder of its state, if that is not in Dir.
	Storage string
	// Addr is where it listens.
	Addr string
	// Flags are further ones of `crowsnest run`.
	Flags []string
	// Prepare changes how it is started; nil: it is started as it is.
	Prepare func(cmd *exec.Cmd)

	mu   sync.Mutex
	proc *child.Process // nil: none runs
}

// Configure writes its configuration.
func (d *Daemon) Configure(text string) error {
	return os.WriteFile(filepath.Join(d.Dir, "crowsnest.yml"), []byte(text), 0o600)
}

// Start starts it and does not wait until it is ready. It must not run.
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

// StatePath is the folder of its state.
func (d *Daemon) StatePath() string {
	if d.Storage != "" {
		return d.Storage
	}
	return filepath.Join(d.Dir, "state")
}

func (d *Daemon) logFile() string { return filepath.Join(d.Dir, "daemon.log") }

// Log returns all that it wrote to its outputs; "" if that cannot be read.
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

// Process is the running process; nil if there is none, and from the moment that
// End is called.
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

// End sends a signal and waits for the end of the process, which is killed after
// 20 s. It returns how long that took, and the error with which the process
// ended; 0 if none runs.
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

// Ready waits until it says that it is ready. The error has the end of its log.
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

// Reload has it read its configuration and rules anew.
func (d *Daemon) Reload(ctx context.Context) error {
	_, err := d.request(ctx, http.MethodPost, "/-/reload")
	return err
}

// Get returns the body of an answer. Any status but 200 is an error, with the
// body. It waits for 10 s, or as long as ctx says.
func (d *Daemon) Get(ctx context.Context, path string) (string, error) {
	return d.request(ctx, http.MethodGet, path)
}

// client keeps no connections: tests look for goroutines that are left.
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

// Metrics returns every series by its text, such as LinesRead.
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
