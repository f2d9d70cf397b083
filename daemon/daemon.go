package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/state"
	"crowsnest/web"
)

// Daemon is one run of crowsnest. Every box is started by run and waited for by run;
// lines and episodes travel by calls.
//
//	sources (kubelet, files, stdin)         one goroutine group each
//	     │ Scan(stream, block, commit)
//	     ▼
//	pipeline ─ matcher.Program ─▶ episodes.Engine      under the read lock of the cut
//	                                   │ Evaluate, 5 times a second (tick)
//	                                   ▼
//	                    sinks (alertmanager, stdout)   one goroutine per endpoint
//
//	saver    copies engine + positions + sinks under the write lock of the cut,
//	         every 700 ms, and writes the file outside of it
//	watcher  hashes the rule files; loader builds, tests and swaps them
//	web      reads copies
//
// An agent hands its hits to sinks/upstream in the place of the engine, and an
// aggregator gets them from sources/agents: see stages.go.
//
// It stops in the order of flow: sources, a last evaluation, sinks, state, web.
type Daemon struct {
	opt    Options
	log    zerolog.Logger
	now    func() time.Time
	start  time.Time
	engine *episodes.Engine
	pipe   *pipeline
	self   *selfAlerts
	guard  *costGuard // used by the tick only
	saver  *saver
	loader *loader.Loader

	sources []sources.Source
	sinks   []sinks.Sink

	reloading     sync.Mutex // one reload at a time
	cfg           atomic.Pointer[config.Config]
	outcome       atomic.Pointer[reloadOutcome]
	looked        atomic.Pointer[ruleset] // that older lines were looked at for: the rules that an agent reports
	tried         atomic.Pointer[string]  // hash of the rule files that were loaded last, good or not
	restored      atomic.Bool             // the state is read back: sources may start
	warmUntil     time.Time               // zero: not warming up; used by the tick only
	restoredUntil time.Time               // zero: what was restored has been sent; used by the tick only
	skewed        skews                   // used by the tick only
	misplaced     misplaced               // used by the tick only
	dropped       drops                   // used by the tick only

	mu       sync.Mutex
	finished map[string]error // sources whose Run has returned
}

// Options are what a daemon is made of.
type Options struct {
	Cfg      *config.Config
	Log      zerolog.Logger
	Web      WebOptions
	Listener net.Listener // closed by run
	Probe    net.Listener // nil: none
	Stdin    io.Reader
	Stdout   io.Writer
	Color    bool // stdout shows colors
	Flags    map[string]string
	Getenv   func(string) string
	// ConfigFile is read again by a reload; "" : there is no file.
	ConfigFile string
	// StorageFlag wins over the file at a reload, too.
	StorageFlag string
	// now is the clock of every part; nil: time.Now.
	now func() time.Time
	// accepted is called when a receiver accepted news, which is then to be saved;
	// unique: the receiver would take a repeat for news.
	accepted func(unique bool)
	// Extra are sinks beside those of the configuration.
	Extra []sinks.Sink
}

// reloadOutcome is the last load of rules.
type reloadOutcome struct {
	status web.Reload
	broken []web.BrokenPack
}

// The bounds of a stop, five seconds in all with every peer hung. The sinks
// bound their last try themselves.
const (
	stopSources = time.Second
	stopSave    = time.Second
	stopSinks   = 3200 * time.Millisecond
	lockWait    = 30 * time.Second
	warmUpMost  = time.Minute
	maxRestore  = 15 * time.Second // well below the time in which alerts end by themselves
	tickEvery   = 200 * time.Millisecond
	selfEvery   = time.Second
	tuneEvery   = time.Second
	updateEvery = time.Second
)

// New loads the rules and makes all parts. It starts nothing. On an error
// the listeners are closed.
func New(opt Options) (*Daemon, error) {
	d, err := makeDaemon(opt)
	if err != nil {
		return nil, errors.Join(err, closeAll(opt.Listener, opt.Probe))
	}
	return d, nil
}

