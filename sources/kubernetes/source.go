package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"crowsnest/internal/times"
	"crowsnest/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	tickEvery = 250 * time.Millisecond
	// openRate and openBurst limit how fast logs are opened. Otherwise the restart of an API
	// server would cause a burst of requests.
	openRate  = 40
	openBurst = 40
	// drainFor is the time for which the log of a deleted pod is still read.
	drainFor = 5 * time.Second
	// unreachableAfter is the time for which conclusions wait for a log whose node cannot be
	// reached. Otherwise a dead node would delay some of them forever.
	unreachableAfter = 5 * time.Minute
	// maxUnread is the largest number of unread logs that are listed.
	maxUnread = 100
	// refusedAfter is the time after which it is reported that there are more logs than
	// max_streams.
	refusedAfter = 10 * time.Second
)

// Source follows the logs of pods.
type Source struct {
	cfg    Config
	client *kube.Client
	opens  *rate.Limiter
	gates  gates
	rules  atomic.Pointer[rules.Set]
	wake   chan struct{} // signals a change; has capacity 1

	pipe    sources.Pipeline // set by Run
	streams sync.WaitGroup   // counts the running streams

	mu        sync.Mutex
	began     time.Time // time at which Run started
	all       map[string]*stream
	saved     map[string]position // restored positions of pods that were not seen yet
	watchers  []*watcher
	running   int
	ruled     *rules.Set // rules by which the streams were last selected
	fullSince time.Time  // time since which there are more streams than max_streams; zero if there are not
	watermark time.Time
	lagging   []matcher.LaggingStream // lagging streams in the last report to the pipeline
	read      bool                    // whether a log was read at the last report, or there was none to read
	logs      int                     // number of existing logs
	up        bool
	opened    bool
	problems  problems
	errs      map[string]int64
	lost      map[string]int64
	losses    map[string]sources.Loss
	closed    matcher.Counters // counters of removed streams
}

var reasons = []string{
	"expired", "unauthorized", "forbidden", "not_found", "not_started", "throttled", "server", "network",
	"cut", "stall", "text", "restarts", "removed",
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg:    cfg,
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
		opens:  rate.NewLimiter(openRate, openBurst),
		wake:   make(chan struct{}, 1),
		all:    map[string]*stream{}, saved: map[string]position{},
		problems: problems{}, errs: map[string]int64{}, lost: map[string]int64{"long_line": 0}, losses: map[string]sources.Loss{},
	}
	for _, r := range reasons {
		s.errs[r] = 0
	}
	return s
}

// Name returns "kubernetes" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Serves reports whether the selector can match a stream of this source. Streams have the
// labels of the pod, which are unknown, and the configured labels, and no others.
func (s *Source) Serves(from rules.Selector) bool {
	return from.MaySelect(s.cfg.Labels, podLabels)
}

// Info implements sources.Source. The source reads only containers that a rule can match.
func (s *Source) Info() sources.Info {
	return sources.Info{Remote: true, UseRules: func(set *rules.Set) {
		s.rules.Store(set)
		s.wakeUp()
	}}
}

// wakeUp makes the next reconcile start immediately.
func (s *Source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run follows logs until ctx ends. It then waits for the requests in progress, which
// end immediately.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.client.Close()
	var watching sync.WaitGroup
	s.mu.Lock()
	s.began = s.cfg.Clock()
	s.watchers = newWatchers(s)
	for _, w := range s.watchers {
		watching.Go(func() { w.Run(ctx) })
	}
	s.mu.Unlock()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		now := s.cfg.Clock()
		s.reconcile(ctx, now)
		s.advanceWatermark(now)
		select {
		case <-ctx.Done():
			watching.Wait()
			s.streams.Wait()
			s.mu.Lock()
			s.up = false
			s.mu.Unlock()
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// reconcile starts streams that need to be read and removes finished ones.
func (s *Source) reconcile(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selectStreams()
	var due []*stream
	for _, st := range s.all {
		switch st.poll(now, s.lastEvent(st.name.namespace)) {
		case pollForget:
			s.removeStream(st)
		case pollStart:
			due = append(due, st)
		}
	}
	slices.SortFunc(due, func(a, b *stream) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.key, b.key))
	})
	free := min(max(s.cfg.MaxStreams-s.running, 0), len(due))
	for _, st := range due[:free] {
		s.running++
		inner := st.start(ctx)
		s.streams.Go(func() { st.run(inner) })
	}
	s.reportExcess(now, due[free:])
}

// selectStreams decides which streams are wanted after a change of rules or streams.
func (s *Source) selectStreams() {
	set := s.rules.Load()
	for _, st := range s.all {
		if st.chosen && set == s.ruled {
			continue
		}
		labels := st.allLabels()
		wanted := set == nil
		for i := 0; !wanted && i < len(set.Rules); i++ {
			wanted = set.Reads(set.Rules[i], labels, false)
		}
		st.setWanted(wanted)
	}
	s.ruled = set
}

// reportExcess reports a problem if the number of streams has exceeded max_streams for
// refusedAfter. left are the streams that had to be left out.
func (s *Source) reportExcess(now time.Time, left []*stream) {
	left = slices.DeleteFunc(left, func(st *stream) bool { return st.rank() == 0 })
	if len(left) == 0 {
		s.fullSince = time.Time{}
		delete(s.problems, keyStreams)
		return
	}
	if s.fullSince.IsZero() {
		s.fullSince = now
	}
	if now.Sub(s.fullSince) >= refusedAfter {
		s.problems.set(keyStreams, "", tooMany(s.cfg.MaxStreams))
	}
}

