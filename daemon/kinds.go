package daemon

import (
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sinks/loki"
	"crowsnest/sinks/stdout"
	"crowsnest/sinks/webhook"
	"crowsnest/sources"
	"crowsnest/sources/agents"
	"crowsnest/sources/files"
	"crowsnest/sources/kubelet"
	"crowsnest/sources/kubernetes"
	lokisource "crowsnest/sources/loki"
	"crowsnest/sources/machines"
	"crowsnest/sources/stdin"
)

// How far a source without a saved position looks back: as far as any rule
// does, within these bounds.
const (
	leastLookBack = 15 * time.Minute
	mostLookBack  = time.Hour
)

// lookBack is the longest time over which a rule looks.
func lookBack(set *rules.Set) time.Duration {
	d := leastLookBack
	for _, r := range set.Rules {
		d = max(d, r.Within, r.For)
		if r.Unless != nil {
			d = max(d, r.Unless.Within)
		}
	}
	return min(d, mostLookBack)
}

// newSources makes the configured sources. A kind of source is one case here.
func newSources(opt Options, set *rules.Set) ([]sources.Source, error) {
	var out []sources.Source
	if p := opt.Cfg.Sources.Kubelet; p != nil {
		cfg := p.Config
		cfg.MaxOpenFiles = openFiles(cfg.MaxOpenFiles, opt.Cfg)
		cfg.SelfNamespace, cfg.SelfPod = ownPod(opt.Getenv)
		cfg.SelfFolder = ownFolder(opt.Getenv)
		cfg.Clock = opt.now
		if cfg.LookBack == 0 {
			cfg.LookBack = lookBack(set)
		}
		out = append(out, kubelet.New(cfg))
	}
	for i, cfg := range opt.Cfg.Sources.Kubernetes.Configs() {
		cfg.Name, cfg.Clock = config.Numbered(cfg.Name, "kubernetes", i), opt.now
		cfg.SelfNamespace, cfg.SelfPod = ownPod(opt.Getenv)
		if cfg.LookBack == 0 {
			cfg.LookBack = lookBack(set)
		}
		out = append(out, kubernetes.New(cfg))
	}
	for i, cfg := range opt.Cfg.Sources.Machines.Configs() {
		cfg.Name, cfg.Clock = config.Numbered(cfg.Name, "machines", i), opt.now
		out = append(out, machines.New(cfg))
	}
	for i, cfg := range opt.Cfg.Sources.Files.Configs() {
		cfg.Name, cfg.Clock = config.Numbered(cfg.Name, "files", i), opt.now
		if cfg.LookBack == 0 {
			cfg.LookBack = lookBack(set)
		}
		cfg.MaxOpenFiles = openFiles(cfg.MaxOpenFiles, opt.Cfg)
		out = append(out, files.New(cfg))
	}
	if p := opt.Cfg.Sources.Stdin; p != nil {
		cfg := p.Config
		cfg.Reader, cfg.Clock = opt.Stdin, opt.now
		out = append(out, stdin.New(cfg))
	}
	for i, cfg := range opt.Cfg.Sources.Loki.Configs() {
		cfg = config.LokiNamed(cfg, i)
		cfg.SelfNamespace, cfg.SelfPod = ownPod(opt.Getenv)
		cfg.Clock = opt.now
		if cfg.LookBack == 0 {
			cfg.LookBack = lookBack(set)
		}
		for _, s := range lokisource.New(cfg) {
			out = append(out, s)
		}
	}
	if p := opt.Cfg.Sources.Agents; p != nil {
		cfg := p.Config
		cfg.Clock = opt.now
		out = append(out, agents.New(cfg))
	}
	return out, nil
}

// ownPod is the pod that this process runs in, whose log is never read.
func ownPod(getenv func(string) string) (namespace, pod string) {
	namespace, pod = getenv("POD_NAMESPACE"), getenv("POD_NAME")
	if pod == "" && getenv("KUBERNETES_SERVICE_HOST") != "" {
		pod, _ = os.Hostname() // the name of the pod, unless it shares the node's network
	}
	return namespace, pod
}

// ownFolder is how the name of the folder begins that the kubelet writes the log
// of this pod to, "" if the environment does not say which pod this is.
func ownFolder(getenv func(string) string) string {
	ns, pod := getenv("POD_NAMESPACE"), getenv("POD_NAME")
	if ns == "" || pod == "" {
		return ""
	}
	return ns + "_" + pod + "_" + getenv("POD_UID")
}

// newSinks makes the configured sinks. A kind of sink is one case here.
func newSinks(opt Options, latency func(time.Duration)) ([]sinks.Sink, error) {
	cfg := opt.Cfg
	// Those that ended are kept for a while beside those that are open.
	maxKeys := max(sinks.DefaultMaxKeys, 4*cfg.Limits.ActiveAlerts)
	var out []sinks.Sink
	for i, am := range cfg.Sinks.Alertmanager.Configs() {
		am.Name = config.Numbered(am.Name, "alertmanager", i)
		cfg.Global.Into(&am.ExternalLabels, &am.ExternalURL)
		s, err := alertmanager.New(am, alertmanager.Options{Log: opt.Log, Latency: latency, MaxKeys: maxKeys, Now: opt.now, Accepted: func() { opt.accepted(false) }})
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", am.Name, err)
		}
		out = append(out, s)
	}
	for i, l := range cfg.Sinks.Loki.Configs() {
		l.Name = config.Numbered(l.Name, "loki", i)
		cfg.Global.Into(&l.ExternalLabels, &l.ExternalURL)
		s, err := loki.New(l, loki.Options{Log: opt.Log, MaxKeys: maxKeys, Now: opt.now, Accepted: func() { opt.accepted(true) }})
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", l.Name, err)
		}
		out = append(out, s)
	}
	for i, w := range cfg.Sinks.Webhook.Configs() {
		w.Name = config.Numbered(w.Name, "webhook", i)
		cfg.Global.Into(&w.ExternalLabels, &w.ExternalURL)
		s, err := webhook.New(w, webhook.Options{Log: opt.Log, MaxKeys: maxKeys, Now: opt.now, Accepted: func() { opt.accepted(true) }})
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", w.Name, err)
		}
		out = append(out, s)
	}
	if p := cfg.Sinks.Stdout; p != nil {
		own := p.Config
		own.ExternalLabels = config.Merged(cfg.Global.ExternalLabels, own.ExternalLabels)
		own.Color, own.MaxKeys, own.Now = opt.Color, maxKeys, opt.now
		own.StateChanged = func(err error) {
			if err != nil {
				opt.Log.Warn().Str("component", "sink").Err(err).Msg("alerts cannot be written to standard output; the rest goes on")
				return
			}
			opt.Log.Info().Str("component", "sink").Msg("alerts can be written to standard output again")
		}
		s, err := stdout.New(own, opt.Stdout)
		if err != nil {
			return nil, fmt.Errorf("sink stdout: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

func compilePatterns(patterns []string) ([]*regexp.Regexp, error) {
	var out []*regexp.Regexp
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("redaction pattern: %w", err)
		}
		out = append(out, re)
	}
	return out, nil
}

// newLatency makes the histogram of the time from a line to its alert.
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
