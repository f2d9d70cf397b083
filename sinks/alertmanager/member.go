package alertmanager

import (
	"context"
	"slices"
	"time"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// checkFresh is how long a check of the process is valid when an end is sent. No Alertmanager
// can restart in less time without a failed request.
const checkFresh = time.Second

// member is what is known about an Alertmanager's process and its cluster. It is saved.
type member struct {
	// Uptime is the start time that the process reported last, which identifies the process. It
	// is zero if there was no answer.
	Uptime time.Time `json:"uptime"`
	// Started is the latest time at which that process can have started, by our clock.
	Started time.Time `json:"started"`
	// Cluster is equal for all members of a cluster. It is empty if no other member was found.
	Cluster string `json:"cluster,omitempty"`
	// Names are the names of the cluster's members in the last answer.
	Names []string `json:"names,omitempty"`
}

// checkProcess asks the Alertmanager for its process. A process that restarted has forgotten
// every alert. It would not notify of the end of an alert that it does not know, and would know
// open alerts only after they are sent again. Therefore the process is checked before an end is
// sent, and after the endpoint was unreachable. restarted reports whether there is a new
// process. The answer has an error if none came.
func (e *endpoint) checkProcess(ctx context.Context) (restarted bool, a delivery.Answer) {
	asked, within := e.now(), statusWithin
	if e.IsDown() {
		within = wakesWithin
	}
	st, a := e.client.status(ctx, within)
	now := e.now()
	e.recordDate(st.date, asked, now)
	if a.Err != nil || st.uptime.IsZero() {
		e.backSince = time.Time{}
		e.checkAt = now.Add(checkEvery)
		return false, a
	}
	e.checkAt = now.Add(checkFresh)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members.recordStatus(e, st)
	// A member that was away and has not found its peers would repeat their notification of an
	// end. The alerts that it holds as firing do no harm before it receives that end.
	lonely := e.IsDown() && !st.alone && len(st.members) == 1
	e.settling = (st.settling || lonely || e.isMerging(now)) && e.State().PeerUp()
	was := e.member
	switch {
	case st.uptime.Equal(was.Uptime):
		return false, a
	case was.Uptime.IsZero():
		// The saved state is valid for this process unless the process certainly started later.
		e.State().Restarted(st.earliest, now)
	case st.earliest.After(was.Started):
		e.Log.Info().Time("started", st.latest).Msg("alertmanager was restarted: sending everything again")
		e.State().Restarted(st.latest, now)
		restarted = true
	default:
		return false, a // several processes answer under the same name
	}
	e.member.Uptime, e.member.Started = st.uptime, st.latest
	return restarted, a
}

// isMerging reports whether the member has just come back. A process that was suspended first
// continues with the exchange of notifications. It does not know yet of which alerts people
// were notified in the meantime, so it would notify of them again.
func (e *endpoint) isMerging(now time.Time) bool {
	switch {
	case !e.IsDown():
		e.backSince = time.Time{}
		return false
	case e.backSince.IsZero():
		e.backSince = now
	}
	return now.Sub(e.backSince) < settleEvery
}

type members []*endpoint

// recordStatus records what e reported about its cluster. Endpoints that name a common member
// belong to one cluster from then on, even if they restart under new names. This ends when one
// reports that it has no peers.
func (m members) recordStatus(e *endpoint, st status) {
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
	m.linkPeers()
}

func (m members) linkPeers() {
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
