package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/agent/server"
	"crowsnest/daemon/lead"
	"crowsnest/daemon/state"
	"crowsnest/internal/metric"
	"crowsnest/internal/times"
	"crowsnest/rules"
	"crowsnest/web"
)

// With high_availability two processes together act as one aggregator. Run begins in this file:
//
//	lock ─▶ stand by: fetch the leader's checkpoints, refuse agents
//	              │ the lead is free
//	              ▼
//	        take over: the newest checkpoint becomes the saved state
//	              │
//	              ▼
//	        restore, start everything: as after a kill
//
// A process that loses the leadership exits without sending or saving anything, so that it cannot interfere with the
// new leader. Its supervisor starts it again.

// ErrLeadLost is returned when another process has become the leader.
var ErrLeadLost = errors.New("another process is the leader now, so this process stops; it becomes the standby when it is restarted")

const (
	// maxReplica is the maximum size of an unpacked checkpoint in bytes. It equals the maximum size of a snapshot file.
	maxReplica = 64 << 20
	// releaseWithin is the time limit for releasing the leadership at a stop.
	releaseWithin = 2 * time.Second
	// stopCopying is the time limit for a pending write of a checkpoint after this process has become the leader.
	stopCopying = 10 * time.Second
	pairLogged  = time.Minute
)

// pair connects this process with the second process of a pair. A nil pair means that there is no second process.
type pair struct {
	cfg   lead.Settings
	log   zerolog.Logger
	stage atomic.Pointer[stage]
}

// stage holds the parts of a pair that exist only after the state folder is locked.
type stage struct {
	elector *lead.Elector
	server  *lead.Server
	standby *lead.Standby
	leader  *lead.Leader // nil if this process is the standby
	tasks   *group       // the elector and the server
	since   time.Time    // time at which this process became the leader
}

func newPair(cfg *lead.Settings, log zerolog.Logger) *pair {
	if cfg == nil {
		return nil
	}
	return &pair{cfg: cfg.WithDefaults(), log: log}
}

// isLeading reports whether this process may accept hits, draw conclusions and notify receivers now.
func (p *pair) isLeading() bool {
	if p == nil {
		return true
	}
	st := p.stage.Load()
	return st != nil && st.leader != nil && st.elector.IsLeading()
}

// currentLeader reports whether this process is the leader. If another process is the leader, it returns a text about
// where the leader runs, or "" if that is unknown.
func (p *pair) currentLeader() (leads bool, leader string) {
	if p == nil || p.isLeading() {
		return true, ""
	}
	st := p.stage.Load()
	if st == nil {
		return false, ""
	}
	if rec := st.elector.Status().Record; rec.Holder != "" && rec.URL != "" {
		leader = "the leader runs on " + rec.URL
	}
	return false, leader
}

// standsBy reports whether this process has not become the leader yet.
func (p *pair) standsBy() bool {
	if p == nil {
		return false
	}
	st := p.stage.Load()
	return st == nil || st.leader == nil
}

func (d *Daemon) openPair(ctx context.Context) (*stage, error) {
	p := d.pair
	id, err := state.Identity(d.saver.dir)
	if err != nil {
		return nil, err
	}
	store, err := p.cfg.NewStore(d.opt.Getenv)
	if err != nil {
		return nil, err
	}
	client, err := p.cfg.NewClient()
	if err != nil {
		return nil, fmt.Errorf("high_availability.http_config: %w", err)
	}
	server, err := lead.Listen(p.cfg)
	if err != nil {
		return nil, err
	}
	self := lead.Candidate{ID: id, URL: server.URL(d.opt.Getenv), Version: snapshotVersion, State: state.Has(d.saver.dir)}
	st := &stage{server: server, elector: lead.NewElector(store, self, p.cfg.ElectionTimes(), d.now), tasks: newGroup(context.WithoutCancel(ctx))}
	st.standby = lead.NewStandby(st.elector, &stateKeeper{dir: d.saver.dir, max: int64(d.opt.Cfg.Storage.HistoryMiB) << 20}, snapshotVersion, client)
	st.tasks.start(st.elector.Run)
	st.tasks.start(func(ctx context.Context) {
		if err := server.Run(ctx); err != nil {
			p.log.Error().Err(err).Msg("the standby cannot fetch the state")
		}
	})
	p.log.Info().Str("record", store.Where()).Str("identity", id).Str("url", self.URL).Msg("standing by until there is no leader")
	p.stage.Store(st)
	return st, nil
}

