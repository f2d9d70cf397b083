package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crowsnest/test/child"
)

const (
	readyWithin = 90 * time.Second // the machine may be busy
	askEvery    = 50 * time.Millisecond
	logShown    = 4 << 10 // bytes of a log that are printed when a test fails
)

// Server is a running server. It is not safe for concurrent use.
type Server struct {
	// Name is the name of its program, numbered if there are several.
	Name string
	// URL is its base address, without a trailing slash.
	URL string
	// Dir holds its files; it is removed after the test, unless the test chose it.
	Dir string

	t     testing.TB
	bin   string
	args  []string
	env   []string
	ready string // path that answers 200
	proc  *child.Process
}

// start starts it and waits until it is ready. The test's cleanup kills it.
func (s *Server) start() {
	s.t.Helper()
	s.t.Cleanup(func() {
		s.Kill()
		if s.t.Failed() {
			s.keepLog()
		}
	})
	s.Start()
}

// Start starts a stopped server with its previous files and address, and waits until it
// is ready.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	s.WaitReady()
}

// Launch starts a stopped server without waiting.
func (s *Server) Launch() {
	s.t.Helper()
	if s.running() {
		s.t.Fatalf("%s runs already", s.Name)
	}
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatalf("start %s: %v", s.Name, err)
	}
	defer out.Close()
	cmd := exec.Command(s.bin, s.args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if s.proc, err = child.Start(cmd); err != nil {
		s.t.Fatalf("start %s: %v", s.Name, err)
	}
}

// WaitReady waits until the server reports ready.
func (s *Server) WaitReady() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if err := Get(ctx, s.URL+s.ready, nil); err == nil {
			return
		}
		select {
		case <-s.proc.Done():
			s.t.Fatalf("%s ended: %v\n%s", s.Name, s.proc.Wait(), s.lastLog())
		case <-ctx.Done():
			s.t.Fatalf("%s is not ready after %s\n%s", s.Name, readyWithin, s.lastLog())
		case <-tick.C:
		}
	}
}

func (s *Server) running() bool { return s.proc != nil && s.proc.Running() }

// PID returns its process ID.
func (s *Server) PID() int { return s.proc.PID() }

// Kill kills it and waits for its end. It does nothing if the server does not run.
func (s *Server) Kill() {
	if s.running() {
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGKILL)
		<-s.proc.Done()
	}
}

// Stop terminates it and waits. Loki takes minutes: kill it instead.
func (s *Server) Stop() {
	if s.running() {
		s.signal(syscall.SIGTERM)
		<-s.proc.Done()
	}
}

// Suspend stops it with SIGSTOP: it accepts connections and does not answer.
func (s *Server) Suspend() { s.signal(syscall.SIGSTOP) }

// Resume reverts Suspend.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if err := s.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("signal %s to %s: %v", sig, s.Name, err)
	}
}

func (s *Server) logFile() string { return filepath.Join(s.Dir, s.Name+".log") }

// Log returns all its output.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (s *Server) lastLog() string {
	text := s.Log()
	if len(text) > logShown {
		text = "..." + text[len(text)-logShown:]
	}
	return text
}

// keepLog copies the log to where it survives the test.
func (s *Server) keepLog() {
	name := strings.NewReplacer("/", "_", " ", "_").Replace(s.t.Name())
	dir := filepath.Join(os.TempDir(), "crowsnest-servers", name)
	file := filepath.Join(dir, s.Name+".log")
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(s.Log()), 0o600)
	}
	if err != nil {
		s.t.Logf("keep the log of %s: %v", s.Name, err)
		return
	}
	s.t.Logf("the log of %s is kept at %s; its end:\n%s", s.Name, file, s.lastLog())
}

// Get fetches url and passes the body to read, unless that is nil. A status other than
// 2xx is an error that contains the server's message.
func Get(ctx context.Context, url string, read func(body []byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return do(req, read)
}

func do(req *http.Request, read func(body []byte) error) error {
	ctx, cancel := context.WithTimeout(req.Context(), 10*time.Second)
	defer cancel()
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.300s", req.Method, req.URL.Path, res.Status, body)
	}
	if read == nil {
		return nil
	}
	return read(body)
}

// client keeps no connections: tests check for leaked goroutines.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
