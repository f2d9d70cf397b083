package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/test/kubesim"
)

// made are the answers of made-up daemons.
type made struct {
	alerts  string // JSON
	changes bool   // the alerts are others in every answer
	n       atomic.Int64
}

func alerts(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"fingerprint":"%016x","alert":"Rule%d","pack":"p","state":"firing","labels":{"alertname":"Rule%d","severity":"warning","namespace":"kube-system","pod":"pod-%d"},`+
			`"annotations":{"summary":"It fails.","description":%q,"affected":"yes: x v1.32.0 is affected (versions 1)."},"startsAt":"2026-01-01T00:00:00Z","lastSeen":"2026-01-01T00:00:00Z","count":3,"line":%q}`,
			i, i%50, i%50, i, strings.Repeat("text ", 80), strings.Repeat("line ", 40)))
	}
	return strings.Join(out, ",")
}

// ServeHTTP implements http.Handler.
func (m *made) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch filepath.Base(r.URL.Path) {
	case "runtimeinfo":
		fmt.Fprint(w, `{"status":"success","data":{"startTime":"2026-01-01T00:00:00Z","externalLabels":{}}}`)
	case "buildinfo":
		fmt.Fprint(w, `{"status":"success","data":{"version":"1"}}`)
	default:
		tag := `W/"0"`
		if m.changes {
			tag = fmt.Sprintf(`W/"%d"`, m.n.Add(1))
		}
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"episodes":[%s]}}`, m.alerts)
	}
}

// measureFleet measures polls of clusters.
func measureFleet(ctx context.Context, o options) error {
	fmt.Println("| clusters | open alerts in each | answers | polls/s | CPU of the fleet view | per poll | memory |\n|---:|---:|---|---:|---:|---:|---:|")
	for _, x := range []struct {
		clusters, alerts int
		changes          bool
	}{{100, 0, true}, {100, 100, false}, {100, 100, true}, {100, 1000, true}, {500, 10, false}} {
		if err := measurePolls(ctx, o, x.clusters, x.alerts, x.changes); err != nil {
			return err
		}
	}
	return nil
}

func measurePolls(ctx context.Context, o options, clusters, open int, changes bool) error {
	m := &made{alerts: alerts(open), changes: changes}
	list, ports, err := serve(m, clusters)
	defer ports()
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o, func(_, alertmanager string) string {
		return fmt.Sprintf("rules: {shipped: false, allow_empty: true}\nsinks: {alertmanager: {urls: [%q]}}\nsources:\n  fleet:\n    interval: 5s\n    unknown_after: 30s\n    clusters:\n%s", alertmanager, list)
	})
	defer l.close()
	if err != nil {
		return err
	}
	if err := idle(ctx, 3*time.Second); err != nil {
		return err
	}
	polls := func() float64 {
		got, err := l.Metrics(ctx)
		if err != nil {
			return 0
		}
		return got["crowsnest_fleet_polls_total"]
	}
	before := polls()
	cpu, took, err := l.spent(func() error { return idle(ctx, o.span) })
	if err != nil {
		return err
	}
	n := polls() - before
	answers := "unchanged"
	if changes {
		answers = "changed"
	}
	fmt.Printf("| %d | %d | %s | %.0f | %s | %s | %d MiB |\n", clusters, open, answers, n/took.Seconds(), share(cpu, took), each(cpu, int64(n)), l.memory())
	return nil
}

// serve serves the daemons of clusters on ports of their own, and returns the configuration.
func serve(h http.Handler, clusters int) (list string, end func(), err error) {
	var servers []*http.Server
	end = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	var out strings.Builder
	for i := range clusters {
		in, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
		if err != nil {
			return "", end, err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		servers = append(servers, s)
		go func() { _ = s.Serve(in) }()
		fmt.Fprintf(&out, "    - {cluster: c%d, url: 'http://%s'}\n", i, in.Addr())
	}
	return out.String(), end, nil
}

// measureChurn measures pods that come and go on a node.
func measureChurn(ctx context.Context, o options) error {
	fmt.Println("| pods that came and went, each second | CPU of the agent | per pod |\n|---:|---:|---:|")
	dir, err := os.MkdirTemp("", "scale-pods-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	l, err := newLab(ctx, o, func(pack, alertmanager string) string {
		return fmt.Sprintf("rules: {shipped: false, paths: [%q]}\nsinks: {alertmanager: {urls: [%q]}}\nsources: {kubelet: {dir: %q}}\n", pack, alertmanager, dir)
	})
	defer l.close()
	if err != nil {
		return err
	}
	for _, rate := range []int{0, 10, 50} {
		n := 0
		cpu, took, err := l.spent(func() error {
			n = churn(ctx, dir, rate, o.span)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %s | %s |\n", rate, share(cpu, took), each(cpu, int64(n)))
	}
	return nil
}

// churn starts pods with a log of ten lines, and removes each after two seconds.
func churn(ctx context.Context, dir string, rate int, span time.Duration) (n int) {
	type pod struct {
		c     *kubesim.Container
		until time.Time
	}
	var all []pod
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < span && ctx.Err() == nil; <-tick.C {
		for n < int(time.Since(began).Seconds()*float64(rate)) {
			n++
			c := kubesim.New(kubesim.Options{Root: dir, Namespace: "ns", Pod: fmt.Sprintf("job-%d-%d", rate, n), Container: "c"})
			for range 10 {
				c.Write("stderr", "I0101 00:00:00.000000       1 main.go:1] an ordinary line of a controller")
			}
			c.Close()
			all = append(all, pod{c, time.Now().Add(2 * time.Second)})
		}
		for len(all) > 0 && time.Now().After(all[0].until) {
			_ = os.RemoveAll(all[0].c.PodDir())
			all = all[1:]
		}
	}
	return n
}
