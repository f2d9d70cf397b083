package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"crowsnest/internal/text"
)

// Find returns the path of the Alertmanager that `make run` builds.
func Find(getenv func(string) string) (string, error) {
	base := getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(getenv("HOME"), ".cache")
	}
	bin := filepath.Join(base, "crowsnest", "bin", "alertmanager")
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("there is no Alertmanager program at %s: run make run, which builds one, or name a program with --alertmanager", bin)
	}
	return bin, nil
}

// amConfig is a configuration with a receiver that notifies nobody. Alerts are visible on Alertmanager's pages.
const amConfig = `route: {receiver: demo, group_by: [alertname], group_wait: 1s, group_interval: 5s, repeat_interval: 1h}
receivers: [{name: demo}]
`

// Alertmanager is a running Alertmanager.
type Alertmanager struct {
	URL  string
	log  string // path of the log file
	stop context.CancelFunc
	done chan struct{} // closed when the process has ended
	err  error         // error with which the process ended; valid after done is closed
}

// StartAlertmanager starts the program bin on a free local port, with its files in dir, and
// returns when it is ready. The Alertmanager ends with this process, even if this process is
// killed.
func StartAlertmanager(ctx context.Context, bin, dir string) (*Alertmanager, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte(amConfig), 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
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
		// Lock the goroutine to its thread, because the kernel sends Pdeathsig when the thread that started the child
		// ends.
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
		return nil, fmt.Errorf("start Alertmanager: %w", err)
	}
	if err := am.waitReady(ctx); err != nil {
		am.Stop()
		return nil, fmt.Errorf("start Alertmanager: %w", err)
	}
	return am, nil
}

func (am *Alertmanager) waitReady(ctx context.Context) error {
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
			return fmt.Errorf("the process ended: %w\n%s", am.err, log[max(0, len(log)-2000):])
		case <-ctx.Done():
			return fmt.Errorf("Alertmanager is not ready after 20 s: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// Stop stops the Alertmanager and waits until the process has ended.
func (am *Alertmanager) Stop() {
	am.stop()
	<-am.done
}

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

// freeAddr returns a local address whose port is free at the time of the call.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitedAlert is an alert that must fire in an Alertmanager, and possibly resolve there.
type awaitedAlert struct {
	Expected
	ends    bool // whether the alert must also resolve
	arrived bool
	done    bool
}

// Await returns nil when every alert that the recorded incidents (stories) expect has arrived at the Alertmanager, and
// every alert that must resolve has resolved there. It returns an error if an alert arrives that no incident expects,
// or if ctx ends. Every eight seconds it calls say with a sentence about the missing alerts.
func (am *Alertmanager) Await(ctx context.Context, stories []Story, say func(sentence string)) error {
	var all []awaitedAlert
	for _, s := range stories {
		for _, e := range s.Fires {
			all = append(all, awaitedAlert{Expected: e})
		}
		for _, e := range s.Resolves {
			all = append(all, awaitedAlert{Expected: e, ends: true})
		}
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	progress := time.NewTicker(8 * time.Second)
	defer progress.Stop()
	for {
		active, err := am.activeAlerts(ctx)
		if err == nil {
			if strange := noteActive(all, active); len(strange) > 0 {
				return fmt.Errorf("alerts arrived that no incident expects:\n  %s", strings.Join(strange, "\n  "))
			}
		}
		var missing []string
		done := map[bool]int{}
		for _, a := range all {
			if a.done {
				done[a.ends]++
			} else {
				missing = append(missing, map[bool]string{false: "not arrived: ", true: "not resolved: "}[a.ends]+text.FormatLabels(a.Expected))
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not every expected alert arrived:\n  %s: %w", strings.Join(missing, "\n  "), ctx.Err())
		case <-progress.C:
			say(fmt.Sprintf("(waiting for Alertmanager: %d alerts arrived, %d resolved, %d of %d events are missing)", done[false], done[true], len(missing), len(all)))
		case <-tick.C:
		}
	}
}

func (am *Alertmanager) activeAlerts(ctx context.Context) (out []map[string]string, err error) {
	body, err := get(ctx, am.URL+"/api/v2/alerts")
	if err != nil {
		return nil, err
	}
	var in []struct{ Labels map[string]string }
	err = json.Unmarshal(body, &in)
	for _, x := range in {
		out = append(out, x.Labels)
	}
	return out, err
}

// noteActive marks the awaited alerts that are active. It returns the active alerts that no recorded incident expects,
// except crowsnest's alerts about itself.
func noteActive(all []awaitedAlert, active []map[string]string) (strange []string) {
	for i := range all {
		a := &all[i]
		has := slices.ContainsFunc(active, a.coversLabels)
		a.arrived = a.arrived || has
		a.done = a.done || a.arrived && has != a.ends
	}
	for _, labels := range active {
		expected := slices.ContainsFunc(all, func(a awaitedAlert) bool { return !a.ends && a.coversLabels(labels) })
		if !expected && !strings.HasPrefix(labels["alertname"], "Crowsnest") {
			strange = append(strange, text.FormatLabels(labels))
		}
	}
	return strange
}
