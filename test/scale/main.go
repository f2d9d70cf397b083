// Command scale measures what an aggregator and an agent cost per unit of
// work, with the real binary and real HTTP on loopback, and simulates up to 5,000 nodes. It
// reports CPU time of the daemon, which does not depend on what else the machine does.
//
//	go run ./test/scale -binary bin/crowsnest
//
// It takes at most three minutes, uses two cores, and needs two file descriptors for each
// node.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crowsnest/rules"
	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
)

// pack has a rule whose hits open nothing, and one that opens an alert for each pod.
const pack = `pack: {name: scale, version: 1.0.0}
rules:
- {alert: Counted, from: '{container="c"}', match: 'it is counted (?P<pod>\S+)', by: [pod], count: 10000, within: 10m, limit: 10000, severity: info, annotations: {summary: s}}
- {alert: Opens, from: '{container="c"}', match: 'it opens (?P<pod>\S+)', by: [pod], limit: 10000, keep_firing_for: 1h, severity: info, annotations: {summary: s}}
`

type options struct {
	binary string
	nodes  []int
	span   time.Duration // of each measurement
}

func main() {
	binary := flag.String("binary", "bin/crowsnest", "`FILE` of the daemon")
	nodes := flag.String("nodes", "200,1000,2500,5000", "numbers of simulated nodes")
	span := flag.Duration("for", 6*time.Second, "duration of each measurement")
	flag.Parse()
	runtime.GOMAXPROCS(2)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	err := run(ctx, options{binary: *binary, nodes: numbers(*nodes), span: *span})
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func numbers(text string) (out []int) {
	for _, word := range strings.Split(text, ",") {
		if n, err := strconv.Atoi(word); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func run(ctx context.Context, o options) error {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	o.binary = binary
	for _, measure := range []func(context.Context, options) error{measureNodes, measureEpisodes, measureChurn} {
		if err := measure(ctx, o); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

// lab is a daemon under measurement.
type lab struct {
	*daemon.Daemon
	dir string
	am  *fakeam.Server
	set *rules.Set
}

// newLab starts a daemon. config gets the path of the pack and the address of Alertmanager.
func newLab(ctx context.Context, o options, config func(pack, alertmanager string) string) (*lab, error) {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir}
	file := filepath.Join(dir, "scale.yaml")
	if err := os.WriteFile(file, []byte(pack), 0o600); err != nil {
		return l, err
	}
	doc, problems := rules.Parse(rules.File{Name: "scale.yaml", Data: []byte(pack)})
	if len(problems.Errors()) > 0 {
		return l, problems
	}
	if l.set, problems = rules.Build([]*rules.Document{doc}, rules.Options{}); len(problems.Errors()) > 0 {
		return l, problems
	}
	if l.am, err = fakeam.Serve(fakeam.New()); err != nil {
		return l, err
	}
	addr, err := daemon.FreeAddr()
	if err != nil {
		return l, err
	}
	l.Daemon = &daemon.Daemon{Binary: o.binary, Dir: dir, Addr: addr}
	if err := l.Configure(config(file, l.am.URL)); err != nil {
		return l, err
	}
	if err := l.Start(); err != nil {
		return l, err
	}
	if err := l.Ready(ctx, 30*time.Second); err != nil {
		return l, fmt.Errorf("%w\n%s", err, l.LogEnd())
	}
	return l, nil
}

func (l *lab) close() {
	if l.Daemon != nil {
		_, _ = l.End(syscall.SIGKILL)
	}
	if l.am != nil {
		l.am.Stop()
	}
	_ = os.RemoveAll(l.dir)
}

// spent runs f and returns the CPU time of the daemon and the time that passed.
func (l *lab) spent(f func() error) (cpu, took time.Duration, err error) {
	before, err := l.Process().CPU()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	after, err := l.Process().CPU()
	return after - before, took, err
}

// memory is the resident memory of the daemon in MiB.
func (l *lab) memory() int64 { return l.Process().Memory("VmRSS") >> 10 }

// idle waits, and returns an error if ctx ends.
func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func share(cpu, took time.Duration) string {
	return fmt.Sprintf("%.1f %%", 100*cpu.Seconds()/took.Seconds())
}

func each(cpu time.Duration, n int64) string {
	if n <= 0 {
		return "-"
	}
	return (cpu / time.Duration(n)).Round(10 * time.Nanosecond).String()
}
