package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/agent/server"
	"crowsnest/internal/metric"
	"crowsnest/internal/times"
	"crowsnest/lead"
	"crowsnest/state"
	"crowsnest/web"
)

// With high_availability two processes are one aggregator. Run begins in this file:
//
//	lock ─▶ stand by: fetch the leader's checkpoints, refuse agents
//	              │ the lead is free
//	              ▼
//	        take over: the newest checkpoint becomes the saved state
//	              │
//	              ▼
//	        restore, start everything: as after a kill
//
// A process that loses the lead ends without sending or saving anything, and its
// supervisor starts it again: nothing of what it was remains.

// ErrLeadLost reports that another process leads.
var ErrLeadLost = errors.New("another process leads now: this one ends, and stands by when it is started again")

const (
	// maxReplica bounds an unpacked checkpoint, like the file of a snapshot.
	maxReplica = 64 << 20
	// releaseWithin bounds giving up the lead at a stop.
	releaseWithin = 2 * time.Second
	// stopCopying bounds the write of a checkpoint that is in progress when the lead is won.
	stopCopying = 10 * time.Second
	// pairLogged is how often a lasting problem of the pair is logged.
	pairLogged = time.Minute
)

// pair is the part of this process in a pair; nil if there is no other one.
type pair struct {
	cfg   lead.Settings
	log   zerolog.Logger
	stage atomic.Pointer[stage]
}

// stage is what a pair is made of once the state folder is locked.
type stage struct {
	elector *lead.Elector
	server  *lead.Server
	standby *lead.Standby
	leader  *lead.Leader // nil if this process stands by
	tasks   *group       // the elector and the server
	since   time.Time    // when this process took the lead
}

func newPair(cfg *lead.Settings, log zerolog.Logger) *pair {
	if cfg == nil {
		return nil
	}
	return &pair{cfg: cfg.WithDefaults(), log: log}
}

// leads reports whether this process may accept, conclude and notify now.
func (p *pair) leads() bool {
	if p == nil {
		return true
	}
	st := p.stage.Load()
	return st != nil && st.leader != nil && st.elector.Leads()
}

// who reports whether this process leads, and which one does.
func (p *pair) who() (leads bool, leader string) {
	if p == nil || p.leads() {
		return true, ""
	}
	st := p.stage.Load()
	if st == nil {
		return false, ""
	}
	if rec := st.elector.Status().Record; rec.Holder != "" && rec.URL != "" {
		leader = "the leader is the process of " + rec.URL
	}
	return false, leader
}

// standsBy reports whether this process does not lead yet.
func (p *pair) standsBy() bool {
	if p == nil {
		return false
	}
	st := p.stage.Load()
	return st == nil || st.leader == nil
}

// open joins the election.
func (d *Daemon) openPair(ctx context.Context) (*stage, error) {
	p := d.pair
	id, err := state.Identity(d.saver.dir)
	if err != nil {
		return nil, err
	}
	store, err := p.cfg.Store(d.opt.Getenv)
	if err != nil {
		return nil, err
	}
	client, err := p.cfg.Client()
	if err != nil {
		return nil, fmt.Errorf("high_availability.http_config: %w", err)
	}
	server, err := lead.Listen(p.cfg)
	if err != nil {
		return nil, err
	}
	self := lead.Candidate{ID: id, URL: server.URL(d.opt.Getenv), Version: snapshotVersion, State: state.Has(d.saver.dir)}
	st := &stage{server: server, elector: lead.NewElector(store, self, p.cfg.Times(), d.now), tasks: newGroup(context.WithoutCancel(ctx))}
	st.standby = lead.NewStandby(st.elector, &keeper{dir: d.saver.dir, max: int64(d.opt.Cfg.Storage.HistoryMiB) << 20}, snapshotVersion, client)
	st.tasks.run(st.elector.Run)
	st.tasks.run(func(ctx context.Context) {
		if err := server.Run(ctx); err != nil {
			p.log.Error().Err(err).Msg("the standby cannot fetch the state")
		}
	})
	p.log.Info().Str("record", store.Where()).Str("identity", id).Str("url", self.URL).Msg("standing by until the lead is free")
	p.stage.Store(st)
	return st, nil
}

