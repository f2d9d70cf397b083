package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"crowsnest/daemon/component"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
)

// Minimum and maximum of how far back a source without a saved position reads.
const (
	minLookBack = 15 * time.Minute
	maxLookBack = time.Hour
)

// lookBack returns the longest window of the rules, limited to the minimum and the maximum above.
func lookBack(set *rules.Set) time.Duration {
	d := minLookBack
	for _, r := range set.Rules {
		d = max(d, r.Within, r.For, r.Silent)
		if r.Unless != nil {
			d = max(d, r.Unless.Within)
		}
	}
	return min(d, maxLookBack)
}

func newSources(opt Options, set *rules.Set) ([]sources.Source, []component.Kind) {
	common := component.SourceOptions{Clock: opt.now, LookBack: lookBack(set), Leads: opt.elsewhere, Stdin: opt.Stdin, PodFolder: ownFolder(opt.Getenv)}
	common.OpenFiles = func(configured int) int { return openFiles(configured, opt.Cfg.Sources) }
	common.Namespace, common.Pod = ownPod(opt.Getenv)
	common.Node = opt.Getenv("NODE_NAME")
	var out []sources.Source
	var kinds []component.Kind
	for _, p := range opt.Cfg.Sources.All {
		for _, s := range p.Kind.Sources(p, common) {
			out, kinds = append(out, s), append(kinds, p.Kind)
		}
	}
	return out, kinds
}

// ownPod returns the pod of this process. Its log is never read.
func ownPod(getenv func(string) string) (namespace, pod string) {
	namespace, pod = getenv("POD_NAMESPACE"), getenv("POD_NAME")
	if pod == "" && getenv("KUBERNETES_SERVICE_HOST") != "" {
		pod, _ = os.Hostname() // the host name is the name of the pod, unless the pod uses the network of the node
	}
	return namespace, pod
}

// ownFolder returns the prefix of the kubelet's log folder of this pod, or "" if the pod is unknown.
func ownFolder(getenv func(string) string) string {
	ns, pod := getenv("POD_NAMESPACE"), getenv("POD_NAME")
	if ns == "" || pod == "" {
		return ""
	}
	return ns + "_" + pod + "_" + getenv("POD_UID")
}

func newSinks(opt Options, latency func(time.Duration)) ([]sinks.Sink, error) {
	cfg := opt.Cfg
	common := component.SinkOptions{
		Log: opt.Log, Now: opt.now, OnAccepted: opt.onAccepted, Leads: opt.leads, Latency: latency, Into: cfg.Global.ApplyTo, Stdout: opt.Stdout, Color: opt.Color,
		// The state of a sink also keeps ended alerts for a while, so it needs more room than the open alerts.
		MaxKeys: max(sinks.DefaultMaxKeys, 4*cfg.Limits.ActiveAlerts),
	}
	var out []sinks.Sink
	for _, p := range cfg.Sinks.All {
		if p.Kind.Sink == nil {
			continue
		}
		s, err := p.Kind.Sink(p, common)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", p.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func newLatency(reg *prometheus.Registry) (func(time.Duration), error) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:                            "crowsnest_detection_seconds",
		Help:                            "Time from the writing of the line that made an alert fire until the first Alertmanager had accepted it.",
		Buckets:                         []float64{.05, .1, .2, .3, .5, 1, 2, 5, 10, 30, 60, 300},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	})
	if err := reg.Register(h); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return func(d time.Duration) { h.Observe(d.Seconds()) }, nil
}

// All parts of the process share its file descriptors. Without these limits, open logs could use all descriptors and
// leave none for alerts, the state and the pages.
const (
	maxLogs  = 1024 // default number of log files that a source holds open
	minLogs  = 8
	maxConns = 256
	minConns = 4
)

// openFiles returns the number of log files that a source may hold open: the configured number,
// but at most the source's share of half of the process's descriptors.
func openFiles(configured int, all component.Parts) int {
	sources := 0
	for _, p := range all.All {
		if p.Setting("max_open_files").IsValid() {
			sources++
		}
	}
	if configured == 0 {
		configured = maxLogs
	}
	limit, ok := descriptorLimit()
	if !ok {
		return configured
	}
	return min(configured, max(minLogs, limit/2/max(1, sources)))
}

// webConns returns the maximum number of connections that the listeners accept at the same time.
func webConns() int {
	limit, ok := descriptorLimit()
	if !ok {
		return maxConns
	}
	return min(maxConns, max(minConns, limit/8))
}
