package alertmanager

import (
	"context"
	"slices"
	"time"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// checkFresh is for how long a check of the process is valid when an end is sent.
// Alertmanager takes longer to restart without any request failing.
const checkFresh = time.Second

// member is the known state of an Alertmanager's process and of its cluster. It is
// saved.
type member struct {
	// Uptime identifies the process that answered last; zero if none did.
	Uptime time.Time `json:"uptime"`
	// Started is the latest time at which that process started, by our clock.
	Started time.Time `json:"started"`
	// Cluster is the same for the members of one cluster; empty if no other member was
	// found.
	Cluster string `json:"cluster,omitempty"`
	// Names are the members of its cluster in its last answer.
	Names []string `json:"names,omitempty"`
}

// stamped returns m for a snapshot: Started in terms of the clock of now, which may
// have been set since.
func (m member) stamped(now time.Time) member {
	if !m.Started.IsZero() {
		m.Started = now.Add(m.Started.Sub(now)).UTC().Round(0)
	}
	return m
}

// measured is the inverse: Started stays equally long ago.
func (m member) measured(now time.Time) member {
	if !m.Started.IsZero() {
		m.Started = now.Add(m.Started.Sub(now))
	}
	return m
}

// check asks the Alertmanager for its process. A process that restarted has
// forgotten every alert: it would not notify of an end alone, and would learn of
// open alerts only when they are sent again. So run checks before it sends an end,
// and after the endpoint was away. check returns true if there is a new process,
// and an error if no answer came.
func (e *endpoint) check(ctx context.Context) (restarted bool, a delivery.Answer) {
	asked, within := e.now(), statusWithin
	if e.Down() {
		within = wakesWithin
	}
	st, a := e.client.status(ctx, within)
	now := e.now()
	e.heard(st.date, asked, now)
	if a.Err != nil || st.uptime.IsZero() {
		e.backSince = time.Time{}
		e.checkAt = now.Add(checkEvery)
		return false, a
	}
	e.checkAt = now.Add(checkFresh)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members.report(e, st)
	// A member that was away and has not found the others would repeat their
	// notification of an end. The alerts that it holds as firing do no harm until it
	// learns of that end.
	lonely := e.Down() && !st.alone && len(st.members) == 1
	e.settling = (st.settling || lonely || e.merging(now)) && e.State().PeerUp()
	was := e.member
	switch {
	case st.uptime.Equal(was.Uptime):
		return false, a
	case was.Uptime.IsZero():
		// The saved state applies to this process unless it certainly started later.
		e.State().Restarted(st.earliest, now)
	case st.earliest.After(was.Started):
		e.Log.Info().Time("started", st.latest).Msg("alertmanager was restarted: sending everything again")
		e.State().Restarted(st.latest, now)
		restarted = true
	default:
		return false, a // several processes answer under this name
	}
	e.member.Uptime, e.member.Started = st.uptime, st.latest
	return restarted, a
}

// merging reports whether the member has just come back. A suspended process continues
// with the exchange of notifications that was due meanwhile, but it would notify at once
// of alerts that began while it was away, because it does not know yet that people were
// notified of them.
func (e *endpoint) merging(now time.Time) bool {
	switch {
	case !e.Down():
		e.backSince = time.Time{}
		return false
	case e.backSince.IsZero():
		e.backSince = now
	}
	return now.Sub(e.backSince) < settleEvery
}

type members []*endpoint

// report records what e reported about its cluster. Endpoints that name a common
// member form one cluster from then on, even while they restart under new names,
// until one reports that it has no peers.
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

func (m members) link() {
	for _, e := range m {
		var peers []*sinks.State
		for _, o := range m {
			if o != e && o.member.Cluster != "" && o.member.Cluster == e.member.Cluster {
				peers = append(peers, o.State())
			}
		}
		e.State().SetPeers(peers)
	}
}
