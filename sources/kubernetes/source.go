package kubernetes

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/kube"
)

const (
	tickEvery = 250 * time.Millisecond
	// Logs are opened at this pace, so that a restart of the API server is not
	// followed by all at once.
	openRate  = 40
	openBurst = 40
	// drainFor is how long the log of a deleted pod is still read.
	drainFor = 5 * time.Second
	// unreachableAfter is how long a log that cannot be read because of its node
	// holds conclusions. Longer, a dead node would silence the whole cluster.
	unreachableAfter = 5 * time.Minute
	// refusedAfter is how long logs may wait for a free place until that is said.
	refusedAfter = 10 * time.Second
)

// Source follows the logs of pods.
type Source struct {
	cfg    Config
	client *kube.Client
	opens  *rate.Limiter
	gates  gates
	rules  atomic.Pointer[rules.Set]
	wake   chan struct{} // capacity 1: something changed

	pipe    sources.Pipeline // set by Run
	streams sync.WaitGroup   // running ones

	mu       sync.Mutex
	began    time.Time // of Run
	pods     map[podName][]*stream
	all      map[string]*stream
	saved    map[string]savedStream // restored, of pods that were not seen yet
	watchers []*watcher
	running  int
	ruled    *rules.Set // that the streams were last chosen by
	refused  time.Time  // since when streams wait for a place; zero: none does
	proved   time.Time
	up       bool
	opened   bool
	problems problems
	errs     map[string]int64
	lost     map[string]int64
	losses   map[string]sources.Loss
	closed   matcher.Counters // of streams that are forgotten
}

// reasons are the failures that are counted.
var reasons = []string{
	"expired", "unauthorized", "forbidden", "not_found", "not_started", "throttled", "server", "network",
	"cut", "stall", "text", "restarts", "removed",
}

// New returns a source that does nothing yet.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg:    cfg,
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
		opens:  rate.NewLimiter(openRate, openBurst),
		wake:   make(chan struct{}, 1),
		pods:   map[podName][]*stream{}, all: map[string]*stream{}, saved: map[string]savedStream{},
		problems: problems{}, errs: map[string]int64{}, lost: map[string]int64{"long_line": 0}, losses: map[string]sources.Loss{},
	}
	for _, r := range reasons {
		s.errs[r] = 0
	}
	return s
}

// Name is "kubernetes" unless the configuration has another.
func (s *Source) Name() string { return s.cfg.Name }

// Serves tells whether the selector can hold for a stream of this source: what
// pods will be there is unknown, the configured labels are known, and no stream
// has others.
func (s *Source) Serves(from rules.Selector) bool {
	for _, m := range from.Matchers() {
		if slices.Contains(own, m.Name) {
			continue
		}
		if !m.Matches(s.cfg.Labels[m.Name]) {
			return false
		}
	}
	return true
}

// UseRules has only the containers read that a rule selects.
func (s *Source) UseRules(set *rules.Set) {
	s.rules.Store(set)
	s.nudge()
}

// nudge has the streams looked at soon.
func (s *Source) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Remote marks the source as served by another process.
func (s *Source) Remote() {}

// Run follows logs until ctx ends. Then it waits for the requests under way,
// which end at once.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.client.Close()
	var watching sync.WaitGroup
	s.mu.Lock()
	s.began = s.cfg.Clock()
	s.watchers = newWatchers(s)
	for _, w := range s.watchers {
		watching.Go(func() { w.run(ctx) })
	}
	s.mu.Unlock()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		now := s.cfg.Clock()
		s.reconcile(ctx, now)
		s.prove(now)
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