// standBy returns nil when this process leads and has the newest state on its disk. It
// returns an error if that cannot be, and ctx's error if that ended.
func (d *Daemon) standBy(ctx context.Context, failed <-chan error) error {
	st, err := d.openPair(ctx)
	if err != nil {
		return fmt.Errorf("high_availability: %w", err)
	}
	copying := start(context.WithoutCancel(ctx), st.standby.Run)
	waiting := newGroup(context.WithoutCancel(ctx))
	waiting.run(d.watchRules)
	waiting.run(d.logPair)
	for _, s := range d.sources {
		if a, ok := s.(*server.Source); ok {
			waiting.run(a.StandBy)
		}
	}
	select {
	case <-st.elector.Won():
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		d.log.Error().Err(err).Msg("stopping: the web server broke")
	}
	waiting.stop(stopSources)
	if !copying.stop(stopCopying) && err == nil { // a late write would be older than the next one
		err = errors.New("high_availability: the last state of the leader could not be written in time: is the disk of storage.path hanging?")
	}
	if err != nil {
		st.tasks.stop(stopSources)
		return err
	}
	if err := d.takeOver(st); err != nil {
		st.tasks.stop(stopSources)
		return fmt.Errorf("high_availability: %w", err)
	}
	return nil
}

// clocksAgree is the difference of two clocks up to which they count as equal.
const clocksAgree = 2 * time.Second

// takeOver makes the newest checkpoint of the last leader the saved state.
func (d *Daemon) takeOver(st *stage) error {
	dir, log := d.saver.dir, d.pair.log
	packed, note, err := state.LoadReplica(dir)
	if note != "" {
		log.Warn().Msg("state of the last leader: " + note)
	}
	if err != nil {
		return err
	}
	if packed != nil {
		payload, err := lead.Unpack(packed, maxReplica)
		if err == nil {
			err = state.Save(dir, payload)
		}
		if err != nil {
			return fmt.Errorf("use the state of the last leader: %w", err)
		}
	}
	if err := state.DropReplica(dir); err != nil {
		return err
	}
	d.began = d.now().UTC()
	if got := st.standby.Synced(); packed != nil && !got.At.IsZero() {
		// The times of the state are those of another machine.
		if ahead := got.Ahead + times.Stepped(got.At, d.now()); ahead.Abs() >= clocksAgree {
			d.saver.ahead = ahead
			log.Warn().Stringer("by", ahead).Msg("the clock of the last leader differs from this one: open alerts and deadlines move with it")
		}
	}
	d.self.Begin(d.began)
	leader := lead.NewLeader(st.elector, snapshotVersion, d.pair.cfg.AloneAfter, d.wholeHistory, func() { d.pipe.changed.Store(true) })
	next := *st
	next.leader, next.since = leader, d.began
	d.saver.twice = leader
	d.outbox = &outbox{urgent: func() { d.saver.accepted(true) }, send: d.post}
	d.saver.outbox = d.outbox
	st.server.Lead(leader)
	d.pair.stage.Store(&next)
	log.Info().Bool("replica", packed != nil).Int("turns", st.elector.Status().Record.Turns).Msg("this process leads")
	return nil
}

// wholeHistory returns the records of all ended episodes.
func (d *Daemon) wholeHistory() [][]byte {
	if d.past == nil {
		return nil
	}
	return d.past.Live(d.now()).Records
}

// release gives up the lead after everything has stopped and was saved.
func (p *pair) release() {
	if p == nil {
		return
	}
	st := p.stage.Load()
	if st == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseWithin)
	defer cancel()
	if err := st.elector.Release(ctx); err != nil {
		p.log.Warn().Err(err).Msg("the lead could not be given up: the standby takes it when it runs out")
	} else if st.leader != nil {
		st.leader.Released()
	}
	st.tasks.stop(stopSources)
}

// lost is closed when another process took the lead; nil if there is none.
func (p *pair) lost() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.stage.Load().elector.Lost()
}

// abandon stops everything at once after the lead was lost. It sends and saves nothing.
func (d *Daemon) abandon(f flow) {
	d.pipe.concluder.release()
	for _, g := range []*group{f.tick, f.sinks, f.rest, f.sources} {
		g.cancel()
	}
	for _, g := range []*group{f.tick, f.sinks, f.rest, f.sources} {
		g.stop(stopSources)
	}
	d.pair.stage.Load().tasks.stop(stopSources)
}

// logPair logs problems of a standby until ctx ends.
func (d *Daemon) logPair(ctx context.Context) {
	p := d.pair
	said, at := "", time.Time{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		why, now := p.trouble(), time.Now()
		switch {
		case why == said && (why == "" || now.Sub(at) < pairLogged):
			continue
		case why == "":
			p.log.Info().Msg("the standby has the state of the leader")
		default:
			p.log.Warn().Msg("the standby is not ready to take over: " + why)
		}
		said, at = why, now
	}
}

// trouble returns why this standby could not take over without a loss; "" if it could, or
// if this process leads.
func (p *pair) trouble() string {
	if p == nil {
		return ""
	}
	st := p.stage.Load()
	if st == nil {
		return "the state folder is not locked yet (another instance may hold it)"
	}
	if st.leader != nil {
		return ""
	}
	e, got := st.elector.Status(), st.standby.Synced()
	switch {
	case !got.At.IsZero() && time.Since(got.At) < p.cfg.AloneAfter:
		return ""
	case e.Err != nil:
		return e.Err.Error()
	case errors.Is(got.Err, lead.ErrNewer):
		return got.Err.Error()
	case e.Record.Holder == "":
		return "nobody leads yet"
	case got.Err != nil:
		return got.Err.Error()
	}
	return "it has no state of the leader yet"
}

