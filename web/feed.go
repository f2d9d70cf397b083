package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"crowsnest/episodes"
)

// Limits of the stream of changes.
const (
	maxSubscribers = 64
	maxWaiting     = 8                // maximum number of messages that a subscriber has not received yet
	maxChanges     = 100              // maximum number of episodes in one message
	feedEvery      = time.Second      // interval between comparisons of the episodes
	heartbeat      = 5 * time.Second  // interval of messages without changes, which let a reader notice within seconds that the daemon is dead
	sendTime       = 10 * time.Second // time limit for a client to receive one message
)

// Change is a message of the stream. It contains the changes since the previous message.
type Change struct {
	Time time.Time `json:"time"`
	// Episodes are the new and the changed episodes. Gone has the fingerprints of those that
	// are no longer listed.
	Episodes []ChangedEpisode `json:"episodes"`
	Gone     []string         `json:"gone"`
	// More is the number of changes for which a message has no room. Read /api/v1/episodes to
	// get them.
	More int `json:"more,omitempty"`
}

// ChangedEpisode is the state of an episode that changed. /api/v1/episodes/FINGERPRINT has
// the rest.
type ChangedEpisode struct {
	Fingerprint string         `json:"fingerprint"`
	Alert       string         `json:"alert"`
	Severity    string         `json:"severity,omitempty"`
	State       episodes.State `json:"state"`
	Held        bool           `json:"held,omitempty"`
	Silent      bool           `json:"silent,omitempty"`
	StartsAt    time.Time      `json:"startsAt"`
	LastSeen    time.Time      `json:"lastSeen"`
	EndsAt      *time.Time     `json:"endsAt,omitempty"`
	Count       int64          `json:"count"`
	// StateChanged is set if more than the number of its lines changed.
	StateChanged bool `json:"turned,omitempty"`
}

// sentHashes contains hashes of the last message about an episode. The hash turn does not depend on the number of
// lines.
type sentHashes struct{ turn, all uint64 }

// feed compares the episodes once a second while someone reads the stream, and passes the changes to the subscribers.
// It is safe for concurrent use.
type feed struct {
	list func() []episodes.Episode

	mu       sync.Mutex
	subs     map[chan []byte]bool  // message channel of each reader; the channel of a reader that is too slow is removed
	lastSent map[string]sentHashes // hashes of the last messages; the key is the fingerprint; nil if nobody reads
}

func newFeed(list func() []episodes.Episode) *feed {
	return &feed{list: list, subs: map[chan []byte]bool{}}
}

// subscribe returns the channel of a new reader, or nil if there are too many readers.
func (f *feed) subscribe() chan []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) >= maxSubscribers {
		return nil
	}
	if f.lastSent == nil {
		f.lastSent, _ = compareEpisodes(nil, f.list())
	}
	s := make(chan []byte, maxWaiting)
	f.subs[s] = true
	return s
}

func (f *feed) unsubscribe(s chan []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
	if len(f.subs) == 0 {
		f.lastSent = nil
	}
}

func (f *feed) endStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		close(s)
		delete(f.subs, s)
	}
	f.lastSent = nil
}

func (f *feed) run(ctx context.Context, now func() time.Time) {
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.endStreams()
			return
		case <-tick.C:
			f.publishChanges(now().UTC())
		}
	}
}

// publishChanges passes the changes since the last call to the subscribers. It ends the stream of each subscriber that
// has too many unread messages.
func (f *feed) publishChanges(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastSent == nil {
		return
	}
	var c Change
	f.lastSent, c = compareEpisodes(f.lastSent, f.list())
	if len(c.Episodes)+len(c.Gone) == 0 {
		return
	}
	c.Time = now
	message := encodeEvent("change", c)
	for s := range f.subs {
		select {
		case s <- message:
		default:
			close(s)
			delete(f.subs, s)
		}
	}
}

// compareEpisodes compares list with the hashes of the previous list. It returns the new hashes and the changes.
func compareEpisodes(before map[string]sentHashes, list []episodes.Episode) (map[string]sentHashes, Change) {
	after := make(map[string]sentHashes, len(list))
	c := Change{Episodes: []ChangedEpisode{}, Gone: []string{}}
	for i := range list {
		e := &list[i]
		fp, k := e.Fingerprint.String(), hashEpisode(e)
		if k2, twice := after[fp]; twice {
			k = sentHashes{k2.turn ^ k.turn, k2.all ^ k.all} // an ended and an open episode have the same fingerprint, so their hashes are combined
		}
		after[fp] = k
	}
	sent := map[string]bool{}
	for i := range list {
		e := &list[i]
		fp := e.Fingerprint.String()
		old, ok := before[fp]
		if ok && old == after[fp] || sent[fp] && !isEpisodeOpen(*e) {
			continue
		}
		sent[fp] = true
		if len(c.Episodes) == maxChanges {
			c.More++
			continue
		}
		c.Episodes = append(c.Episodes, ChangedEpisode{
			Fingerprint: fp, Alert: e.Alert, Severity: e.Labels["severity"], State: e.ShownState(), Held: e.OnHold, Silent: e.Silent,
			StartsAt: e.StartsAt, LastSeen: e.LastSeen, EndsAt: optionalTime(e.EndsAt), Count: e.Count, StateChanged: !ok || old.turn != after[fp].turn,
		})
	}
	for fp := range before {
		switch _, listed := after[fp]; {
		case listed:
		case len(c.Gone) == maxChanges:
			c.More++
		default:
			c.Gone = append(c.Gone, fp)
		}
	}
	return after, c
}

func hashEpisode(e *episodes.Episode) sentHashes {
	cause := episodes.Fingerprint(0)
	if e.Cause != nil {
		cause = e.Cause.Fingerprint
	}
	turn := fmt.Appendf(nil, "%s %t %t %d %d %d %s", e.ShownState(), e.OnHold, e.Silent, e.StartsAt.UnixNano(), e.EndsAt.UnixNano(), cause, strings.Join(e.WaitsFor, ","))
	all := fmt.Appendf(turn[:len(turn):len(turn)], " %d %d %d", e.Count, e.LastSeen.UnixNano(), e.Deadline.UnixNano())
	return sentHashes{xxhash.Sum64(turn), xxhash.Sum64(all)}
}

// encodeEvent returns a message in the format of server-sent events.
func encodeEvent(name string, data any) []byte {
	body, _ := json.Marshal(data) // cannot fail, because all types of messages can be encoded
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, body)
}

// serveStream sends changes until the client disconnects, the client is too slow, or the server stops. Each message has
// its own deadline, so the time limits of other requests do not apply. If there are too many connections, streams are
// closed before most other connections.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	messages := s.feed.subscribe()
	if messages == nil {
		serveBusy(w)
		return
	}
	defer s.feed.unsubscribe(messages)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the client sends nothing more; httptest.ResponseRecorder does not support deadlines
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // makes nginx pass on each message immediately
	send := func(message []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTime)) // httptest.ResponseRecorder does not support deadlines
		if _, err := w.Write(message); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	alive := func(name string) []byte { return encodeEvent(name, map[string]time.Time{"time": s.opt.Now().UTC()}) }
	if !send(alive("hello")) {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var message []byte
		ok := true
		select {
		case <-r.Context().Done():
			return
		case message, ok = <-messages:
		case <-beat.C:
			message = alive("alive")
		}
		if !ok || !send(message) {
			return
		}
	}
}
