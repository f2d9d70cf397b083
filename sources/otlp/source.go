package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"crowsnest/internal/httpserve"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	maxStreams = 5000
	mib        = 1 << 20
)

// lossRefused is the reason for losing a record or a request that cannot be read, so that the collector drops it.
const lossRefused = "refused"

// Source accepts the records of collectors. It is safe for concurrent use.
type Source struct {
	cfg      Config
	names    []string // sorted names of the labels of streams
	token    httpserve.TokenFile
	bodyRoom *semaphore.Weighted // room for the bodies of requests, as they were sent
	workers  chan *worker
	limit    *rate.Limiter // bytes of requests after decompression

	mu            sync.Mutex
	senders       map[string]*sender
	streams       *simplelru.LRU[string, *stream]
	awaitsUnknown bool // whether the source still waits for senders that it does not know yet
	beganAt       time.Time
	accepted      uint64        // number of requests whose records were accepted
	copied        uint64        // number of accepted requests in the state that Positions returned last
	saved         uint64        // number of accepted requests on the disk
	savedChanged  chan struct{} // closed when saved changes
	status        sources.Status
	refused       error // reason for the newest refused request
	refusedAt     time.Time
}

// refusedShown is how long Status shows why a request was refused. A collector repeats a refused request or sends the
// next one within that time.
const refusedShown = 5 * time.Minute

// stream is the log of the resources with the same labels.
type stream struct {
	mu          sync.Mutex // held while records are passed to the pipeline
	s           *matcher.Stream
	selfWritten bool // whether this program wrote the stream
}

// New returns a source. It does not listen yet.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, names: cfg.StreamLabels(), token: httpserve.TokenFile{Path: cfg.BearerTokenFile, Key: "bearer_token_file"},
		bodyRoom: semaphore.NewWeighted(int64(cfg.MaxBody)*mib + mib), workers: make(chan *worker, maxWorkers),
		limit:   rate.NewLimiter(rate.Limit(cfg.MaxRate)*mib, max(cfg.MaxRate, cfg.MaxBody)*mib),
		senders: map[string]*sender{}, awaitsUnknown: true, savedChanged: make(chan struct{}),
		status: sources.Status{Name: cfg.Name, Errors: map[string]int64{}, Losses: map[string]sources.Loss{}},
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive, so there is no error
	for range maxWorkers {
		s.workers <- new(worker)
	}
	for _, reason := range refusalReasons() {
		s.status.Errors[reason] = 0
	}
	return s
}

func (s *Source) withLock(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Name returns "otlp" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Info implements sources.Source. The lateness is part of the watermarks of the senders.
func (s *Source) Info() sources.Info { return sources.Info{Members: s} }

// Serves reports whether the selector can match a stream of this source.
func (s *Source) Serves(from rules.Selector) bool { return from.MaySelect(nil, s.names) }

func (s *Source) memberName(sender string) string { return s.cfg.Name + "/" + sender }

// unknownMember returns the name of the member that represents unknown senders. No sender has it.
func (s *Source) unknownMember() string { return s.memberName("?") }

// Members returns the names of the known senders. For a time as long as the lateness after a start without saved state,
// they include a member that represents unknown senders.
func (s *Source) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.senders {
		out = append(out, s.memberName(name))
	}
	if s.awaitsUnknown {
		out = append(out, s.unknownMember())
	}
	slices.Sort(out)
	return out
}

// MemberServes returns Serves, because every sender may send every stream.
func (s *Source) MemberServes(string) func(rules.Selector) bool { return s.Serves }

// MismatchedRules returns nil, because this process matches the lines.
func (s *Source) MismatchedRules(*rules.Set) map[string]sources.RuleMismatch { return nil }

// savedVersion is the version of the saved state.
const savedVersion = 1

// savedSource is the state of the source that survives a restart. The records themselves are in the state of the
// episodes.
type savedSource struct {
	Version int                     `json:"v"`
	Senders map[string]savedSender  `json:"senders"`
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
}

type savedSender struct {
	Heard  time.Time `json:"heard"`
	Newest time.Time `json:"newest"`
}

// Positions returns the state of all senders, after the accepted requests.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copied = s.accepted
	out := savedSource{Version: savedVersion, Senders: make(map[string]savedSender, len(s.senders)), Losses: maps.Clone(s.status.Losses)}
	for name, x := range s.senders {
		out.Senders[name] = savedSender{x.heard.UTC(), x.newest.UTC()}
	}
	b, _ := json.Marshal(out) // strings, numbers and times can always be encoded
	return b
}

