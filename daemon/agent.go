package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/agent/client"
	"crowsnest/agent/wire"
	"crowsnest/daemon/component"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/monitor"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sentinel"
	"crowsnest/sinks"
)

// Agent mode splits the daemon into two processes. An agent runs on each node, with
// sinks.upstream: it reads the logs there and sends hits to the aggregator. The
// aggregator has sources.agents, in which each agent is a member.
//
//	node n:  sources ─▶ pipeline ─ hits ─▶ agent/client
//	                                            │ batches, kept until they are on
//	                                            ▼ the disk of the aggregator
//	aggregator:                 agent/server ─▶ pipeline ─▶ engine ─▶ sinks

// upstreamLogged is the interval at which a lasting failure is logged.
const upstreamLogged = time.Minute

// remote sends hits to an aggregator. Its own engine gets none: it has only rules and
// watermarks.
type remote struct {
	local
	up   *client.Sink
	self *monitor.Alerts
	log  zerolog.Logger
	read reading
	// unknown is nil if the sentinel is off; complaints is what it last reported.
	unknown    *sentinel.Sentinel
	complaints []byte
	summarized time.Time
	proved     time.Time // up to when complaints contain everything; zero if not known yet

	// The values last logged. Used only by the goroutine that calls report.
	reason, reportError string
	at, since           time.Time
}

// newConcluder returns the configured concluder and, in agent mode, the receiver of
// its hits.
func newConcluder(opt Options, engine local, self *monitor.Alerts, unknown *sentinel.Sentinel) (concluder, []sinks.Receiver, error) {
	configured := component.Of[client.Config](opt.Cfg.Sinks)
	if len(configured) == 0 {
		return engine, nil, nil
	}
	cfg := *configured[0]
	if cfg.Node == "" && opt.Getenv != nil {
		cfg.Node = opt.Getenv("NODE_NAME")
	}
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname() // an empty one is refused
	}
	up, err := client.New(cfg, client.Options{Now: opt.now})
	if err != nil {
		return nil, nil, fmt.Errorf("sink upstream: %w", err)
	}
	self.Labels = map[string]string{"node": cfg.Node}
	log := opt.Log.With().Str("component", "upstream").Logger()
	return &remote{local: engine, up: up, self: self, log: log, unknown: unknown}, []sinks.Receiver{up}, nil
}

func (r *remote) Wait()                                 { r.up.Wait() }
func (r *remote) Take(found []matcher.Hit, _ time.Time) { r.up.Take(found) }
func (r *remote) saved() uint64                         { return r.up.Acked() }
func (r *remote) release()                              { r.up.Release() }
func (r *remote) ahead() map[string]time.Time           { return r.up.Behind() }

func (r *remote) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	r.local.AddSource(name, lateness, serves)
	r.read.add(name, serves)
	r.up.AddSource(name, lateness)
}

func (r *remote) RemoveSource(name string) {
	r.local.RemoveSource(name)
	r.read.remove(name)
	r.up.RemoveSource(name)
}

func (r *remote) AdvanceWatermark(name string, t time.Time, lagging ...matcher.LaggingStream) {
	r.local.AdvanceWatermark(name, t, lagging...)
	r.up.AdvanceWatermark(name, t, lagging...)
}

// checkpoint closes the open batch. The aggregator's snapshot holds the episodes.
func (r *remote) checkpoint() checkpoint {
	seq, ok := r.up.Checkpoint()
	return checkpoint{append: func(b []byte) ([]byte, error) { return append(b, "null"...), nil }, seq: seq, lost: !ok}
}

// Restore ignores episodes: they are from before this process was an agent.
func (r *remote) Restore([]byte, time.Time) error { return nil }

// resume saves that this process succeeds the previous one, which the aggregator
// knows.
func (r *remote) resume(save func()) { save() }

func (r *remote) peer() peer {
	st, p := r.up.Stats(), peer{remote: true}
	p.blocked, p.unsaved = st.Blocked, st.Unacked
	since := r.self.Answered(st.LastAnswer)
	switch {
	case st.LastError != "":
		p.absent, p.unanswered = "the aggregator cannot be reached: "+st.LastError, since
	case st.LastAnswer.IsZero():
		p.absent, p.unanswered = "the aggregator has not been reached yet", since
	}
	return p
}

func (r *remote) alerts(now time.Time) []episodes.Episode {
	return r.self.UpstreamAlerts(now, r.up.Stats())
}

// report logs why the aggregator does not accept messages: at once when the reason
// changes, then once a minute until it accepts them.
func (r *remote) report(now time.Time, rs *inforce.Rules) {
	r.up.Report(wire.Report{Conditions: r.self.Reportable(), Rules: rs.Digests(), Unread: r.read.without(rs.Set), Idle: r.self.IdleEverywhere(), Complaints: r.summary(now)})
	r.logStats(now, r.up.Stats())
}

// summary returns the complaints of this node, as they were some seconds ago at most; nil
// if the sentinel is off.
func (r *remote) summary(now time.Time) []byte {
	if r.unknown != nil && (r.proved.IsZero() || now.Sub(r.summarized) >= summaryEvery || now.Before(r.summarized)) {
		r.proved, r.summarized = r.up.Watermark(), now
		r.complaints = r.unknown.Summary(r.proved)
	}
	return r.complaints
}

func (r *remote) logStats(now time.Time, st client.Stats) {
	switch {
	case st.LastError == "" && r.reason != "":
		r.log.Info().Str("aggregator", st.Endpoint).Dur("after", now.Sub(r.since)).Msg("the aggregator takes the hits of this agent again")
		r.reason = ""
	case st.LastError != "" && (st.LastReason != r.reason || now.Sub(r.at) >= upstreamLogged || now.Before(r.at)):
		if r.reason == "" {
			r.since = now
		}
		r.log.Warn().Str("aggregator", st.Endpoint).Str("reason", st.LastReason).Str("error", st.LastError).
			Int("kept_batches", st.Batches).Bool("reading_waits", st.Blocked).Msg("the aggregator does not accept the hits of this agent")
		r.reason, r.at = st.LastReason, now
	}
	if st.ReportError != r.reportError {
		if r.reportError = st.ReportError; r.reportError != "" {
			r.log.Warn().Str("error", st.ReportError).Msg("the aggregator does not accept the reports of this agent")
		}
	}
}
