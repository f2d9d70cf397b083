package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	tickEvery = 250 * time.Millisecond
	// openRate and openBurst limit how fast logs are opened. Without a limit, the restart of
	// an API server would cause a burst of requests.
	openRate  = 40
	openBurst = 40
	drainFor  = 5 * time.Second // time for which the log of a deleted pod is still read
	// unreachableAfter is the time for which decisions wait for a log whose node cannot be
	// reached. Without a limit, a dead node would delay some decisions forever.
	unreachableAfter = 5 * time.Minute
	refusedAfter     = 10 * time.Second // time after which it is reported that there are more logs than max_streams
)

// Source follows the logs of pods.
type Source struct {
	cfg    Config
	client *kube.Client
	opens  *rate.Limiter
	gates  gates
	rules  atomic.Pointer[rules.Set]
	wake   chan struct{} // receives a value after a change

	pipe    sources.Pipeline // set by Run
	streams sync.WaitGroup   // counts the running streams

	mu        sync.Mutex
	began     time.Time // time at which Run started
	all       map[string]*stream
	saved     map[string]position // saved positions of pods that the API has not listed yet
	watchers  []*watcher
	running   int
	ruled     *rules.Set // set of rules by which the streams were last selected
	fullSince time.Time  // time since which there are more streams than max_streams; zero if there are not
	watermark time.Time
	lagging   []matcher.LaggingStream // lagging streams in the last report to the pipeline
	read      bool                    // whether the last report counted a log as read, or there was no log
	logs      int                     // number of logs that exist
	up        bool
	opened    bool
	problems  problems
	errs      map[string]int64
	lost      map[string]int64
	losses    map[string]sources.Loss
	closed    matcher.Counters // sum of the counters of removed streams
}

var reasons = []string{
	"expired", "unauthorized", "forbidden", "not_found", "not_started", "throttled", "server", "network",
	"cut", "stall", "text", "restarts", "removed",
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg.Common = cfg.WithDefaults("kubernetes")
	cfg.LookBack = cmp.Or(cfg.LookBack, 15*time.Minute)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 200)
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

// Serves reports whether the selector can match a stream of this source. A stream has labels of its pod, whose values
// are not known in advance, and the configured labels, but no other labels.
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

func (s *Source) wakeUp() { pause.Wake(s.wake) }

// Run follows logs until ctx ends. It then waits for the requests in progress, which end immediately.
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

func (s *Source) reconcile(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selectStreams()
	var due []*stream
	for _, st := range s.all {
		start, remove := st.poll(now, s.lastEvent(st.name.namespace))
		if start {
			due = append(due, st)
		}
		if remove {
			delete(s.all, st.key)
			s.closed.Add(st.totalCounters())
		}
	}
	slices.SortFunc(due, func(a, b *stream) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.key, b.key))
	})
	free := min(max(s.cfg.MaxStreams-s.running, 0), len(due))
	for _, st := range due[:free] {
		s.running++
		inner, cancel := context.WithCancel(ctx)
		st.mu.Lock()
		st.running, st.cancel = true, cancel
		st.mu.Unlock()
		s.streams.Go(func() { st.run(inner) })
	}
	s.reportExcess(now, due[free:])
}

// selectStreams decides, after a change of the rules or the streams, which streams are read.
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
		st.mu.Lock()
		if st.wanted && !wanted && st.cancel != nil {
			st.cancel()
		}
		st.mu.Unlock()
		st.chosen, st.wanted = true, wanted
	}
	s.ruled = set
}

// reportExcess reports, after refusedAfter, the streams in left, which are not read because of max_streams.
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
		s.problems.set(keyStreams, "", fmt.Sprintf("more than %d containers match, and those beyond the limit are not read: "+
			"narrow namespaces, selector or rules, raise max_streams, or read the nodes' files with the source kubelet", s.cfg.MaxStreams))
	}
}

// advanceWatermark publishes the lowest watermark of all streams that can be read.
func (s *Source) advanceWatermark(now time.Time) {
	s.mu.Lock()
	t, up, ok := s.lowWatermark(now)
	s.up = up
	s.opened = s.opened || up
	lagged := s.lagging
	if ok {
		s.lagging = matcher.BoundLagging(s.laggingStreams(now))
		s.watermark, ok = times.Max(s.watermark, t), t.After(s.watermark) || len(lagged) > 0 || len(s.lagging) > 0
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

// lowWatermark returns the time up to which all readable streams were read, and whether the source is up. ok is false
// if the time is unknown or no stream can be read. The caller holds mu.
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
				t = times.Min(t, at)
			}
		}
	}
	s.read, s.logs = read > 0 || unread == 0, read+unread
	return t, synced && !s.isBlind(), ok && !t.IsZero() && s.read
}