// ConfirmSaved records that the last result of Positions is on disk. The requests that it contains are then answered.
func (s *Source) ConfirmSaved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved != s.copied {
		s.saved = s.copied
		close(s.savedChanged)
		s.savedChanged = make(chan struct{})
	}
}

// Restore sets the senders from a result of Positions. It must be called before Run. From then on, decisions wait for
// all of these senders.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	var in savedSource
	err := json.Unmarshal(b, &in)
	switch {
	case err != nil:
	case in.Version != savedVersion:
		err = fmt.Errorf("version %d is unknown", in.Version)
	case len(in.Senders) > 10*s.cfg.MaxSenders:
		err = errors.New("too many")
	}
	if err != nil {
		return fmt.Errorf("restore senders: %w", err)
	}
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitsUnknown = false
	for name, x := range in.Senders {
		s.senders[name] = &sender{heard: times.Min(x.Heard, now), newest: times.Min(x.Newest, now)}
	}
	if in.Losses != nil {
		s.status.Losses = in.Losses
	}
	return nil
}

// Status returns the state of the source. Its Watermark is the time of the newest record of the sender that is furthest
// behind. The lateness is not subtracted from it, as in other sources.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Errors, out.Losses = maps.Clone(out.Errors), maps.Clone(out.Losses)
	out.Members = make(map[string]sources.MemberStatus, len(s.senders))
	for name, x := range s.senders {
		m := sources.MemberStatus{Up: true, Since: x.heard, Watermark: x.newest}
		if !x.arrived {
			m.Error = "it has sent nothing since this process began; check its collector"
		} else if silent := now.Sub(x.heard); silent >= s.cfg.Lateness {
			m.Error = fmt.Sprintf("it has sent nothing for %v; check its collector", silent.Round(time.Second))
		} else if behind := now.Sub(x.newest); behind >= s.cfg.Lateness {
			m.Error = fmt.Sprintf("its newest record is %v old; its collector is catching up, or the clock of the node is behind", behind.Round(time.Second))
		}
		out.Members[s.memberName(name)] = m
		if out.Watermark.IsZero() || x.newest.Before(out.Watermark) {
			out.Watermark = x.newest
		}
	}
	switch {
	case out.Error != "":
	case s.refused != nil && now.Sub(s.refusedAt) < refusedShown:
		out.Error = "requests are refused: " + s.refused.Error()
	case len(s.senders) == 0:
		out.Error = "no collector has sent a record yet; set the endpoint of its exporter otlp_http to this address"
	}
	return out
}

// stream returns the stream with these labels.
func (s *Source) stream(labels matcher.Labels) *stream {
	key := labelKey(labels, s.names)
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams.Get(key); ok {
		return st
	}
	st := &stream{
		s:           matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, OfPods: true}),
		selfWritten: s.cfg.IsOwn(labels["namespace"], labels["pod"]),
	}
	s.streams.Add(key, st)
	return st
}

// knows reports whether a sender is known, or was added now. It returns false if there are too many senders. The caller
// reports an added sender to the pipeline.
func (s *Source) knows(name string) (known, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.senders[name] != nil {
		return true, false
	}
	if len(s.senders) >= s.cfg.MaxSenders {
		return false, false
	}
	s.senders[name] = &sender{heard: s.cfg.Clock()}
	return true, true
}

// expired returns the names of the senders that have been silent for so long that decisions no longer wait for them.
func (s *Source) expired(now time.Time) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, x := range s.senders {
		if now.Sub(times.Max(x.heard, s.beganAt)) >= s.cfg.ForgetAfter {
			out = append(out, name)
		}
	}
	return out
}

// noteRefusal counts a refused request. If the collector sends the request again, its records may be older than records
// that have arrived, so the watermarks wait for the lateness from now on. If the collector drops the request, it is
// counted as a loss.
func (s *Source) noteRefusal(why *refusal, from string) {
	now := s.cfg.Clock()
	s.mu.Lock()
	s.status.Errors[why.reason]++
	s.refused, s.refusedAt = why.err, now
	if why.isRetried() && why.reason != refusedUnsaved {
		for _, x := range s.senders {
			x.restart(now)
		}
	}
	s.mu.Unlock()
	if why.reason == refusedSize || why.reason == refusedMalformed {
		s.recordLoss(1, "a request from "+from, why.err)
	}
}

// recordLoss counts records or requests that are lost. from is where the newest of them comes from.
func (s *Source) recordLoss(count int, from string, why error) {
	if count == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.status.Losses[lossRefused]
	s.status.Losses[lossRefused] = sources.Loss{Count: l.Count + int64(count), Time: s.cfg.Clock().UTC(), Path: from + ": " + why.Error()}
}
