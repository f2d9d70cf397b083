package alertmanager

import (
	"context"
	"slices"
	"time"

	"crowsnest/sinks"
)

// checkFresh is for how long a check of the process still holds when an end is
// sent. Alertmanager takes longer to restart without any request failing.
const checkFresh = time.Second

// member is what is known of the process of an Alertmanager and of its cluster.
// It is saved.
type member struct {
	// Uptime identifies the process that was seen last; zero: none was.
	Uptime time.Time `json:"uptime"`
	// Started is the latest time at which that process started, by our clock.
	Started time.Time `json:"started"`
	// Cluster is the same for the members of one cluster; "": no member of another
	// one was seen.
	Cluster string `json:"cluster,omitempty"`
	// Names are those of the members of its cluster, as it last said.
	Names []string `json:"names,omitempty"`
}

// stamped returns m for a snapshot: Started as the clock of now shows it, which may
// have been set since.
func (m member) stamped(now time.Time) member {
	if !m.Started.IsZero() {
		m.Started = now.Add(m.Started.Sub(now)).UTC().Round(0)
	}
	return m
}

// measured is the inverse: Started stays as long ago as it is.
func (m member) measured(now time.Time) member {
	if !m.Started.IsZero() {
		m.Started = now.Add(m.Started.Sub(now))
	}
	return m
}

// check asks the Alertmanager for its process, unless it did not answer that
// lately. A process that started again has forgotten every alert: it would not
// notify of an end alone, and would learn of open alerts only when they are sent
// again. So it is asked before it is sent an end, and when it was away. check
// returns true if there is a new process, and an error if no answer came.
func (e *endpoint) check(ctx context.Context) (restarted bool, a answer) {
	asked, within := e.now(), statusWithin
	if !e.downSince.IsZero() {
		within = wakesWithin
	}
	st, a := e.client.status(ctx, within)
	now := e.now()
	e.changed = e.heard(st.date, asked, now) || e.changed
	if a.Err != nil || st.uptime.IsZero() {
		e.checkAt = now.Add(checkEvery)
		return false, a
	}
	e.checkAt = now.Add(checkFresh)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members.report(e, st)
	// One that was away and has not found the others yet would notify of an end that
	// they notified of. What it holds as firing does no harm until it hears of that.
	lonely := !e.downSince.IsZero() && !st.alone && len(st.members) == 1
	e.settling = (st.settling || lonely) && e.state.PeerUp()
	was := e.member
	switch {
	case st.uptime.Equal(was.Uptime):
		return false, a
	case was.Uptime.IsZero():
		// What was saved before a process was known counts for this one, unless
		// it is surely older.
		e.state.Restarted(st.earliest, now)
	case st.earliest.After(was.Started):
		e.log.Info().Time("started", st.latest).Msg("alertmanager was restarted: sending everything again")
		e.state.Restarted(st.latest, now)
		restarted = true
	default:
		return false, a // several processes answer by this name
	}
	e.member.Uptime, e.member.Started = st.uptime, st.latest
	return restarted, a
}

// members are the endpoints of a sink.
type members []*endpoint

// report takes what e said about its cluster. Endpoints that name a common
// member are one cluster from then on, also while they restart under new names,
// until one says that it has none.
func (m members) report(e *endpoint, st status) {
	e.member.Names = st.members
	if st.alone {
		e.member.Cluster = ""
	}
	for _, o := range m {
		if o == e || st.alone || !slices.ContainsFunc(o.member.Names, func(n string) bool { return slices.Contains(st.members, n) }) {
			continue
		}
		id := o.member.Cluster
		if id == "" {
			id = o.name
		}
		for _, x := range m {
			if x == e || x == o || x.member.Cluster != "" && x.member.Cluster == e.member.Cluster {
				x.member.Cluster = id
			}
		}
	}
	m.link()
}

// link lets each state know those of its cluster.
func (m members) link() {
	for _, e := range m {
		var peers []*sinks.State
		for _, o := range m {
			if o != e && o.member.Cluster != "" && o.member.Cluster == e.member.Cluster {
				peers = append(peers, o.state)
			}
		}
		e.state.SetPeers(peers)
	}
}