// isBlind reports whether problems affect more than single logs. The caller holds mu.
func (s *Source) isBlind() bool {
	for key := range s.problems {
		if !s.read || key == keyCredentials || key == keyStreams || strings.HasPrefix(key, keyPods) {
			return true
		}
	}
	return false
}

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
	s.losses[reason] = sources.Loss{Count: s.losses[reason].Count + 1, Time: now.UTC(), Path: path}
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
		Logs: s.logs, LostBytes: maps.Clone(s.lost), Errors: maps.Clone(s.errs), Losses: maps.Clone(s.losses),
	}
	total := s.closed
	var unread []sources.UnreadLog
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		one := s.all[key]
		total.Add(one.totalCounters())
		if line, ok := one.status(); ok {
			st.Streams = append(st.Streams, line)
		}
		if u, is := one.describeUnread(); is {
			unread = append(unread, u)
		}
	}
	st.SetUnread(unread)
	st.Counters = total
	if st.Up {
		st.Idle, st.IdleReason = s.whyIdle()
	}
	if lag := s.cfg.Clock().Sub(s.watermark); !s.watermark.IsZero() && lag > 2*time.Second {
		st.Lag = lag
	}
	return st
}

// whyIdle returns the reason why no container is followed. It returns "" if one is followed. The caller holds mu.
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

func (s *Source) updatePod(p *pod) {
	name := p.name()
	if !s.cfg.selects(name.namespace, name.name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changed := s.cfg.Clock(), false
	for _, c := range p.containers() {
		st := s.all[c.key()]
		if st == nil {
			st = newStream(s, c, now)
			st.pos = s.saved[st.key]
			delete(s.saved, st.key)
			s.all[st.key] = st
			changed = true
		}
		changed = st.updateContainer(c) || changed
	}
	if changed {
		s.wakeUp()
	}
}

// unlistedPods returns the known pods of a namespace that are not in found. "" means all namespaces.
func (s *Source) unlistedPods(namespace string, found map[podName]bool) []podName {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[podName]bool{}
	check := func(name podName) {
		if (namespace == "" || namespace == name.namespace) && !found[name] {
			gone[name] = true
		}
	}
	for _, st := range s.all {
		check(st.name)
	}
	for key := range s.saved {
		name, _, _ := splitKey(key)
		check(name)
	}
	return slices.Collect(maps.Keys(gone))
}

// podGone is called when a pod was deleted, or is no longer selected.
func (s *Source) podGone(name podName, deleted bool) {
	s.mu.Lock()
	now := s.cfg.Clock()
	known := s.endStreams(name, now, deleted)
	s.mu.Unlock()
	if known && deleted {
		pod := matcher.Labels{"namespace": name.namespace, "pod": name.name}
		maps.Copy(pod, s.cfg.Labels)
		s.pipe.PodDeleted(pod, now)
		s.wakeUp()
	}
}

func (s *Source) endStreams(name podName, now time.Time, deleted bool) (known bool) {
	for _, st := range s.all {
		st.mu.Lock()
		if st.name == name && st.leftAt.IsZero() {
			st.leftAt, known = now, true
		}
		st.mu.Unlock()
	}
	for key, old := range s.saved {
		pod, container, _ := splitKey(key)
		if pod != name {
			continue
		}
		known = true
		delete(s.saved, key)
		if deleted && !old.Done {
			s.countLoss("removed", pod.namespace+"/"+pod.name+"/"+container, now)
		}
	}
	return known
}

// position records how far the log of a container was read. It changes in the same checkpoint
// as the state of the rules, and is saved.
type position struct {
	ID       string `json:"id"` // ID of the instance that is read; empty if there is none
	Restarts int    `json:"restarts,omitempty"`
	Done     bool   `json:"done,omitempty"`   // whether the instance has terminated and was read to its end
	Unread   bool   `json:"unread,omitempty"` // whether no line of the instance was read, and it is not the first instance
	logProgress
}

type savedState struct {
	Streams map[string]position     `json:"streams"` // positions; the key is container.key
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
}

func splitKey(key string) (pod podName, name string, ok bool) {
	p := strings.Split(key, "/")
	if len(p) != 4 {
		return podName{}, "", false
	}
	return podName{p[0], p[1], p[2]}, p[3], true
}

// Positions returns the state from which Restore continues. It omits logs that ended before
// the look-back period. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := savedState{Streams: maps.Clone(s.saved), Losses: s.losses}
	now := s.cfg.Clock()
	for key, st := range s.all {
		st.mu.Lock()
		old := st.pos.Done && !st.c.finished.IsZero() && st.c.finished.Before(now.Add(-s.cfg.LookBack))
		if st.pos.ID != "" && st.leftAt.IsZero() && !old {
			saved := st.pos
			saved.logProgress = st.pos.trimmed()
			out.Streams[key] = saved
		}
		st.mu.Unlock()
	}
	b, _ := json.Marshal(out) // strings, numbers and times can always be encoded
	return b
}

// Restore sets the positions before Run. It drops invalid positions, so their logs are read as if they had no position.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in savedState
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range in.Streams {
		if _, _, ok := splitKey(key); ok && p.ID != "" && min(p.Newest, p.Last, p.Floor, int64(p.AtFloor)) >= 0 {
			p.Conns = p.Conns[:min(len(p.Conns), maxConns)]
			s.saved[key] = p
		}
	}
	for reason, l := range in.Losses {
		if l.Count > 0 {
			s.losses[reason] = l
			s.errs[reason] += l.Count
		}
	}
	return nil
}
