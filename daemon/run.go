package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/daemon/state"
	"crowsnest/episodes"
	"crowsnest/sinks"
)

// Run runs the daemon until ctx ends, and then stops it within five seconds. It closes the listeners. It returns an
// error if the web server fails, or ErrLeadLost.
func (d *Daemon) Run(ctx context.Context) (err error) {
	failed := make(chan error, 1)
	base := context.WithoutCancel(ctx)
	serving := startGroup(base, func(ctx context.Context) {
		if err := d.server.Run(ctx, d.opt.Listener, d.opt.Probe); err != nil {
			failed <- err
		}
	})
	defer serving.stop(time.Second)

	if d.configMaps != nil {
		defer startGroup(base, d.configMaps.Run).stop(time.Second)
	}
	d.lockState(ctx)
	defer d.saver.unlock()
	if d.pair != nil {
		if err := d.joinPair(ctx, failed); err != nil || ctx.Err() != nil {
			return err
		}
	}
	if ctx.Err() != nil { // lines that are read after this point might not be saved
		d.log.Info().Msg("stopped before anything was read")
		return nil
	}
	d.awaitConfigMaps(ctx)
	d.reloading.Lock()
	d.saver.saveRules(d.loader.InForce())
	d.offerOwned() // a takeover need not load the rules again
	d.reloading.Unlock()
	d.restore()
	d.pipe.concluder.report(d.now(), d.reported.Load()) // before the first message to the aggregator, because that message announces the report
	flow := d.startAll(base)
	select {
	case <-ctx.Done():
	case err = <-failed:
		d.log.Error().Err(err).Msg("stopping: the web server broke")
	case <-d.pair.lost():
		d.abortAll(flow)
		return ErrLeadLost
	}
	d.stopAll(flow)
	d.pair.releaseLead()
	d.log.Info().Msg("stopped")
	return err
}

// joinPair returns nil when this process has become the leader of its pair, or when this process was stopped as the
// standby.
func (d *Daemon) joinPair(ctx context.Context, failed <-chan error) error {
	stopped := func() bool { return ctx.Err() != nil }
	for !stopped() && !d.saver.savesState() { // unlike an instance without a pair, it waits without limit
		d.lockState(ctx)
	}
	if stopped() {
		return nil
	}
	err := d.standBy(ctx, failed)
	if stopped() {
		d.log.Info().Msg("stopped while another process is the leader")
		return nil
	}
	return err
}

// lockState waits until no other instance uses the same state, such as the old pod in a rolling update. If the wait
// takes too long, this instance runs without saving its state.
func (d *Daemon) lockState(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if err := d.saver.lock(ctx); err != nil && !errors.Is(err, state.ErrLocked) {
		d.log.Error().Err(err).Msg("the state folder cannot be locked; crowsnest continues, and tries to save its state anyway")
	}
}

// restore restores the saved state. If there is none, it prepares to rebuild the state from older lines.
func (d *Daemon) restore() {
	if d.saver.restoreState() {
		d.pipe.concluder.resume(d.saver.save)
		d.restoredUntil = d.now().Add(maxRestore)
		d.log.Info().Int("episodes", len(d.engine.Episodes(d.now()))).Time("saved", d.saver.restoredSavedAt).Msg("continuing from the saved state")
	} else {
		d.engine.StartWarmUp(d.readingSince)
		d.warmUntil = d.now().Add(maxWarmUp)
		d.log.Info().Msg("no saved state: reading older lines, and notifying only of what is still open")
	}
	for _, src := range d.sources {
		if members := src.Info().Members; members != nil {
			for _, name := range members.Members() {
				d.pipe.AddMember(name)
			}
		}
	}
	d.restored.Store(true)
}

// flow holds the goroutines that move lines and episodes, in the order in which they are stopped.
type flow struct {
	sources, tick, sinks, rest *group
}

