package daemon

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
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
	"crowsnest/sinks"
	"crowsnest/unknown/sentinel"
)

// Agent mode splits the daemon into two processes. An agent, which has the sink sinks.upstream, runs on each node,
// reads the logs there and sends hits to the aggregator. The aggregator has the source sources.agents, and each agent
// is a member of that source.
//
//	node n:  sources ─▶ pipeline ─ hits ─▶ agent/client
//	                                            │ batches, kept until they are on
//	                                            ▼ the disk of the aggregator
//	aggregator:                 agent/server ─▶ pipeline ─▶ engine ─▶ sinks

const upstreamLogged = time.Minute

// remoteConcluder sends hits to an aggregator. Its own engine has only rules and watermarks, and gets no hits.
type remoteConcluder struct {
	local
	sink   *client.Sink
	self   *monitor.Alerts
	log    zerolog.Logger
	served servedSelectors
	// unknown finds failures that no rule describes. It is nil if this detection is off. complaints is its last report
	// to the aggregator.
	unknown    *sentinel.Sentinel
	complaints []byte
	summarized time.Time
	proved     time.Time // time up to which complaints is complete; zero if the time is unknown

	// reason and reportError are the values that were logged last. Only the goroutine that calls report uses them.
	reason, reportError string
	at, since           time.Time
}

// newConcluder returns the configured concluder. In agent mode it also returns the receiver that sends the hits.
func newConcluder(opt Options, engine local, self *monitor.Alerts, unknown *sentinel.Sentinel) (concluder, []sinks.Receiver, error) {
	configured := component.SettingsOf[client.Config](opt.Cfg.Sinks)
	if len(configured) == 0 {
		return engine, nil, nil
	}
	cfg := *configured[0]
	if cfg.Node == "" && opt.Getenv != nil {
		cfg.Node = opt.Getenv("NODE_NAME")
	}
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname() // an empty name is refused below
	}
	up, err := client.New(cfg, client.Options{Now: opt.now})
	if err != nil {
		return nil, nil, fmt.Errorf("sink upstream: %w", err)
	}
	self.Labels = map[string]string{"node": cfg.Node}
	log := opt.Log.With().Str("component", "upstream").Logger()
	return &remoteConcluder{local: engine, sink: up, self: self, log: log, unknown: unknown}, []sinks.Receiver{up}, nil
}

func (r *remoteConcluder) Wait()                                 { r.sink.Wait() }
func (r *remoteConcluder) Take(found []matcher.Hit, _ time.Time) { r.sink.Take(found) }
func (r *remoteConcluder) writableCheckpoint() uint64            { return r.sink.AckedBatch() }
func (r *remoteConcluder) release()                              { r.sink.Release() }
func (r *remoteConcluder) mismatchedRules() map[string]time.Time { return r.sink.MismatchedRules() }

func (r *remoteConcluder) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	r.local.AddSource(name, lateness, serves)
	r.served.add(name, serves)
	r.sink.AddSource(name, lateness)
}

func (r *remoteConcluder) RemoveSource(name string) {
	r.local.RemoveSource(name)
	r.served.remove(name)
	r.sink.RemoveSource(name)
}

func (r *remoteConcluder) AdvanceWatermark(name string, t time.Time, lagging ...matcher.LaggingStream) {
	r.local.AdvanceWatermark(name, t, lagging...)
	r.sink.AdvanceWatermark(name, t, lagging...)
}

// checkpoint closes the open batch. The episodes are in the aggregator's snapshot.
func (r *remoteConcluder) checkpoint() checkpoint {
	seq, ok := r.sink.Checkpoint()
	return checkpoint{append: func(b []byte) ([]byte, error) { return append(b, "null"...), nil }, seq: seq, lost: !ok}
}

// Restore ignores the saved episodes, because they were saved when this process was not yet an agent.
func (r *remoteConcluder) Restore([]byte, time.Time) error { return nil }

// resume calls save immediately, because the aggregator may already know an earlier run of this agent.
func (r *remoteConcluder) resume(save func()) { save() }