func makeDaemon(opt Options) (*Daemon, error) {
	d := &Daemon{
		opt: opt, log: opt.Log, now: opt.now, loader: loader.New(),
		finished: map[string]error{},
		skewed:   skews{},
		dropped:  drops{},
	}
	if d.now == nil {
		d.now = time.Now
	}
	d.opt.now = d.now
	d.start = d.now().UTC()
	d.cfg.Store(opt.Cfg)
	d.self = newSelfAlerts(d.start, opt.Cfg.Global.BlindAfter)
	d.guard = newCostGuard(opt.Cfg.Limits.RuleCPU)
	d.checkReach()
	red, err := newRedactor(opt.Cfg.Redaction)
	if err != nil {
		return nil, err
	}
	engineCfg := episodes.Config{
		MaxActive: opt.Cfg.Limits.ActiveAlerts, MaxPerNamespace: opt.Cfg.Limits.AlertsPerNamespace, MaxKeys: opt.Cfg.Limits.Keys, Fingerprints: opt.Cfg.Limits.Fingerprints,
		Redactor: red, UpdateEvery: updateEvery, Identity: opt.Cfg.Global.Identity,
	}
	d.engine = episodes.New(engineCfg)
	d.pipe = newPipeline(d.engine, d.now)
	d.pipe.onSet = func(by time.Duration, now time.Time) {
		d.log.Warn().Stringer("by", by).Time("now", now).Msg("the clock was set: what is open and what is waited for moves with it")
	}
	d.saver = &saver{dir: opt.Cfg.Storage.Path, pipe: d.pipe, self: d.self, log: d.component("state"), urgent: make(chan struct{}, 1)}
	d.opt.accepted = d.saver.accepted
	if err := d.makeAgent(); err != nil {
		return nil, err
	}

	d.tried.Store(ptr(loader.Fingerprint(opt.Cfg)))
	first, wrong, err := d.loader.OrKept(opt.Cfg, keptRules(opt.Cfg.Storage.Path))
	if err != nil {
		return nil, err
	}
	rs, err := newRuleset(inScope(first.Set, opt.Cfg.Rules.Scope))
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	if d.sources, err = newSources(d.opt, first.Set); err != nil {
		return nil, err
	}
	for _, src := range d.sources {
		d.pipe.add(src)
	}
	d.pipe.swap(rs)
	d.looked.Store(rs)
	outcome := &reloadOutcome{status: web.Reload{OK: wrong == nil, At: d.start, Success: d.start}, broken: first.Broken}
	if wrong != nil {
		outcome.status.Error = wrong.Error()
		d.log.Error().Err(wrong).Msg("rules are broken: starting with the versions that were last in force")
	}
	d.outcome.Store(outcome)
	d.logWarnings(first.Set)
	return d, nil
}

// newRedactor makes the redactor of a configuration, nil if it is off.
func newRedactor(cfg config.Redaction) (*redact.Redactor, error) {
	if cfg.Disabled {
		return nil, nil
	}
	patterns, err := compilePatterns(cfg.Patterns)
	if err != nil {
		return nil, err
	}
	return redact.New(patterns), nil
}

// Run runs the daemon until ctx ends, and then stops it within five seconds. It
// closes the listeners. An error means that a part broke that nothing works
// without.
func (d *Daemon) Run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	latency, err := newLatency(registry)
	if err != nil {
		return errors.Join(err, closeAll(d.opt.Listener, d.opt.Probe))
	}
	if d.sinks, err = newSinks(d.opt, latency); err != nil {
		return errors.Join(err, closeAll(d.opt.Listener, d.opt.Probe))
	}
	d.sinks = append(d.sinks, d.opt.Extra...)
	if d.pipe.up != nil {
		d.sinks = append(d.sinks, d.pipe.up)
	}
	if err := d.registerStages(registry); err != nil {
		return errors.Join(err, closeAll(d.opt.Listener, d.opt.Probe))
	}
	d.saver.sources, d.saver.sinks = d.sources, d.sinks
	server, err := web.New(d.view(), d.webOptions(registry))
	if err != nil {
		return errors.Join(err, closeAll(d.opt.Listener, d.opt.Probe))
	}
	failed := make(chan error, 1)
	base := context.WithoutCancel(ctx)
	serving := start(base, func(ctx context.Context) {
		if err := server.Run(ctx, d.opt.Listener, d.opt.Probe); err != nil {
			failed <- err
		}
	})
	defer serving.stop(time.Second)

	d.lock(ctx)
	defer d.saver.release()
	if ctx.Err() != nil { // nothing may be read that would not be saved
		d.log.Info().Msg("stopped before anything was read")
		return nil
	}
	d.reloading.Lock()
	d.saver.keepRules(d.loader.InForce())
	d.reloading.Unlock()
	d.restore()
	d.report() // before the first message: it says that there are reports
	flow := d.startAll(base)
	select {
	case <-ctx.Done():
	case err = <-failed:
		d.log.Error().Err(err).Msg("stopping: the web server broke")
	}
	d.stopAll(flow)
	d.log.Info().Msg("stopped")
	return err
}

