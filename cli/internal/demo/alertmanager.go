package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// AlertmanagerVersion is the last one that `go install` can build: later module
// archives lack its pages.
const AlertmanagerVersion = "v0.31.1"

// CacheDir returns the folder for built programs. getenv reads the environment.
func CacheDir(getenv func(string) string) (string, error) {
	base := getenv("XDG_CACHE_HOME")
	if base == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("cannot choose a folder for Alertmanager: neither XDG_CACHE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "crowsnest", "bin"), nil
}

// Ensure returns the path of the Alertmanager in dir. If there is none, it builds
// one, which takes a few minutes. say receives progress messages.
func Ensure(ctx context.Context, dir string, say func(string)) (string, error) {
	bin := filepath.Join(dir, "alertmanager")
	if info, err := os.Stat(bin); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return bin, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf("build Alertmanager: %s does not exist, and Go is not installed; install Go, or set --alertmanager", bin)
	}
	say(fmt.Sprintf("building Alertmanager %s into %s (once, a few minutes)", AlertmanagerVersion, dir))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("build Alertmanager: %w", err)
	}
	// The build is renamed into place, so that an interrupted one leaves nothing
	// that looks complete.
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", fmt.Errorf("build Alertmanager: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a leftover does no harm
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/prometheus/alertmanager/cmd/alertmanager@"+AlertmanagerVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+tmp, "CGO_ENABLED=0")
	cmd.Dir = tmp // outside this module
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("build Alertmanager: %w\n%s", err, lastLines(out.String(), 2000)), ctx.Err())
	}
	if err := os.Rename(filepath.Join(tmp, "alertmanager"), bin); err != nil {
		return "", fmt.Errorf("build Alertmanager: %w", err)
	}
	return bin, nil
}

// amConfig notifies nobody; the page of Alertmanager shows the alerts.
const amConfig = `route: {receiver: demo, group_by: [alertname], group_wait: 1s, group_interval: 5s, repeat_interval: 1h}
receivers: [{name: demo}]
`

// Alertmanager is a running Alertmanager.
type Alertmanager struct {
	URL  string
	log  string // file
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
	err  error         // of the process; valid once done is closed
}

// StartAlertmanager starts bin with its files in dir, on a free port of this
// machine, and returns when it is ready. It ends with this process, even if this
// process is killed.
func StartAlertmanager(ctx context.Context, bin, dir string) (*Alertmanager, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte(amConfig), 0o600); err != nil {
		return nil, err
	}
	var errs []error
	for range 3 { // another program may take the port first
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		am, err := startAt(ctx, bin, dir, config, addr)
		if err == nil {
			return am, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start Alertmanager: %w", errors.Join(errs...))
}

func startAt(ctx context.Context, bin, dir, config, addr string) (*Alertmanager, error) {
	am := &Alertmanager{URL: "http://" + addr, log: filepath.Join(dir, "alertmanager.log"), done: make(chan struct{})}
	out, err := os.Create(am.log)
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	am.stop = stop
	cmd := exec.CommandContext(run, bin, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--cluster.listen-address=", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			am.err = cmd.Wait()
			close(am.done)
		}
	}()
	if err := <-started; err != nil {
		stop()
		return nil, err
	}
	if err := am.ready(ctx); err != nil {
		am.Stop()
		return nil, err
	}
	return am, nil
}

// ready waits until it answers.
func (am *Alertmanager) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if res, err := get(ctx, am.URL+"/-/ready"); err == nil && res != nil {
			return nil
		}
		select {
		case <-am.done:
			log, _ := os.ReadFile(am.log)
			return fmt.Errorf("it ended: %w\n%s", am.err, lastLines(string(log), 2000))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready after 20 s: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// Stop ends it and waits until it has ended.
func (am *Alertmanager) Stop() {
	am.stop()
	<-am.done
}

// get returns the body of an answer with status 200.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return body, err
}

// freeAddr returns a local address whose port is free at the moment.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func lastLines(s string, n int) string {
	if len(s) > n {
		s = "..." + s[len(s)-n:]
	}
	return s
}
