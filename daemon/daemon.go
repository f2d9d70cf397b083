package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"crowsnest/daemon/component"
	"crowsnest/daemon/config"
	"crowsnest/daemon/configmaps"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/daemon/monitor"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/unknown/sentinel"
	"crowsnest/web"
)

// Daemon is one run of crowsnest. Run starts every box of this picture and waits for it. Lines
// and episodes pass from box to box by calls.
//
//	sources (kubelet, files, stdin)         one goroutine group each
//	     │ Scan(stream, block, commit)
//	     ▼
//	pipeline ─ matcher.Program ─▶ concluder: episodes.Engine   checkpoint lock, for reading
//	                                   │ Evaluate, 5 times a second (tick)
//	                                   ▼
//	                    sinks (alertmanager, stdout)           one goroutine per endpoint
//
//	saver    copies engine, positions and sinks under the checkpoint lock, for
//	         writing, every 700 ms, and writes the file without it
//	watcher  hashes the rule files; loader builds, tests and swaps them
//	web      reads copies
//
// In an agent, the concluder sends the hits to an aggregator, where agent/server receives them;
// see agent.go.
//
// At its end the daemon stops the sources, evaluates a last time, and stops sinks, state and
// web, in this order; see flow.
type Daemon struct {
	opt   Options
	log   zerolog.Logger
	now   func() time.Time
	start time.Time
	// readingSince is when this process began to read, at its start or when it became the leader.
	readingSince time.Time
	pair         *pair // high availability; nil if there is no standby
	// outbox holds notifications until the standby has received the state from which they follow. Nil means that there
	// is no standby.
	outbox *outbox
	// unsavedOutbox holds notifications for sinks of unique kinds (see component.Kind) until the state is on disk. Nil
	// means that there is no such sink.
	unsavedOutbox *outbox
	unique        []sinks.Sink
	engine        *episodes.Engine
	pipe          *pipeline
	self          *monitor.Alerts
	running       running
	suppressions  *suppressions
	guard         *inforce.Guard // finds costly rules; used only by runTicks
	saver         *saver
	loader        *loader.Loader
	configMaps    *configmaps.Watcher // nil if no rules come from ConfigMaps
	owned         ownedFiles
	// sentinel finds failures that no rule describes; nil if it is off.
	sentinel  *sentinel.Sentinel
	unknownAt time.Time // time of the sentinel's last conclusions; used only by runTicks
	// endedHistory is the history of ended episodes. It is nil if an aggregator keeps the history.
	endedHistory *endedHistory

	sources   []sources.Source
	kinds     []component.Kind // kinds of the configured sources
	sinks     []sinks.Sink
	receivers []sinks.Receiver // the sinks; in an agent, the connection to the aggregator
	server    *web.Server

	reloading     sync.Mutex // allows only one reload at a time
	cfg           atomic.Pointer[config.Config]
	outcome       atomic.Pointer[reloadOutcome]
	reported      atomic.Pointer[inforce.Rules] // rules that this agent has reported to the aggregator, after it has read older lines for new rules
	lastTriedHash atomic.Pointer[string]        // hash of the rule files in the last load, successful or not
	restored      atomic.Bool                   // whether the saved state is restored, so that sources may start
	warmUntil     time.Time                     // latest end of the warm-up; zero if there is no warm-up; used only by runTicks
	restoredUntil time.Time                     // latest time to send the restored episodes; zero after they were sent; used only by runTicks

	mu       sync.Mutex
	finished map[string]error // for each source whose Run has returned, the error of Run
}

// Options are the dependencies of a Daemon.
type Options struct {
	Cfg      *config.Config
	Log      zerolog.Logger
	Web      WebOptions
	Listener net.Listener // listener of the pages and the API; Run closes it
	Probe    net.Listener // separate listener of the probes; nil if there is none
	Stdin    io.Reader
	Stdout   io.Writer
	Color    bool // whether stdout shows colors
	Flags    map[string]string
	Getenv   func(string) string
	// ConfigFile is the path of the configuration file, which a reload reads again. It is empty if there is no file.
	ConfigFile string
	// StorageFlag overrides the storage path of the configuration file, also after a reload.
	StorageFlag string
	// Started is called once, one second after the start. It may be nil, and must not block for long.
	Started func()
	// Scan scans a log for the pages and redacts secrets in the result. Nil means that the pages cannot scan logs.
	Scan func(log string, labels matcher.Labels, set *rules.Set, hide *redact.Redactor, now time.Time) (web.Scanned, error)
	// MCP returns a handler that serves the Model Context Protocol with these tools. It may be nil.
	MCP func(web.Tools) http.Handler

	// leads reports whether this process may notify receivers now. Nil means that it always may.
	leads func() bool
	// elsewhere reports to sources whether this process is the leader. If not, it also returns who leads.
	elsewhere func() (leads bool, who string)

	now func() time.Time // clock of all parts; nil means time.Now
	// onAccepted is called when a receiver has accepted a notification, so that the state is saved soon. unique is set
	// for sinks of unique kinds (see component.Kind).
	onAccepted func(unique bool)
}

type reloadOutcome struct {
	status web.Reload
	broken []web.BrokenPack
}

const (
	// Time limits for the steps of a stop, which sum up to 5.2 seconds if every peer hangs. The sinks limit their last
	// attempt themselves.
	stopSources = time.Second
	stopSave    = time.Second
	stopSinks   = 3200 * time.Millisecond

	lockWait    = 30 * time.Second
	maxWarmUp   = time.Minute
	maxRestore  = 15 * time.Second // well below the time after which receivers resolve alerts that are not repeated
	tickEvery   = 200 * time.Millisecond
	selfEvery   = time.Second
	tuneEvery   = time.Second
	updateEvery = time.Second
)