// lock waits for another instance that uses the same state, such as the old pod
// of a rolling update. Where it does not end, this one goes on without state.
func (d *Daemon) lock(ctx context.Context) {
	if !d.saver.keeps() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	held, err := state.Lock(ctx, d.saver.dir)
	switch {
	case err == nil:
		d.saver.held = held
	case errors.Is(err, state.ErrLocked):
		d.saver.lockedOut(err)
	default:
		d.log.Error().Err(err).Msg("the state cannot be locked; going on, and trying to save it")
	}
}

// restore reads the state back, or prepares to build it from older lines.
func (d *Daemon) restore() {
	if d.saver.restore() {
		if d.pipe.up != nil {
			d.saver.save() // that this process follows the last one
		}
		d.restoredUntil = d.now().Add(maxRestore)
		d.log.Info().Int("episodes", len(d.engine.Episodes(d.now()))).Time("saved", d.saver.from).Msg("going on from the saved state")
	} else {
		d.engine.StartWarmUp(d.start)
		d.warmUntil = d.now().Add(warmUpMost)
		d.log.Info().Msg("no saved state: reading back, and telling only what is still open")
	}
	for _, src := range d.sources {
		if parted, ok := src.(sources.MultiSource); ok {
			for _, part := range parted.Members() {
				d.pipe.AddMember(part)
			}
		}
	}
	d.restored.Store(true)
}

// flow is what moves lines and episodes.
type flow struct {
	sources, tick, sinks, rest *group
}

func (d *Daemon) startAll(ctx context.Context) flow {
	f := flow{sources: newGroup(ctx), tick: newGroup(ctx), sinks: newGroup(ctx), rest: newGroup(ctx)}
	for _, s := range d.sinks {
		f.sinks.run(func(ctx context.Context) {
			if err := s.Run(ctx); err != nil && ctx.Err() == nil {
				d.log.Error().Err(err).Str("sink", s.Name()).Msg("sink stopped")
			}
		})
	}
	f.tick.run(d.ticks)
	f.rest.run(d.saver.run)
	f.rest.run(d.watchRules)
	f.rest.run(d.tune)
	for _, s := range d.sources {
		f.sources.run(func(ctx context.Context) {
			err := s.Run(ctx, d.pipe)
			if ctx.Err() == nil {
				d.sourceEnded(s.Name(), err)
			}
		})
	}
	return f
}

// stopAll stops in the order of flow. The state is saved twice: as soon as
// nothing is read any more, and again when the sinks have had their last try.
func (d *Daemon) stopAll(f flow) {
	if d.pipe.up != nil {
		d.pipe.up.Release()
	}
	f.rest.stop(stopSources)
	if !f.sources.stop(stopSources) {
		d.log.Warn().Msg("a source did not stop in time")
	}
	f.tick.stop(stopSources)
	d.pipe.evaluate(d.send)
	d.saveLast()
	if !f.sinks.stop(stopSinks) {
		d.log.Warn().Msg("a sink did not stop in time")
	}
	d.saveLast()
}

// saveLast saves the state at the end, and does not wait for a disk that hangs.
func (d *Daemon) saveLast() {
	if !start(context.Background(), func(context.Context) { d.saver.save() }).stop(stopSave) {
		d.log.Warn().Msg("the state could not be saved in time; a restart goes on from the one before")
	}
}

// sourceEnded notes that a source is exhausted, or broke.
func (d *Daemon) sourceEnded(name string, err error) {
	d.mu.Lock()
	d.finished[name] = err
	d.mu.Unlock()
	if err != nil {
		d.log.Error().Err(err).Str("source", name).Msg("source stopped")
		return
	}
	d.log.Info().Str("source", name).Msg("source is read to its end")
}

// ended returns the sources that are exhausted and those that broke.
func (d *Daemon) ended() (exhausted []string, broken map[string]error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	broken = map[string]error{}
	for name, err := range d.finished {
		if err != nil {
			broken[name] = err
		} else {
			exhausted = append(exhausted, name)
		}
	}
	return exhausted, broken
}

// notify notifies every sink.
func (d *Daemon) notify(eps []episodes.Episode) {
	for _, s := range d.sinks {
		s.Notify(eps)
	}
}

func (d *Daemon) component(name string) zerolog.Logger {
	return d.log.With().Str("component", name).Logger()
}