func (s *Source) removeStream(st *stream) {
	delete(s.all, st.key)
	s.closed = addCounters(s.closed, st.totalCounters())
}

// streamFinished is called when a stream stops reading for the time being.
func (s *Source) streamFinished(c container) {
	s.mu.Lock()
	s.running--
	s.problems.clear(textKey(c), c.key())
	s.problems.clear(nodeKey(c), c.key())
	s.mu.Unlock()
	s.wakeUp()
}

// advanceWatermark publishes the low watermark of all streams.
func (s *Source) advanceWatermark(now time.Time) {
	s.mu.Lock()
	t, up, ok := s.lowWatermark(now)
	s.up = up
	s.opened = s.opened || up
	lagged := s.lagging
	if ok {
		s.lagging = matcher.BoundLagging(s.laggingStreams(now))
		s.watermark, ok = times.Later(s.watermark, t), t.After(s.watermark) || len(lagged) > 0 || len(s.lagging) > 0
	}
	t, lagged = s.watermark, s.lagging
	s.mu.Unlock()
	if ok {
		s.pipe.AdvanceWatermark(s.cfg.Name, t, lagged...)
	}
}

// laggingStreams returns the streams that cannot be read. It also returns streams that became
// readable only recently and are still behind the watermark. The caller holds mu.
func (s *Source) laggingStreams(now time.Time) []matcher.LaggingStream {
	var out []matcher.LaggingStream
	for _, st := range s.all {
		if at, bound := st.lowWatermark(now); bound == boundLag || bound == boundAt && at.Before(s.watermark) {
			out = append(out, matcher.LaggingStream{Labels: st.allLabels(), ReadUpTo: at})
		}
	}
	return out
}

// lowWatermark returns the time up to which all streams except the unreadable ones were read.
// up reports whether the source is read. ok is false if the time is unknown, or if there are
// streams but none can be read. The caller holds mu.
func (s *Source) lowWatermark(now time.Time) (t time.Time, up, ok bool) {
	t, ok = now, s.fullSince.IsZero()
	synced := true
	for _, w := range s.watchers {
		state := w.State()
		synced = synced && state.Synced
		ok = ok && state.Synced && state.Open
	}
	read, unread := 0, 0
	for _, st := range s.all {
		switch at, bound := st.lowWatermark(now); bound {
		case boundNode, boundLag:
			unread++
		case boundAt:
			if read++; !at.Before(s.watermark) {
				t = times.Earlier(t, at)
			}
		}
	}
	s.read, s.logs = read > 0 || unread == 0, read+unread
	return t, synced && !s.isBlind(), ok && !t.IsZero() && s.read
}

// isBlind reports whether problems affect more than single logs. The caller holds mu.
func (s *Source) isBlind() bool { return len(s.problems) > 0 && (!s.read || s.problems.isGeneral()) }

// lastEvent returns the time at which the API last reported on pods of a namespace.
func (s *Source) lastEvent(namespace string) time.Time {
	for _, w := range s.watchers {
		if w.namespace == "" || w.namespace == namespace {
			return w.State().LastRead
		}
	}
	return time.Time{}
}

// countLoss counts lines that were lost or may have been lost. The caller holds mu.
func (s *Source) countLoss(reason, path string, now time.Time) {
	s.errs[reason]++
	s.losses[reason] = sources.Loss{Count: s.losses[reason].Count + 1, At: now.UTC(), Path: path}
}

func (s *Source) countError(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[reason]++
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := sources.Status{
		Name: s.cfg.Name, Up: s.up && !s.isBlind(), Opened: s.opened, Error: s.problems.text(), Watermark: s.watermark,
		Logs: s.logs, Lost: maps.Clone(s.lost), Errors: maps.Clone(s.errs), Losses: maps.Clone(s.losses),
	}
	total := s.closed
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		one := s.all[key]
		total = addCounters(total, one.totalCounters())
		if line, ok := one.status(); ok {
			st.Streams = append(st.Streams, line)
		}
		u, unread := one.describeUnread()
		switch {
		case !unread:
		case len(st.Unread) < maxUnread:
			st.Unread = append(st.Unread, u)
		default:
			st.UnreadMore++
		}
	}
	st.SetCounters(total)
	if st.Up {
		st.Idle, st.IdleReason = s.whyIdle()
	}
	if lag := s.cfg.Clock().Sub(s.watermark); !s.watermark.IsZero() && lag > 2*time.Second {
		st.Lag = lag
	}
	return st
}

// whyIdle explains why no container is followed. It returns "" if a container is selected. The
// caller holds mu.
func (s *Source) whyIdle() (string, sources.IdleReason) {
	for _, st := range s.all {
		if st.wanted || !st.chosen {
			return "", ""
		}
	}
	if len(s.all) > 0 {
		return fmt.Sprintf("no active rule selects any of the %d containers", len(s.all)), sources.IdleNoRules
	}
	where := "in any namespace"
	if len(s.cfg.Namespaces) > 0 {
		where = "in the namespaces " + strings.Join(s.cfg.Namespaces, ", ")
	}
	return "the API server lists no pod " + where, sources.IdleNoLogs
}

func addCounters(a, b matcher.Counters) matcher.Counters {
	return matcher.Counters{
		Lines: a.Lines + b.Lines, Bytes: a.Bytes + b.Bytes, Evaluated: a.Evaluated + b.Evaluated,
		Dropped: a.Dropped + b.Dropped, Truncated: a.Truncated + b.Truncated, Unparsed: a.Unparsed + b.Unparsed,
	}
}
