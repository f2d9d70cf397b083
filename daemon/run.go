package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/state"
)

// Run runs the daemon until ctx ends, and then stops it within five seconds. It closes
// the listeners. It returns an error if the web server fails or if another process took
// the lead (ErrLeadLost), and otherwise nil.
func (d *Daemon) Run(ctx context.Context) (err error) {
	failed := make(chan error, 1)
	base := context.WithoutCancel(ctx)
	serving := start(base, func(ctx context.Context) {
		if err := d.server.Run(ctx, d.opt.Listener, d.opt.Probe); err != nil {
			failed <- err
		}
	})
	defer serving.stop(time.Second)

	d.lock(ctx)
	defer d.saver.release()
	if d.pair != nil {
		if err := d.joinPair(ctx, failed); err != nil || ctx.Err() != nil {
			return err
		}
	}
	if ctx.Err() != nil { // lines that are read now might not be saved
		d.log.Info().Msg("stopped before anything was read")
		return nil
	}
	d.reloading.Lock()
	d.saver.saveRules(d.loader.InForce())
	d.reloading.Unlock()
	d.restore()
	d.pipe.concluder.report(d.now(), d.reported.Load()) // before the first message, which announces the report
	flow := d.startAll(base)
	select {
	case <-ctx.Done():
	case err = <-failed:
		d.log.Error().Err(err).Msg("stopping: the web server broke")
	case <-d.pair.lost():
		d.abandon(flow)
		return ErrLeadLost
	}
	d.stopAll(flow)
	d.pair.release()
	d.log.Info().Msg("stopped")
	return err
}

// joinPair returns nil when this process leads its pair. A standby that is stopped is no
// error.
func (d *Daemon) joinPair(ctx context.Context, failed <-chan error) error {
	stopped := func() bool { return ctx.Err() != nil }
	for !stopped() && !d.saver.keeps() { // another instance may use the folder for longer
		d.lock(ctx)
	}
	if stopped() {
		return nil
	}
	err := d.standBy(ctx, failed)
	if stopped() {
		d.log.Info().Msg("stopped while another process leads")
		return nil
	}
	return err
}

// lock waits for another instance that uses the same state, such as the old pod of a
// rolling update. If that does not end, this instance continues without saving.
func (d *Daemon) lock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if err := d.saver.lock(ctx); err != nil && !errors.Is(err, state.ErrLocked) {
		d.log.Error().Err(err).Msg("the state cannot be locked; continuing, and trying to save it")
	}
}

// restore restores the saved state, or prepares to build it from older lines.
func (d *Daemon) restore() {
	if d.saver.restore() {
		d.pipe.concluder.resume(d.saver.save)
		d.restoredUntil = d.now().Add(maxRestore)
		d.log.Info().Int("episodes", len(d.engine.Episodes(d.now()))).Time("saved", d.saver.from).Msg("continuing from the saved state")
	} else {
		d.engine.StartWarmUp(d.began)
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

// flow holds the goroutines that move lines and episodes, in the order in which they
// stop.
type flow struct {
	sources, tick, sinks, rest *group
}

func (d *Daemon) startAll(ctx context.Context) flow {
	f := flow{sources: newGroup(ctx), tick: newGroup(ctx), sinks: newGroup(ctx), rest: newGroup(ctx)}
	for _, s := range d.receivers {
		f.sinks.run(func(ctx context.Context) {
			if err := s.Run(ctx); err != nil && ctx.Err() == nil {
				d.log.Error().Err(err).Str("sink", s.Name()).Msg("sink stopped")
			}
		})
	}
	f.tick.run(d.ticks)
	f.rest.run(d.saver.run)
	if d.pair != nil {
		f.rest.run(d.pair.stage.Load().leader.Run)
	}
	f.rest.run(d.watchRules)
	f.rest.run(d.tune)
	for _, s := range d.sources {
		f.sources.run(func(ctx context.Context) {
			err := s.Run(ctx, d.pipe.of(s))
			if ctx.Err() == nil {
				d.sourceEnded(s.Name(), err)
			}
		})
	}
	return f
}

// stopAll stops in the order of flow. It saves the state twice: when all reading has
// stopped, and again after the last try of the sinks.
func (d *Daemon) stopAll(f flow) {
	d.pipe.concluder.release()
	f.rest.stop(stopSources)
	if !f.sources.stop(stopSources) {
		d.log.Warn().Msg("a source did not stop in time")
	}
	f.tick.stop(stopSources)
	if d.pair.leads() {
		d.pipe.evaluate(d.send)
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

// saveLast saves the state, and does not wait for a disk that hangs.
func (d *Daemon) saveLast() {
	ctx, cancel := context.WithTimeout(context.Background(), stopSave)
	defer cancel()
	if !start(ctx, func(context.Context) { d.saver.saveUntil(ctx) }).stop(stopSave) {
		d.log.Warn().Msg("the state could not be saved in time; a restart continues from the previous one")
	}
}

// sourceEnded records that a source is exhausted or failed.
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

// ended returns the sources that are exhausted and those that failed.
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

// notify notifies the receivers: with a standby as soon as that has the conclusions, and
// unique sinks as soon as the conclusions are on disk. The caller holds the checkpoint lock.
func (d *Daemon) notify(eps []episodes.Episode) {
	switch {
	case d.outbox != nil:
		d.outbox.add(eps, d.now())
	case d.unsaved != nil && d.saver.keeps():
		postTo(slices.DeleteFunc(slices.Clone(d.sinks), func(s sinks.Sink) bool { return slices.Contains(d.unique, s) }), eps)
		d.unsaved.add(eps, d.now())
		d.pipe.changed.Store(true) // a save follows
	default:
		d.post(eps)
	}
}

// post hands episodes to all sinks.
func (d *Daemon) post(eps []episodes.Episode) { postTo(d.sinks, eps) }

func postTo(to []sinks.Sink, eps []episodes.Episode) {
	for _, s := range to {
		s.Notify(eps)
	}
}

func (d *Daemon) component(name string) zerolog.Logger {
	return d.log.With().Str("component", name).Logger()
}