// reconcile starts what has to be read and is not, ends what is gone, and
// forgets what is over.
func (s *Source) reconcile(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose()
	var due []*stream
	for _, st := range s.all {
		switch st.look(now, s.heard(st.name.namespace)) {
		case lookForget:
			s.forget(st)
		case lookStart:
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
	s.refuse(now, due[free:])
}

// choose finds the streams that a rule selects, if rules or streams are new.
func (s *Source) choose() {
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
		st.want(wanted)
	}
	s.ruled = set
}

// refuse says that streams found no place, if that lasts.
func (s *Source) refuse(now time.Time, left []*stream) {
	left = slices.DeleteFunc(left, func(st *stream) bool { return st.rank() == 0 })
	if len(left) == 0 {
		s.refused = time.Time{}
		s.problems.end("streams")
		return
	}
	if s.refused.IsZero() {
		s.refused = now
	}
	if now.Sub(s.refused) >= refusedAfter {
		s.problems.set("streams", "", tooMany(s.cfg.MaxStreams))
	}
}

// forget drops a stream of a deleted pod that is not read any more.
func (s *Source) forget(st *stream) {
	delete(s.all, st.key)
	pod := slices.DeleteFunc(s.pods[st.name], func(o *stream) bool { return o == st })
	if s.pods[st.name] = pod; len(pod) == 0 {
		delete(s.pods, st.name)
	}
	s.closed = sum(s.closed, st.total())
}

// finished is called by a stream that is not read any more for now.
func (s *Source) finished(c container) {
	s.mu.Lock()
	s.running--
	s.problems.clear(textOf(c), c.key())
	s.problems.clear(nodeOf(c), c.key())
	s.mu.Unlock()
	s.nudge()
}

// prove tells up to when everything is read: the least of all streams.
func (s *Source) prove(now time.Time) {
	t, up, ok := s.proof(now)
	s.mu.Lock()
	s.up = up
	s.opened = s.opened || up
	if ok = ok && t.After(s.proved); ok {
		s.proved = t
	}
	s.mu.Unlock()
	if ok {
		s.pipe.AdvanceWatermark(s.cfg.Name, t)
	}
}

// proof returns the time; ok is false as long as nobody can tell. up is whether
// all that should be read is being read. Where no node can be reached, or only
// for a short time, conclusions wait; a dead node among others does not keep them
// waiting.
func (s *Source) proof(now time.Time) (t time.Time, up, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok = now, s.refused.IsZero()
	synced := true
	for _, w := range s.watchers {
		synced = synced && w.synced
		ok = ok && w.synced && w.open
	}
	read, unread := 0, 0
	for _, st := range s.all {
		switch at, bound := st.proof(now); bound {
		case boundNode:
			unread++
		case boundAt:
			read++
			if at.Before(t) {
				t = at
			}
		}
	}
	return t, synced && s.problems.none(), ok && !t.IsZero() && (read > 0 || unread == 0)
}

// heard is when the API last said something about pods of a namespace.
func (s *Source) heard(namespace string) time.Time {
	for _, w := range s.watchers {
		if w.namespace == "" || w.namespace == namespace {
			return w.heard
		}
	}
	return time.Time{}
}

// miss counts that lines were lost, or may have been. The caller holds mu.
func (s *Source) miss(reason, path string, now time.Time) {
	s.errs[reason]++
	s.losses[reason] = sources.Loss{Count: s.losses[reason].Count + 1, At: now.UTC(), Path: path}
}

// count counts a failure.
func (s *Source) count(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[reason]++
}

// Status is safe for concurrent use.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := sources.Status{
		Name: s.cfg.Name, Up: s.up && s.problems.none(), Opened: s.opened, Error: s.problems.text(), Watermark: s.proved,
		Lost: maps.Clone(s.lost), Errors: maps.Clone(s.errs), Losses: maps.Clone(s.losses),
	}
	total := s.closed
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		one := s.all[key]
		total = sum(total, one.total())
		if line, ok := one.status(); ok {
			st.Streams = append(st.Streams, line)
		}
	}
	st.Count(total)
	if lag := s.cfg.Clock().Sub(s.proved); !s.proved.IsZero() && lag > 2*time.Second {
		st.Lag = lag
	}
	return st
}

func sum(a, b matcher.Counters) matcher.Counters {
	return matcher.Counters{
		Lines: a.Lines + b.Lines, Bytes: a.Bytes + b.Bytes, Evaluated: a.Evaluated + b.Evaluated,
		Dropped: a.Dropped + b.Dropped, Truncated: a.Truncated + b.Truncated, Unparsed: a.Unparsed + b.Unparsed,
	}
}

// jitter spreads a wait by a fifth.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// sleep waits, and returns early when ctx ends or something comes.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}