func (d *Daemon) startAll(ctx context.Context) flow {
	f := flow{sources: newGroup(ctx), tick: newGroup(ctx), sinks: newGroup(ctx), rest: newGroup(ctx)}
	for _, s := range d.receivers {
		f.sinks.start(func(ctx context.Context) {
			if err := s.Run(ctx); err != nil && ctx.Err() == nil {
				d.log.Error().Err(err).Str("sink", s.Name()).Msg("sink stopped")
			}
		})
	}
	f.tick.start(d.runTicks)
	f.rest.start(d.saver.run)
	if d.pair != nil {
		f.rest.start(d.pair.stage.Load().leader.Run)
	}
	f.rest.start(d.watchRules)
	f.rest.start(d.tuneLiterals)
	f.rest.start(d.watchSuppressions)
	for _, s := range d.sources {
		f.sources.start(func(ctx context.Context) {
			err := s.Run(ctx, d.pipe.inletFor(s))
			if ctx.Err() == nil {
				d.sourceEnded(s.Name(), err)
			}
		})
	}
	return f
}

// stopAll stops the goroutines in the order of flow. It saves the state after all reading has stopped, and again after
// the last attempt of the sinks.
func (d *Daemon) stopAll(f flow) {
	d.pipe.concluder.release()
	f.rest.stop(stopSources)
	if !f.sources.stop(stopSources) {
		d.log.Warn().Msg("a source did not stop in time")
	}
	f.tick.stop(stopSources)
	if d.pair.isLeading() {
		d.pipe.evaluate(d.sendConclusions)
	}
	if d.sentinel != nil {
		d.sentinel.Flush()
	}
	d.saveLast()
	if !f.sinks.stop(stopSinks) {
		d.log.Warn().Msg("a sink did not stop in time")
	}
	d.saveLast()
}

// saveLast saves the state a last time, with a time limit in case the disk hangs.
func (d *Daemon) saveLast() {
	ctx, cancel := context.WithTimeout(context.Background(), stopSave)
	defer cancel()
	if !startGroup(ctx, func(context.Context) { d.saver.saveUntil(ctx) }).stop(stopSave) {
		d.log.Warn().Msg("the state could not be saved in time; a restart continues from the state that was saved before")
	}
}

func (d *Daemon) sourceEnded(name string, err error) {
	d.mu.Lock()
	d.finished[name] = err
	d.mu.Unlock()
	if err != nil {
		d.log.Error().Err(err).Str("source", name).Msg("source stopped")
		return
	}
	d.log.Info().Str("source", name).Msg("source was read to its end")
}

func (d *Daemon) endedSources() (exhausted []string, broken map[string]error) {
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

// notifyReceivers passes episodes to the sinks. If there is a standby, or for unique sinks, the notifications wait
// until the conclusions are copied to the standby or saved on disk. The caller must hold the checkpoint lock.
func (d *Daemon) notifyReceivers(eps []episodes.Episode) {
	switch {
	case d.outbox != nil:
		d.outbox.add(eps, d.now())
	case d.unsavedOutbox != nil && d.saver.savesState():
		postTo(slices.DeleteFunc(slices.Clone(d.sinks), func(s sinks.Sink) bool { return slices.Contains(d.unique, s) }), eps)
		d.unsavedOutbox.add(eps, d.now())
		d.pipe.changed.Store(true) // so that the state is saved soon
	default:
		d.postToSinks(eps)
	}
}

func (d *Daemon) postToSinks(eps []episodes.Episode) { postTo(d.sinks, eps) }

func postTo(receivers []sinks.Sink, eps []episodes.Episode) {
	for _, s := range receivers {
		s.Notify(eps)
	}
}

func (d *Daemon) component(name string) zerolog.Logger {
	return d.log.With().Str("component", name).Logger()
}

// group runs functions in goroutines until it is stopped.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// start runs f in a goroutine. f must return soon after its context ends.
func (g *group) start(f func(context.Context)) { g.wg.Go(func() { f(g.ctx) }) }

func startGroup(ctx context.Context, f func(context.Context)) *group {
	g := newGroup(ctx)
	g.start(f)
	return g
}

// stop ends the context and waits for the functions, at most for timeout. It reports whether all functions have
// returned.
func (g *group) stop(timeout time.Duration) bool {
	g.cancel()
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
