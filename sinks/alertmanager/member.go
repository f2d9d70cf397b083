package alertmanager

import (
	"context"
	"slices"
	"time"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// checkFresh is the time for which the result of a restart check stays valid. No Alertmanager can restart in less time
// without a failed request.
const checkFresh = time.Second

// member describes an Alertmanager's process and its cluster. It is part of the saved state.
type member struct {
	// Uptime is the start time in the last response, which identifies the process. It is zero if there was no response.
	Uptime time.Time `json:"uptime"`
	// Started is the latest time at which that process can have started, by our clock.
	Started time.Time `json:"started"`
	// Cluster is an identifier that all members of a cluster share. It is empty if no other member was found.
	Cluster string `json:"cluster,omitempty"`
	// Names are the names of the cluster's members in the last response.
	Names []string `json:"names,omitempty"`
}

// checkProcess finds out whether the Alertmanager restarted. A process that restarted has forgotten every alert. Such a
// process would not notify of the ends of these alerts, and knows open alerts only after they are sent again. Therefore
// the process is checked before an end is sent, and after the endpoint was unreachable. restarted reports whether there
// is a new process. The answer has an error if there was no response.
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
	// A member that was unreachable and has not found its peers would send the notification of
	// an end again. The alerts that it holds as firing do no harm until it receives that end.
	lonely := e.IsDown() && !st.alone && len(st.members) == 1
	e.settling = (st.settling || lonely || e.isMerging(now)) && e.State().PeerUp()
	was := e.member
	switch {
	case st.uptime.Equal(was.Uptime):
		return false, a
	case was.Uptime.IsZero():
		// Only messages that were accepted before the earliest possible start of the process are certainly lost.
		e.State().Restarted(st.earliest, now)
	case st.earliest.After(was.Started):
		e.Log.Info().Time("started", st.latest).Msg("alertmanager was restarted: sending everything again")
		e.State().Restarted(st.latest, now)
		restarted = true
	default:
		return false, a // several processes seem to answer under the same name
	}
	e.member.Uptime, e.member.Started = st.uptime, st.latest
	return restarted, a
}

// isMerging reports whether the member has just come back. A process that resumes after a
// suspension first exchanges notifications with its peers. Until it has done so, it would
// repeat notifications that its peers sent in the meantime.
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

// recordStatus records the response of e about its cluster. Endpoints whose responses have a
// member in common belong to one cluster from then on, even if the processes restart under new
// names. An endpoint leaves the cluster when it reports that it has no peers.
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
