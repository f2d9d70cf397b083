package sinks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"crowsnest/episodes"
)

// Mark records which messages about one episode an endpoint has accepted. Marks are saved, so that after a restart an
// end is sent to the endpoints that accepted the start.
type Mark struct {
	Fingerprint string
	StartsAt    time.Time // start of the episode in nanoseconds, because it identifies the episode
	IsEnded     bool
	// The times are in milliseconds. Zero means never.
	AcceptedAt, LastFiringAt, EndedAt, SentAt time.Time
}

// MarshalJSON encodes the mark as a short list, because a snapshot may contain thousands of
// marks, one for each endpoint and alert.
func (m Mark) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 96), '[', '"')
	b = append(b, m.Fingerprint...) // a hexadecimal fingerprint needs no escapes
	b = strconv.AppendInt(append(b, '"', ','), m.StartsAt.UnixNano(), 10)
	b = strconv.AppendBool(append(b, ','), m.IsEnded)
	for _, t := range []time.Time{m.AcceptedAt, m.LastFiringAt, m.EndedAt, m.SentAt} {
		ms := int64(0)
		if !t.IsZero() {
			ms = t.UnixMilli()
		}
		b = strconv.AppendInt(append(b, ','), ms, 10)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON decodes the list that MarshalJSON encoded.
func (m *Mark) UnmarshalJSON(b []byte) error {
	var starts int64
	var ms [4]int64
	list := []any{&m.Fingerprint, &starts, &m.IsEnded, &ms[0], &ms[1], &ms[2], &ms[3]}
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("read mark: %w", err)
	}
	if len(list) != 7 {
		return fmt.Errorf("read mark: %d values, want 7", len(list))
	}
	if m.StartsAt = (time.Time{}); starts != 0 {
		m.StartsAt = time.Unix(0, starts).UTC()
	}
	for i, t := range []*time.Time{&m.AcceptedAt, &m.LastFiringAt, &m.EndedAt, &m.SentAt} {
		if *t = (time.Time{}); ms[i] != 0 {
			*t = time.UnixMilli(ms[i]).UTC()
		}
	}
	return nil
}

// EndedEpisode is an ended episode whose end was not accepted yet. State saves it, because the engine
// saves only open episodes.
type EndedEpisode struct {
	Fingerprint string            `json:"fp"`
	Alert       string            `json:"alert"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"starts_at"`
	EndsAt      time.Time         `json:"ends_at"`
	Count       int64             `json:"count,omitempty"`
}

// SavedState is the saved form of a State. The maps are shared with episodes and read-only.
type SavedState struct {
	Marks []Mark         `json:"marks"`
	Ended []EndedEpisode `json:"ended"`
}

// Export returns the state that must survive the process, in a stable order. It contains the marks of the accepted
// messages, and the episodes whose end the endpoint has not accepted.
func (s *State) Export(now time.Time) SavedState {
	var out SavedState
	for fp, e := range s.slots {
		if e.dropped || s.isDone(e, now) {
			continue
		}
		if !e.acceptedAt.IsZero() || e.isOver() {
			out.Marks = append(out.Marks, Mark{
				Fingerprint: fp.String(), StartsAt: e.ep.StartsAt.UTC(), IsEnded: e.isOver(),
				AcceptedAt: WallTime(e.acceptedAt, now), LastFiringAt: WallTime(e.lastFiringAt, now), EndedAt: WallTime(e.endedAt, now), SentAt: WallTime(e.sentAt, now),
			})
		}
		if _, more := s.nextPlan(e, now); more && e.isOver() && e.endedAt.IsZero() {
			out.Ended = append(out.Ended, savedEnd(e.ep))
			for _, ep := range e.laterEpisodes {
				if ep.State == episodes.StateResolved {
					out.Ended = append(out.Ended, savedEnd(ep))
				}
			}
		}
	}
	slices.SortFunc(out.Marks, func(a, b Mark) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	slices.SortFunc(out.Ended, func(a, b EndedEpisode) int {
		return cmp.Or(cmp.Compare(a.Fingerprint, b.Fingerprint), a.StartsAt.Compare(b.StartsAt))
	})
	return out
}

func savedEnd(ep episodes.Episode) EndedEpisode {
	return EndedEpisode{
		Fingerprint: ep.Fingerprint.String(), Alert: ep.Alert, Reason: ep.Reason, Overflow: ep.Overflow,
		Labels: ep.Labels, Annotations: ep.Annotations,
		StartsAt: ep.StartsAt.UTC(), EndsAt: ep.EndsAt.UTC(), Count: ep.Count,
	}
}

// Import sets the state that Export returned. It must be called before the first Notify. An
// accepted end is due again when Notify gets its episode. Ended episodes without a mark and
// unreadable entries are skipped. Times later than now become now.
func (s *State) Import(in SavedState, now time.Time) {
	for _, m := range in.Marks {
		fp, ok := parseFingerprint(m.Fingerprint)
		if !ok || m.StartsAt.IsZero() || len(s.slots) >= s.cfg.MaxKeys {
			continue
		}
		s.versions++
		e := &slot{
			epoch: s.versions, version: s.versions, sentVersion: s.versions, imported: now, counted: !m.AcceptedAt.IsZero(),
			acceptedAt: FromWallTime(m.AcceptedAt, now), lastFiringAt: FromWallTime(m.LastFiringAt, now), endedAt: FromWallTime(m.EndedAt, now), sentAt: FromWallTime(m.SentAt, now),
		}
		e.ep = episodes.Episode{Fingerprint: fp, State: episodes.StateFiring, StartsAt: m.StartsAt}
		if m.IsEnded {
			e.ep.State = episodes.StateResolved
		}
		s.slots[fp], s.live[fp] = e, e
	}
	for _, in := range in.Ended {
		fp, ok := parseFingerprint(in.Fingerprint)
		e := s.slots[fp]
		if !ok || e == nil || !e.isOver() || !e.ep.StartsAt.Equal(in.StartsAt) && (!s.cfg.EachEpisode || !in.StartsAt.After(e.ep.StartsAt)) {
			continue // the endpoint has no mark of the episode
		}
		if !e.endedAt.IsZero() {
			// The end was accepted. It must not be sent again now, because lines that the engine reads again may reopen
			// the episode. If they do not, the engine passes the episode to Notify.
			continue
		}
		s.updateSlot(episodes.Episode{
			Fingerprint: fp, Alert: in.Alert, State: episodes.StateResolved, Reason: in.Reason, Overflow: in.Overflow,
			Labels: in.Labels, Annotations: in.Annotations,
			StartsAt: in.StartsAt, EndsAt: in.EndsAt, FiredAt: in.StartsAt, LastSeen: in.EndsAt,
			Count: in.Count,
		}, now)
	}
}

func parseFingerprint(s string) (episodes.Fingerprint, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return episodes.Fingerprint(n), err == nil && len(s) == 16
}

// WallTime converts t to the wall clock as it is at now, because the clock may have been set since t was measured. The
// zero time stays zero.
func WallTime(t, now time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return now.Add(t.Sub(now)).UTC().Round(0)
}

// FromWallTime converts a result of WallTime back to a time with a monotonic clock. The age of t at now then stays the
// same even if the wall clock is set later. Times later than now become now.
func FromWallTime(t, now time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return now.Add(min(t.Sub(now), 0))
}