// standBy blocks until this process is the leader and has the newest state on its disk, and then returns nil. It
// returns an error if that is impossible, or the error of ctx if ctx ends.
func (d *Daemon) standBy(ctx context.Context, failed <-chan error) error {
	st, err := d.openPair(ctx)
	if err != nil {
		return fmt.Errorf("high_availability: %w", err)
	}
	copying := startGroup(context.WithoutCancel(ctx), st.standby.Run)
	waiting := newGroup(context.WithoutCancel(ctx))
	waiting.start(d.watchRules)
	waiting.start(d.logPair)
	for _, s := range d.sources {
		if a, ok := s.(*server.Source); ok {
			waiting.start(a.StandBy)
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
	if !copying.stop(stopCopying) && err == nil { // if the write finished later, it would overwrite a newer state
		err = errors.New("high_availability: the leader's last state could not be written in time; check whether the disk of storage.path hangs")
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

// clocksAgree is the difference up to which two clocks count as equal.
const clocksAgree = 2 * time.Second

// takeOver saves the newest checkpoint of the previous leader as the state of this process.
func (d *Daemon) takeOver(st *stage) error {
	dir, log := d.saver.dir, d.pair.log
	packed, note, err := state.LoadReplica(dir)
	if note != "" {
		log.Warn().Msg("state of the previous leader: " + note)
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
			return fmt.Errorf("cannot use the state of the previous leader: %w", err)
		}
	}
	if err := state.DropReplica(dir); err != nil {
		return err
	}
	d.readingSince = d.now().UTC()
	if got := st.standby.SyncStatus(); packed != nil && !got.Time.IsZero() {
		// The times in the state come from the clock of another machine.
		if ahead := got.ClockLead + times.ClockStep(got.Time, d.now()); ahead.Abs() >= clocksAgree {
			d.saver.clockLead = ahead
			log.Warn().Stringer("by", ahead).Msg("the clock of the previous leader differs from this one: open alerts and deadlines are shifted by the difference")
		}
	}
	d.self.Begin(d.readingSince)
	leader := lead.NewLeader(st.elector, snapshotVersion, d.pair.cfg.AloneAfter, d.wholeHistory, func() { d.pipe.changed.Store(true) })
	next := *st
	next.leader, next.since = leader, d.readingSince
	d.saver.replica = leader
	d.outbox = &outbox{saveSoon: func() { d.saver.accept(true) }, send: d.postToSinks}
	d.saver.outbox = d.outbox
	st.server.Lead(leader)
	d.pair.stage.Store(&next)
	log.Info().Bool("replica", packed != nil).Int("turns", st.elector.Status().Record.Turns).Msg("this process is the leader now")
	return nil
}

// offerRules passes the active rule files of namespaces to the standby.
func (p *pair) offerRules(files []rules.File) {
	if p == nil {
		return
	}
	if st := p.stage.Load(); st != nil && st.leader != nil {
		text, _ := json.Marshal(files) // strings and bytes can always be encoded
		st.leader.OfferRules(text)
	}
}

// leaderRules returns the rule files of namespaces that the leader sent, and an identifier of them. The identifier is
// empty if there are none. After a takeover, the files are those of the previous leader.
func (p *pair) leaderRules() (id string, files []rules.File) {
	if p == nil || p.stage.Load() == nil {
		return "", nil
	}
	id, text := p.stage.Load().standby.Rules()
	if json.Unmarshal(text, &files) != nil {
		return "", nil
	}
	return id, slices.DeleteFunc(files, func(f rules.File) bool { return f.Namespace == "" })
}

func (d *Daemon) wholeHistory() [][]byte {
	if d.endedHistory == nil {
		return nil
	}
	return d.endedHistory.LiveRecords(d.now()).Records
}

// releaseLead releases the leadership. It must be called after everything has stopped and the state is saved.
func (p *pair) releaseLead() {
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
		p.log.Warn().Err(err).Msg("the leadership could not be released: the standby takes over when it expires")
	} else if st.leader != nil {
		st.leader.AnnounceRelease()
	}
	st.tasks.stop(stopSources)
}

// lost returns a channel that is closed when another process becomes the leader. The channel is nil if there is no
// second process.
func (p *pair) lost() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.stage.Load().elector.Lost()
}

// abortAll stops everything after the leadership was lost, without sending or saving anything.
func (d *Daemon) abortAll(f flow) {
	d.pipe.concluder.release()
	all := []*group{f.tick, f.sinks, f.rest, f.sources}
	for _, g := range all {
		g.cancel()
	}
	for _, g := range all {
		g.stop(stopSources)
	}
	d.pair.stage.Load().tasks.stop(stopSources)
}

// logPair logs problems of the standby until ctx ends.
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
		why, now := p.whyNotReady(), time.Now()
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

// whyNotReady returns why this standby could not take over without losing state. It returns "" for a leader.
func (p *pair) whyNotReady() string {
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
	e, got := st.elector.Status(), st.standby.SyncStatus()
	switch {
	case !got.Time.IsZero() && time.Since(got.Time) < p.cfg.AloneAfter:
		return ""
	case e.Err != nil:
		return e.Err.Error()
	case errors.Is(got.Err, lead.ErrNewer):
		return got.Err.Error()
	case e.Record.Holder == "":
		return "there is no leader yet"
	case got.Err != nil:
		return got.Err.Error()
	}
	return "it has not fetched the leader's state yet"
}

type stateKeeper struct {
	dir string
	max int64      // maximum size of the history in bytes
	log *state.Log // nil until the leader has sent the whole history
}

// Keep implements lead.Keeper.
func (k *stateKeeper) Keep(packed []byte, records [][]byte, whole bool) error {
	var err error
	switch {
	case whole:
		log := state.NewLog(k.dir, historyFile)
		if err = log.Replace(records); err == nil {
			k.log = log
		}
	case len(records) == 0:
	case k.log == nil || k.log.Size() > k.max: // the error makes the leader send the whole history
		err = state.ErrLogChanged
	default:
		err = k.log.Append(records)
	}
	if err != nil {
		return fmt.Errorf("store the history that the leader sent: %w", err)
	}
	return state.SaveReplica(k.dir, packed)
}

// aloneSince returns the start of the time in which this leader has had no standby. It returns zero if there is a
// standby.
func (p *pair) aloneSince() time.Time {
	if p == nil || p.standsBy() {
		return time.Time{}
	}
	return p.stage.Load().leader.Replication().NoStandbySince
}

func (p *pair) view() *web.Pair {
	if p == nil {
		return nil
	}
	st := p.stage.Load()
	if st == nil {
		return &web.Pair{Problem: p.whyNotReady()}
	}
	e, s := st.elector.Status(), p.state()
	out := &web.Pair{Leads: s.leads, Record: e.Where, StandbyUp: s.up, Lag: s.lag.Seconds(), Problem: p.whyNotReady()}
	if e.Record.Holder != "" {
		out.Since, out.Leader = e.Record.Since, e.Record.URL
	}
	return out
}

// leaderPages returns the address of the leader's pages if this process is the standby, and "" otherwise. It also
// returns "" if the pages use TLS or credentials, because these belong to the host name that browsers use.
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

type pairState struct {
	leads   bool
	since   time.Time
	up      bool          // whether the standby has the newest checkpoint
	lag     time.Duration // time by which the standby is behind the leader
	sent    int64
	fetched int64
	renewed bool // whether the record of the leader can be read and written
}

func (p *pair) state() pairState {
	st := p.stage.Load()
	if st == nil {
		return pairState{}
	}
	out := pairState{leads: p.isLeading(), since: st.since, renewed: st.elector.Status().Err == nil, fetched: st.standby.SyncStatus().Fetched}
	if st.leader != nil {
		r := st.leader.Replication()
		out.up, out.lag, out.sent = r.Up, r.Lag, r.Sent
		return out
	}
	if at := st.standby.SyncStatus().Time; !at.IsZero() {
		out.lag = max(0, time.Since(at))
	}
	out.up = p.whyNotReady() == ""
	return out
}

func (p *pair) metrics() metric.Collector {
	return metric.New(p.state,
		metric.Gauge("leader", "Whether this process is the leader, which accepts hits, decides which alerts are open, and sends notifications.", func(s pairState) bool { return s.leads }),
		metric.Gauge("leader_since_timestamp_seconds", "When this process became the leader; 0 if it is not the leader.", func(s pairState) time.Time { return s.since }),
		metric.Gauge("leader_record_up", "Whether the Lease, or the shared folder, can be reached.", func(s pairState) bool { return s.renewed }),
		metric.Gauge("standby_up", "On a leader, whether its standby has all confirmed state. On a standby, whether it can take over without losing state.", func(s pairState) bool { return s.up }),
		metric.Gauge("standby_lag_seconds", "How long the standby has lacked the leader's newest checkpoint.", func(s pairState) time.Duration { return s.lag }),
		metric.Counter("checkpoints_sent_bytes_total", "Bytes of checkpoints that this leader sent to its standby.", func(s pairState) int64 { return s.sent }),
		metric.Counter("checkpoints_fetched_bytes_total", "Bytes of checkpoints that this standby fetched.", func(s pairState) int64 { return s.fetched }),
	)
}
