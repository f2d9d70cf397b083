package probes

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
)

// pod is one pod under a kubelet that probes it according to its manifest, with
// periods shortened by haste.
type pod struct {
	*daemon.Daemon
	t      *testing.T
	probes string // address of its probes
	container

	mu       sync.Mutex
	ready    bool
	restarts int
	why      string // of the last restart
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// run starts the pod and probes it until the test ends.
func (p *pod) run() {
	p.t.Helper()
	require.NoError(p.t, p.Start())
	ctx, cancel := context.WithCancel(p.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.watch(ctx) })
	p.t.Cleanup(func() {
		cancel()
		wg.Wait()
		_, _ = p.End(syscall.SIGKILL)
	})
}

// watch probes the pod, and restarts it when a probe fails.
func (p *pod) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if !p.until(ctx, p.Startup) || !p.alive(ctx) {
			p.restart(ctx)
		}
	}
}

// until probes until a probe succeeds. It returns false if the allowed number
// of probes fail. It waits for a process that does not listen yet: the time to
// start is not tested here.
func (p *pod) until(ctx context.Context, probe probe) bool {
	tick := time.NewTicker(p.period(probe))
	defer tick.Stop()
	for failed := 0; failed < probe.Failures; {
		select {
		case <-ctx.Done():
			return true
		case <-tick.C:
		}
		switch code := p.ask(ctx, probe.Get.Path); {
		case code == http.StatusOK:
			return true
		case code != 0:
			failed++
		}
	}
	return false
}

// alive probes readiness and liveness; it returns false when liveness has
// failed permanently.
func (p *pod) alive(ctx context.Context) bool {
	tick := time.NewTicker(min(p.period(p.Readiness), p.period(p.Liveness)))
	defer tick.Stop()
	for failed := 0; failed < p.Liveness.Failures; {
		ready := p.ask(ctx, p.Readiness.Get.Path) == http.StatusOK
		p.mu.Lock()
		p.ready = ready
		p.mu.Unlock()
		if p.ask(ctx, p.Liveness.Get.Path) == http.StatusOK {
			failed = 0
		} else {
			failed++
		}
		select {
		case <-ctx.Done():
			return true
		case <-tick.C:
		}
	}
	return false
}

func (p *pod) restart(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	p.restarts, p.ready, p.why = p.restarts+1, false, p.body(ctx)
	p.mu.Unlock()
	_, _ = p.End(syscall.SIGTERM)
	if err := p.Start(); err != nil {
		p.t.Errorf("start again: %v", err)
	}
}

func (p *pod) period(probe probe) time.Duration {
	return max(time.Duration(probe.Period)*time.Second/haste, 20*time.Millisecond)
}

// ask returns the status of a probe, 0 without a response.
func (p *pod) ask(ctx context.Context, path string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.probes+path, nil)
	if err != nil {
		return 0
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// body returns the body of the readiness probe.
func (p *pod) body(ctx context.Context) string {
	text, err := p.Get(ctx, "/-/ready")
	if err != nil {
		text = err.Error()
	}
	return strings.TrimSpace(text)
}

func (p *pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// unrestarted fails the test if a probe has restarted the pod.
func (p *pod) unrestarted() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Zero(p.t, p.restarts, "%s", p.why)
}
