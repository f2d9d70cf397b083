package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"crowsnest/internal/times"
)

// member is what the source knows about one cluster. The mutex of the source guards it.
type member struct {
	target
	cancel   context.CancelFunc
	added    time.Time
	last     Cluster // as last reported
	err      string  // of the last poll; "": it succeeded
	conflict bool    // its name is in doubt
	// doubt is why discovery did not return a target that can be polled, nil if it did.
	doubt error
	// delisted is since when discovery does not find it; zero: it does.
	delisted time.Time
}

func newMember(f found, now time.Time) *member {
	return &member{target: f.target, added: now, doubt: f.err, last: Cluster{Name: f.cluster}}
}

// stop ends its polls.
func (m *member) stop() {
	if m.cancel != nil {
		m.cancel()
		m.cancel = nil
	}
}

func (m *member) pollable() bool { return m.doubt == nil && m.base != nil }

// expired reports whether it is time to forget it. Of one that never answered, nothing is
// known that could be forgotten too early.
func (m *member) expired(now time.Time, after time.Duration) bool {
	return !m.delisted.IsZero() && (m.last.Answered.IsZero() || now.Sub(m.delisted) >= after)
}

// accept takes an answer and reports whether it differs from the one before.
func (m *member) accept(got answer, now time.Time) bool {
	if got.cluster != "" && got.cluster != m.cluster {
		m.conflict = true
		m.err = fmt.Sprintf("the daemon at %s is of cluster %q according to its external_labels, and its target is named %q: correct one of them", shown(m.base), got.cluster, m.cluster)
		return false
	}
	next := Cluster{Name: m.cluster, Answered: now.UTC(), Version: got.version, Link: got.link, Open: got.open, Rules: got.list()}
	changed := !next.same(&m.last)
	m.last, m.err, m.conflict = next, "", false
	return changed
}

// at returns the state of the cluster at a time.
func (m *member) at(now time.Time, unknownAfter time.Duration) Cluster {
	c := m.last
	if c.Link == "" && m.base != nil {
		c.Link = shown(m.base)
	}
	c.Since, c.Error = c.Answered, m.err
	if c.Answered.IsZero() {
		c.Since = m.added
	}
	switch {
	case m.doubt != nil:
		c.State, c.Error, c.Since = Conflict, m.doubt.Error(), times.Later(c.Since, m.added)
	case m.conflict && m.delisted.IsZero():
		c.State = Conflict
	case !m.delisted.IsZero():
		c.State, c.Error = Unknown, "discovery has not found it since "+m.delisted.UTC().Format(time.RFC3339)
	case !c.Answered.IsZero() && now.Sub(c.Answered) < unknownAfter:
		c.State, c.Error = Up, ""
	default:
		c.State = Unknown
		if c.Error == "" {
			c.Error = "no answer yet"
		}
	}
	return c
}

// reasonOf returns under which reason an error of a poll is counted.
func reasonOf(err error) string {
	if _, is := errors.AsType[refused](err); is {
		return "refused"
	}
	return "poll"
}