func (r *remoteConcluder) aggregatorState() aggregatorState {
	st, p := r.sink.Stats(), aggregatorState{remote: true}
	p.blocked, p.unackedBytes = st.Blocked, st.Unacked
	since := r.self.NoteAnswer(st.LastAnswer)
	switch {
	case st.LastError != "":
		p.absent, p.unanswered = "the aggregator cannot be reached: "+st.LastError, since
	case st.LastAnswer.IsZero():
		p.absent, p.unanswered = "the aggregator has not been reached yet", since
	}
	return p
}

func (r *remoteConcluder) alerts(now time.Time) []episodes.Episode {
	return r.self.UpstreamAlerts(now, r.sink.Stats())
}

// report logs why the aggregator does not accept messages: immediately when the reason changes,
// then once a minute until the aggregator accepts them.
func (r *remoteConcluder) report(now time.Time, rs *inforce.Rules) {
	r.sink.Report(wire.Report{Conditions: r.self.Reportable(), Rules: rs.Digests(), UnservedSelectors: r.served.unservedSelectors(rs.Set), Idle: r.self.IdleEverywhere(), Complaints: r.summary(now)})
	r.logStats(now, r.sink.Stats())
}

// summary returns the unmatched errors of this node, a few seconds old. It returns nil if the sentinel is off.
func (r *remoteConcluder) summary(now time.Time) []byte {
	if r.unknown != nil && (r.proved.IsZero() || now.Sub(r.summarized) >= summaryEvery || now.Before(r.summarized)) {
		r.proved, r.summarized = r.sink.Watermark(), now
		r.complaints = r.unknown.Summary(r.proved)
	}
	return r.complaints
}

func (r *remoteConcluder) logStats(now time.Time, st client.Stats) {
	switch {
	case st.LastError == "" && r.reason != "":
		r.log.Info().Str("aggregator", st.Endpoint).Dur("after", now.Sub(r.since)).Msg("the aggregator accepts hits from this agent again")
		r.reason = ""
	case st.LastError != "" && (st.LastReason != r.reason || now.Sub(r.at) >= upstreamLogged || now.Before(r.at)):
		if r.reason == "" {
			r.since = now
		}
		r.log.Warn().Str("aggregator", st.Endpoint).Str("reason", st.LastReason).Str("error", st.LastError).
			Int("kept_batches", st.Batches).Bool("reading_waits", st.Blocked).Msg("the aggregator does not accept hits from this agent")
		r.reason, r.at = st.LastReason, now
	}
	if st.ReportError != r.reportError {
		if r.reportError = st.ReportError; r.reportError != "" {
			r.log.Warn().Str("error", st.ReportError).Msg("the aggregator does not accept reports from this agent")
		}
	}
}

// servedSelectors knows which selectors the sources of this process serve. It is safe for concurrent use.
type servedSelectors struct {
	mu       sync.Mutex
	serves   map[string]func(rules.Selector) bool // for each source, the filter for the selectors that it serves; a nil filter accepts all
	set      *rules.Set                           // set of rules from which unserved was computed
	changed  bool                                 // whether serves has changed since unserved was computed
	unserved []string
}

func (x *servedSelectors) add(source string, serves func(rules.Selector) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.serves == nil {
		x.serves = map[string]func(rules.Selector) bool{}
	}
	x.serves[source], x.changed = serves, true
}

func (x *servedSelectors) remove(source string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.serves, source)
	x.changed = true
}

// unservedSelectors returns the sorted selectors of active rules that no source serves. It is read-only.
func (x *servedSelectors) unservedSelectors(set *rules.Set) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.set == set && !x.changed {
		return x.unserved
	}
	unread := map[string]bool{}
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		for from := range r.Selectors() {
			if !x.isServed(from) {
				unread[from.String()] = true
			}
		}
	}
	x.set, x.changed, x.unserved = set, false, slices.Sorted(maps.Keys(unread))
	return x.unserved
}

func (x *servedSelectors) isServed(from rules.Selector) bool {
	for _, serves := range x.serves {
		if serves == nil || serves(from) {
			return true
		}
	}
	return false
}