// keeper keeps what a leader sends in the state folder.
type keeper struct {
	dir string
	max int64      // bytes of the history
	log *state.Log // nil if not replaced yet
}

// Keep implements lead.Keeper.
func (k *keeper) Keep(packed []byte, records [][]byte, whole bool) error {
	var err error
	switch {
	case whole:
		log := state.NewLog(k.dir, historyFile)
		if err = log.Replace(records); err == nil {
			k.log = log
		}
	case len(records) == 0:
	case k.log == nil || k.log.Size() > k.max: // the leader sends all of it
		err = state.ErrLogChanged
	default:
		err = k.log.Append(records)
	}
	if err != nil {
		return fmt.Errorf("keep the history of the leader: %w", err)
	}
	return state.SaveReplica(k.dir, packed)
}

// lonely returns since when this leader has no standby; zero if it has one, or needs none.
func (p *pair) lonely() time.Time {
	if p == nil || p.standsBy() {
		return time.Time{}
	}
	return p.stage.Load().leader.Replication().Lonely
}

// view returns what the page Status shows of a pair.
func (p *pair) view() *web.Pair {
	if p == nil {
		return nil
	}
	st := p.stage.Load()
	if st == nil {
		return &web.Pair{Problem: p.trouble()}
	}
	e, s := st.elector.Status(), p.state()
	out := &web.Pair{Leads: s.leads, Record: e.Where, StandbyUp: s.up, Lag: s.lag.Seconds(), Problem: p.trouble()}
	if e.Record.Holder != "" {
		out.Since, out.Leader = e.Record.Since, e.Record.URL
	}
	return out
}

// leaderPages returns the address of the leader's pages while this process stands by: its
// host, with the port of this process. "" if they need TLS or credentials, which belong to
// the name that browsers use.
func (d *Daemon) leaderPages() string {
	if !d.pair.standsBy() || d.opt.Web.ConfigFile != "" {
		return ""
	}
	st := d.pair.stage.Load()
	if st == nil {
		return ""
	}
	rec := st.elector.Status().Record
	u, err := url.Parse(rec.URL)
	_, port, bad := net.SplitHostPort(d.opt.Listener.Addr().String())
	if err != nil || bad != nil || rec.Holder == "" || u.Hostname() == "" {
		return ""
	}
	return "http://" + net.JoinHostPort(u.Hostname(), port)
}

// pairState is what a process of a pair exposes.
type pairState struct {
	leads   bool
	since   time.Time
	up      bool          // the standby has everything
	lag     time.Duration // lag of the standby
	sent    int64
	fetched int64
	renewed bool // the record can be reached
}

func (p *pair) state() pairState {
	st := p.stage.Load()
	if st == nil {
		return pairState{}
	}
	out := pairState{leads: p.leads(), since: st.since, renewed: st.elector.Status().Err == nil, fetched: st.standby.Synced().Fetched}
	if st.leader != nil {
		r := st.leader.Replication()
		out.up, out.lag, out.sent = r.Up, r.Lag, r.Sent
		return out
	}
	if at := st.standby.Synced().At; !at.IsZero() {
		out.lag = max(0, time.Since(at))
	}
	out.up = p.trouble() == ""
	return out
}

// metrics returns the metrics of a pair.
func (p *pair) metrics() metric.Collector {
	return metric.New(p.state,
		metric.Gauge("leader", "Whether this process leads: it accepts, concludes and notifies.", func(s pairState) bool { return s.leads }),
		metric.Gauge("leader_since_timestamp_seconds", "When this process took the lead; 0: it does not lead.", func(s pairState) time.Time { return s.since }),
		metric.Gauge("leader_record_up", "Whether the Lease, or the shared folder, can be reached.", func(s pairState) bool { return s.renewed }),
		metric.Gauge("standby_up", "Of a leader: whether its standby has everything that was confirmed. Of a standby: whether it can take over without a loss.", func(s pairState) bool { return s.up }),
		metric.Gauge("standby_lag_seconds", "For how long the standby has lacked a checkpoint of the leader.", func(s pairState) time.Duration { return s.lag }),
		metric.Counter("checkpoints_sent_bytes_total", "Bytes of checkpoints that this leader sent to its standby.", func(s pairState) int64 { return s.sent }),
		metric.Counter("checkpoints_fetched_bytes_total", "Bytes of checkpoints that this standby fetched.", func(s pairState) int64 { return s.fetched }),
	)
}