// New loads the rules and constructs all parts, but starts nothing. New closes the listeners if it returns an error.
func New(opt Options) (*Daemon, error) {
	d, err := makeDaemon(opt)
	if err != nil {
		return nil, errors.Join(err, closeAll(opt.Listener, opt.Probe))
	}
	return d, nil
}

// newDaemon returns a daemon with its clock and, if it is one of a pair, its connection to the other process.
func newDaemon(opt Options) *Daemon {
	d := &Daemon{opt: opt, log: opt.Log, now: opt.now, loader: loader.New(), finished: map[string]error{}}
	if d.now == nil {
		d.now = time.Now
	}
	d.opt.now = d.now
	d.start = d.now().UTC()
	d.readingSince = d.start
	if d.pair = newPair(opt.Cfg.HighAvailability, d.component("pair")); d.pair != nil {
		d.opt.leads, d.opt.elsewhere = d.pair.isLeading, d.pair.currentLeader
	}
	d.cfg.Store(opt.Cfg)
	d.suppressions = newSuppressions()
	return d
}

func makeDaemon(opt Options) (*Daemon, error) {
	d := newDaemon(opt)
	d.self = monitor.New(d.start, opt.Cfg.Global.BlindAfter)
	d.guard = inforce.NewGuard(opt.Cfg.Limits.RuleCPU)
	d.checkReach()
	red, err := newRedactor(opt.Cfg.Redaction)
	if err != nil {
		return nil, err
	}
	d.engine = episodes.New(engineConfig(opt.Cfg, red))
	d.sentinel = d.newSentinel(opt.Cfg, red)
	to, receivers, err := newConcluder(d.opt, local{d.engine}, d.self, d.sentinel)
	if err != nil {
		return nil, err
	}
	d.receivers = receivers
	d.pipe = newPipeline(d.engine, to, d.now)
	d.pipe.attachSentinel(d.sentinel)
	d.pipe.onSet = func(delta time.Duration, now time.Time) {
		d.log.Warn().Stringer("by", delta).Time("now", now).Msg("the clock was changed: open alerts and deadlines are shifted by the difference")
	}
	d.saver = &saver{dir: opt.Cfg.Storage.Path, pipe: d.pipe, self: d.self, unknown: d.sentinel, log: d.component("state"), urgent: make(chan struct{}, 1)}
	d.opt.onAccepted = d.saver.accept
	d.endedHistory = d.newPast(to)
	d.saver.endedHistory = d.endedHistory
	d.lastTriedHash.Store(new(loader.Fingerprint(opt.Cfg)))
	d.configMaps = d.newConfigMaps(opt.Cfg.Rules.ConfigMaps)
	first, wrong, err := d.loader.OrKept(opt.Cfg, d.keptFiles(loader.LastGood(opt.Cfg.Storage.Path)))
	if err != nil {
		return nil, err
	}
	rs, err := inforce.New(inforce.InScope(first.Set, opt.Cfg.Rules.Scope))
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	d.sources, d.kinds = newSources(d.opt, first.Set)
	for _, src := range d.sources {
		d.pipe.addSource(src)
	}
	d.takeComplaints()
	d.pipe.swapRules(rs)
	d.reported.Store(rs)
	outcome := &reloadOutcome{status: web.Reload{OK: wrong == nil, Time: d.start, Success: d.start}, broken: first.Broken}
	if wrong != nil {
		outcome.status.Error = wrong.Error()
		d.log.Error().Err(wrong).Msg("some rules are invalid: starting with their last valid versions")
	}
	d.outcome.Store(outcome)
	d.reportOwned(first.Broken)
	d.logWarnings(first.Set)
	return d, d.connectOutputs()
}

func engineConfig(cfg *config.Config, red *redact.Redactor) episodes.Config {
	return episodes.Config{
		MaxActive: cfg.Limits.ActiveAlerts, MaxPerNamespace: cfg.Limits.AlertsPerNamespace, MaxKeys: cfg.Limits.Keys, Fingerprints: cfg.Limits.Fingerprints,
		Redactor: red, UpdateEvery: updateEvery, Identity: cfg.Global.Identity,
	}
}

// connectOutputs makes the sinks and the web server, and registers all metrics.
func (d *Daemon) connectOutputs() error {
	registry := prometheus.NewRegistry()
	latency, err := newLatency(registry)
	if err != nil {
		return err
	}
	if d.sinks, err = newSinks(d.opt, latency); err != nil {
		return err
	}
	for _, s := range d.sinks {
		if slices.ContainsFunc(d.opt.Cfg.Sinks.All, func(p component.Part) bool { return p.Kind.Unique && p.Name == s.Name() }) {
			d.unique = append(d.unique, s)
		}
	}
	if len(d.unique) > 0 {
		d.unsavedOutbox = &outbox{saveSoon: func() { d.saver.accept(true) }, send: func(eps []episodes.Episode) { postTo(d.unique, eps) }}
		d.saver.unsavedOutbox = d.unsavedOutbox
	}
	for i, s := range d.sinks {
		d.receivers = slices.Insert(d.receivers, i, sinks.Receiver(s))
	}
	d.saver.sources, d.saver.receivers = d.sources, d.receivers
	if err := d.registerMetrics(registry); err != nil {
		return err
	}
	d.server = web.New(d.view(), d.webOptions(registry))
	return nil
}

// newRedactor returns the configured redactor, or nil if redaction is off.
func newRedactor(cfg config.Redaction) (*redact.Redactor, error) {
	if cfg.Disabled {
		return nil, nil
	}
	var patterns []*regexp.Regexp
	for _, p := range cfg.Patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("redaction pattern: %w", err)
		}
		patterns = append(patterns, re)
	}
	return redact.New(patterns), nil
}
