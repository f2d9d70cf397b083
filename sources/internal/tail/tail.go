package tail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/internal/gunzip"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/logname"
	"crowsnest/sources/internal/position"
)

const (
	defaultPoll     = 300 * time.Millisecond
	defaultLookBack = 15 * time.Minute
	defaultMaxOpen  = 1024
	rescanEvery     = 5 * time.Second // interval at which the root directory is opened again
	workers         = 2
)

// Config sets how streams are read. The zero value of a field means its default.
type Config struct {
	Source string           // name of the source
	Clock  func() time.Time // default: time.Now
	Poll   time.Duration    // interval at which every file is polled
	// LookBack is the largest age of the first line that is read if no position was saved.
	// Negative means no limit.
	LookBack time.Duration
	FromEnd  bool // whether files without times are read from their end at a first start
	Newest   bool // whether a log is read from the start of its newest file at a first start
	MaxOpen  int  // largest number of idle files that are kept open
	NoWatch  bool // whether inotify is disabled
	OneName  bool // whether files with hard links are refused
	// Framed is set if a container runtime writes the start of each line. No line then begins
	// after a hole of NUL bytes.
	Framed  bool
	streams int  // largest number of streams; tests set a smaller one
	deaf    bool // whether inotify events are read only at each poll; set by tests
	// fault is set by tests. It runs before a log or a directory is opened, listed or read, and
	// may block the operation or make it fail.
	fault func(op, path string) error
}

// Finder finds the streams below one directory. It follows no links below this directory.
type Finder struct {
	Root string
	// ChecksRoot is set if Find itself checks that Root is the right directory. Find then returns
	// ErrDoubt if it is not.
	ChecksRoot bool
	// Find returns all streams that exist now. list returns the content of a directory, whose
	// path is relative to Root ("." is Root itself). If Find also returns an error, it may
	// have missed streams.
	Find func(list func(dir string) ([]logdir.Entry, error)) ([]Stream, error)
	// Empty explains why the last Find returned no stream.
	Empty func() string
	// Labels are the labels that all streams below Root share. Unknown names the labels that
	// differ. Together they describe the streams that are not read while Root cannot be
	// searched. If Labels is nil, any stream of the source may be affected.
	Labels  matcher.Labels
	Unknown []string
}

// ErrDoubt means that the directory exists but is probably not the directory of the logs. It may be an empty mount
// point.
var ErrDoubt = errors.New("it is probably not the directory of the logs")

// Stream is one log with all of its files, as a Finder returns it.
type Stream struct {
	Key   string // identity of the log across restarts; unique in the Tailer
	Dir   string // directory of the log, relative to Root
	Order func(name string) (logname.Order, bool)
	// New creates the matcher's stream. It is called once, with the path of the newest file.
	New func(path string) *matcher.Stream
	// Labels returns the labels that are known before a file is read. Unknown names the labels
	// that New adds. Both describe the stream while it is not read.
	Labels  func() matcher.Labels
	Unknown []string
	// Refused is the reason why the stream is not read, or empty if it is read. Order and New
	// are not used for a refused stream.
	Refused string
	// Failed is the reason why Dir cannot be listed. Dir may contain streams whose keys begin
	// with Key and a slash. Order and New are not used in this case.
	Failed error
}

type tree struct {
	find          Finder
	root          *logdir.Root
	dirs          *logdir.Cache
	lister        *lister
	listed        map[string]bool // directories that Find listed in the last search
	watched       bool            // whether all directories in listed are watched
	up            bool
	excessStreams int                      // number of streams beyond the limit
	foundAt       time.Time                // time of the last successful search; guarded by Tailer.mu
	doubted       time.Time                // time at which trust in the directory was lost; zero if it is trusted
	doubts        string                   // identity of the directory that is not trusted
	refused       map[string]refusedStream // unread streams and folders, guarded by Tailer.mu; the key is a stream key
}

// Tailer reads all streams that its finders find. A source embeds it, and thereby gets
// Positions, Restore and Status.
type Tailer struct {
	cfg Config
	*account
	trees   []*tree
	gunzips *gunzip.Pool
	queue   *queue
	// watchLimit is the reason why no more directories can be watched. It is nil if there is no such reason or the
	// reason was counted.
	watchLimit atomic.Pointer[error]
	wake       chan struct{} // signals that the watermark may advance
	search     chan struct{} // signals that a search for streams is due
	p          sources.Pipeline
	pipeline   pipelineGuard // passes lines to the pipeline until Run returns

	mu          sync.Mutex
	followers   map[string]*follower
	restored    map[string]*restored // positions of streams that were not found yet
	saved       time.Time            // time at which the restored positions were saved
	state       bool                 // whether positions were restored
	searched    bool                 // whether a search has finished
	began       time.Time            // time at which Run started
	watermark   time.Time
	lagging     []matcher.LaggingStream     // lagging streams in the last report to the pipeline
	lags        int                         // number of lagging streams, including those that share an entry of lagging
	read        bool                        // whether the last report counted a log as read, or there was no log
	up          bool                        // whether at least one tree can be searched
	opened      bool                        // whether at least one search found every stream
	begun       bool                        // whether each stream had its first turn after the search that set opened
	roots       map[string]string           // identity of each root when it was last trusted; the key is the path
	closed      matcher.Counters            // sum of the counters of removed streams
	hungSince   time.Time                   // time since which the search for streams has hung; zero if it does not hang
	failedTrees map[*tree]sources.UnreadLog // trees that cannot be searched, with the reason
	empty       map[*tree]string            // explanations why trees have no streams
}

// refusedStream is a stream that is not read, or a folder that cannot be listed.
type refusedStream struct {
	sources.UnreadLog
	matcher.LaggingStream
}

type restored struct {
	pos *position.Stream
	at  time.Time // time at which the stream was first found without files; zero if it was not
}

// New returns a Tailer that reads nothing yet.
func New(cfg Config, finders ...Finder) *Tailer {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.LookBack = cmp.Or(cfg.LookBack, defaultLookBack)
	cfg.MaxOpen = cmp.Or(cfg.MaxOpen, defaultMaxOpen)
	cfg.streams = cmp.Or(cfg.streams, maxStreams)
	t := &Tailer{
		// The queue also has room for followers that are removed while they wait for a decompressor.
		cfg: cfg, account: newAccount(cfg), queue: newQueue(2 * cfg.streams),
		gunzips: gunzip.NewPool(workers+2, gunzip.Sizes{Keep: markSize, Block: blockSize, Slack: slack}),
		wake:    make(chan struct{}, 1), search: make(chan struct{}, 1),
		followers: map[string]*follower{}, restored: map[string]*restored{}, roots: map[string]string{},
		failedTrees: map[*tree]sources.UnreadLog{}, empty: map[*tree]string{},
	}
	for _, f := range finders {
		t.trees = append(t.trees, &tree{
			find: f, root: &logdir.Root{Path: f.Root, Fault: cfg.fault}, dirs: logdir.NewCache(), refused: map[string]refusedStream{},
			lister: &lister{onReturn: func() { pause.Wake(t.search) }, hung: map[string]bool{}},
		})
	}
	return t
}

// Name returns the name of the source.
func (t *Tailer) Name() string { return t.cfg.Source }

// Info implements sources.Source.
func (t *Tailer) Info() sources.Info { return sources.Info{Local: true} }

// Run reads until ctx ends. Complete lines that were read by then are ingested. Unfinished
// lines are read again after a restart. A goroutine whose read hangs is abandoned, and ends
// when the read returns.
func (t *Tailer) Run(ctx context.Context, p sources.Pipeline) error {
	t.p = p
	t.pipeline.open(p)
	t.mu.Lock()
	t.began = t.cfg.Clock()
	t.mu.Unlock()
	var wg sync.WaitGroup
	var w *logdir.Watcher
	if !t.cfg.NoWatch {
		var err error
		if w, err = logdir.NewWatcher(func() { pause.Wake(t.search) }, func(err error) { t.watchLimit.Store(&err) }); err != nil {
			t.recordError("watch", err)
		} else if !t.cfg.deaf {
			wg.Go(w.Run)
		}
	}
	finder := &finder{t: t, w: w}
	wg.Go(func() { finder.run(ctx) })
	pool := &pool{t: t, wg: &wg, all: map[*worker]bool{}}
	pool.addWorkers(ctx, workers)
	t.coordinate(ctx, pool, finder)
	if w != nil {
		w.Close()
	}
	pool.wait(&finder.beat)
	t.pipeline.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = false
	for _, c := range t.followers {
		if c.turn.Load() < turnRunning { // no hung worker has it
			c.closeAll()
		}
	}
	for _, tr := range t.trees {
		tr.root.Close()
	}
	return nil
}

// coordinate starts a search for streams and a turn of each follower once per tick. It makes
// no system calls on logs or directories, because such a call may hang.
func (t *Tailer) coordinate(ctx context.Context, pool *pool, f *finder) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			t.advanceWatermark()
		case <-tick.C:
			f.due.Store(true)
			pause.Wake(t.search)
			n := t.queueAll(f.beat.isHung(hungTicks))
			t.closeIdleFiles()
			pool.replaceHung(ctx)
			t.advanceWatermark()
			// A poll takes microseconds. With very many files, the interval grows, so that
			// polling does not take all the time.
			tick.Reset(max(t.cfg.Poll, time.Duration(n)*100*time.Microsecond))
		}
	}
}

// queueAll queues a turn of every follower and returns the number of followers. It also
// records whether the search for streams hangs.
func (t *Tailer) queueAll(searchHangs bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !searchHangs {
		t.hungSince = time.Time{}
	} else if t.hungSince.IsZero() {
		t.hungSince = t.cfg.Clock()
	}
	for _, c := range t.followers {
		t.queue.add(c)
	}
	return len(t.followers)
}

// advanceWatermark passes the watermark to the pipeline. The watermark is the time of the last
// search for streams, or an earlier time if a stream is further behind. Streams that cannot be
// read, or could not be read until recently, have their own watermarks.
func (t *Tailer) advanceWatermark() {
	now := t.cfg.Clock()
	t.mu.Lock()
	if isAhead(t.watermark, now) { // the clock was set back, so the watermark starts again at the present
		t.watermark = now
	}
	at, all := t.readProgress(now)
	lagging := matcher.BoundLagging(all)
	ok := at.After(t.watermark) || (len(lagging) > 0 || len(t.lagging) > 0) && !t.watermark.IsZero()
	if at.After(t.watermark) {
		t.watermark = at
	}
	at, t.lagging, t.lags = t.watermark, lagging, len(all)
	t.mu.Unlock()
	if ok {
		t.p.AdvanceWatermark(t.cfg.Source, at, lagging...)
	}
}

// readProgress returns the time up to which everything except the lagging streams was read.
// The time is zero if there are logs but none of them can be read. The caller holds mu.
func (t *Tailer) readProgress(now time.Time) (at time.Time, lagging []matcher.LaggingStream) {
	missing := map[*tree]*matcher.LaggingStream{} // lagging streams of the trees that cannot be searched
	for _, tr := range t.trees {
		found := tr.foundAt
		switch _, down := t.failedTrees[tr]; {
		case down && len(t.trees) > 1:
			missing[tr] = &matcher.LaggingStream{Labels: tr.find.Labels, UnknownLabels: tr.find.Unknown, ReadUpTo: found}
			continue
		case down, isAhead(found, now):
			found = time.Time{}
		}
		if at.IsZero() || found.Before(at) {
			at = found
		}
		if found.IsZero() {
			return at, t.lagging
		}
	}
	read, unread := 0, 0
	for _, c := range t.followers {
		c.mu.Lock()
		upTo, stalled, blocked := c.bound, !c.stalled.since.IsZero(), c.blocked
		c.mu.Unlock()
		switch tr := missing[c.tree]; {
		case tr != nil:
			tr.ReadUpTo = times.Min(tr.ReadUpTo, upTo)
		// A stream whose upTo is early could not be read for a while.
		case stalled || blocked || upTo.Before(t.watermark):
			lagging = append(lagging, c.lagging(upTo))
			if stalled || !blocked {
				unread++
			}
		default:
			read++
			at = times.Min(at, upTo)
		}
	}
	if t.read = read > 0 || unread == 0; !t.read {
		at = time.Time{}
	}
	for _, l := range missing {
		lagging = append(lagging, *l)
	}
	for r := range t.refusedStreams {
		lagging = append(lagging, r.LaggingStream)
	}
	return at, lagging
}

// isAhead reports whether the wall clock time t is in the future.
func isAhead(t, now time.Time) bool { return t.Round(0).After(now.Round(0)) }

// lookBackTo returns the time from which on a stream without a position is read. The time is
// not later than bound, up to which the stream counts as read, so that a new stream is read
// from its start.
func (t *Tailer) lookBackTo(bound time.Time) time.Time {
	if t.cfg.LookBack < 0 {
		return time.Unix(0, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.cfg.Clock()
	if bound.IsZero() { // the log has not been readable since Run started
		from = times.Min(from, t.began)
	}
	from = from.Add(-t.cfg.LookBack).Round(0) // times in files have no monotonic clock
	for _, done := range []time.Time{t.saved, bound} {
		if done = done.Round(0); !done.IsZero() && done.Before(from) {
			from = times.Max(done, time.Unix(0, 0)) // a state file may contain any time
		}
	}
	return from
}

const maxStreams = position.MaxStreams // largest number of streams that are read

// Positions returns the state from which Restore continues after the ingested lines. The caller
// holds the checkpoint lock, so no line is ingested during the call.
func (t *Tailer) Positions() json.RawMessage {
	var s sources.Status
	t.fillStatus(&s)
	t.mu.Lock()
	defer t.mu.Unlock()
	set := position.Set{ReadUpTo: t.readUpTo(), Losses: s.Losses, Roots: t.roots}
	return set.Encode(func(yield func(key string, s *position.Stream) bool) {
		for key, c := range t.followers {
			c.mu.Lock()
			saved := c.saved // the value is only replaced, never changed
			c.mu.Unlock()
			if !yield(key, saved) {
				return
			}
		}
		for key, r := range t.restored {
			if !yield(key, r.pos) {
				return
			}
		}
	}, len(t.followers)+len(t.restored))
}

// readUpTo returns the time from which on a stream without a saved position is read.
func (t *Tailer) readUpTo() time.Time {
	switch {
	case !t.watermark.IsZero():
		return t.allReadTo().UTC()
	case t.state:
		return t.saved.UTC()
	}
	return t.cfg.Clock().UTC()
}

// allReadTo returns the watermark, or an earlier time if a stream without a position cannot be
// read, and was read only up to that time. The caller holds mu.
func (t *Tailer) allReadTo() time.Time {
	at := t.watermark
	earliest := func(upTo time.Time) {
		if upTo.IsZero() {
			upTo = t.began.Add(-max(t.cfg.LookBack, 0))
		}
		at = times.Min(at, upTo)
	}
	for _, c := range t.followers {
		c.mu.Lock()
		if c.saved == nil {
			earliest(c.bound)
		}
		c.mu.Unlock()
	}
	for r := range t.refusedStreams {
		if r.Holds {
			earliest(r.ReadUpTo)
		}
	}
	return at
}

// Restore sets the positions from which to continue. It must be called before Run.
func (t *Tailer) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	p, err := position.Decode(b)
	if err != nil {
		return fmt.Errorf("restore positions: %w", err)
	}
	now := t.cfg.Clock()
	t.restoreLosses(p.Losses, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.state = p.ReadUpTo, true
	if t.saved.After(now) {
		t.saved = now // the clock was set back, so the saved time is in the future
	}
	for key, pos := range p.Streams {
		t.restored[key] = &restored{pos: pos}
	}
	for _, tr := range t.trees {
		if id := p.Roots[tr.root.Path]; id != "" {
			t.roots[tr.root.Path] = id
		}
	}
	return nil
}

// Status returns the state of the source.
func (t *Tailer) Status() sources.Status {
	now := t.cfg.Clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := sources.Status{Name: t.cfg.Source, Up: t.up, Watermark: t.watermark}
	s.SetUnread(t.listUnread(now))
	t.fillStatus(&s)
	if !t.read && t.lags > 0 {
		s.Error = fmt.Sprintf("none of the logs (%d) is read", len(t.followers))
		if len(s.Unread) > 0 {
			s.Error += ", such as " + s.Unread[0].Path + ": " + s.Unread[0].Reason
		}
	} else if i := slices.IndexFunc(t.lagging, func(l matcher.LaggingStream) bool { return l.Labels == nil }); i >= 0 && t.lags > matcher.MaxLagging {
		s.Error = fmt.Sprintf("%d logs of more than %d namespaces are not read, so crowsnest decides nothing from the absence of lines", t.lags, matcher.MaxLagging)
		s.Watermark = times.Min(s.Watermark, t.lagging[i].ReadUpTo)
	}
	s.Logs = len(t.followers)
	for _, tr := range t.trees {
		s.Logs += len(tr.refused)
	}
	total := t.closed
	begun := t.opened
	for _, c := range t.followers {
		c.mu.Lock()
		begun = begun && (c.begun.Load() || !c.stalled.since.IsZero())
		v := c.view
		v.Lines = c.counters.Lines
		total.Add(c.counters)
		if c.bound.Before(c.tree.foundAt) && c.stalled.since.IsZero() && !c.blocked {
			s.Lag = max(s.Lag, now.Sub(times.Max(c.bound, t.began)))
		}
		c.mu.Unlock()
		s.Streams = append(s.Streams, v)
	}
	t.begun = t.begun || begun
	s.Opened = t.begun
	if !t.up && t.opened {
		s.Lag = max(s.Lag, now.Sub(times.Max(t.watermark, t.began)))
	}
	slices.SortFunc(s.Streams, func(a, b sources.StreamStatus) int { return cmp.Compare(a.Path, b.Path) })
	s.Counters = total
	s.Idle = t.whyEmpty()
	if s.Idle != "" {
		s.IdleReason = sources.IdleNoLogs
	}
	return s
}

// whyEmpty explains why no log is followed, although a tree can be searched. The caller holds
// mu.
func (t *Tailer) whyEmpty() string {
	if !t.up || len(t.followers) > 0 {
		return ""
	}
	var why []string
	for _, tr := range t.trees {
		if text := t.empty[tr]; text != "" {
			why = append(why, text)
		}
	}
	return strings.Join(why, "; ")
}

// listUnread lists the logs that exist but are not read, ordered by path. The caller holds mu.
func (t *Tailer) listUnread(now time.Time) []sources.UnreadLog {
	out := t.unreadForShortage(now)
	if !t.hungSince.IsZero() {
		for _, tr := range t.trees {
			out = append(out, sources.UnreadLog{Path: tr.root.Path, Reason: "searching its folders hangs", Since: t.hungSince, Holds: true})
		}
	}
	for _, u := range t.failedTrees {
		out = append(out, u)
	}
	for _, c := range t.followers {
		for _, u := range c.listUnread() {
			u.Name = c.found.name()
			out = append(out, u)
		}
	}
	for r := range t.refusedStreams {
		out = append(out, r.UnreadLog)
	}
	slices.SortFunc(out, func(a, b sources.UnreadLog) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// refusedStreams yields the streams and folders that must not or cannot be read. The caller
// holds mu.
func (t *Tailer) refusedStreams(yield func(refusedStream) bool) {
	for _, tr := range t.trees {
		for _, r := range tr.refused {
			if !yield(r) {
				return
			}
		}
	}
}

// recordRefused records an unread stream of a tree. The caller holds mu.
func (t *Tailer) recordRefused(tr *tree, s Stream) {
	if _, known := tr.refused[s.Key]; known || len(tr.refused) >= t.cfg.streams {
		return
	}
	u := sources.UnreadLog{Path: tr.root.Abs(s.Dir), Reason: s.Refused, Since: t.cfg.Clock()}
	if s.Failed != nil {
		u.Reason, u.Holds = s.Failed.Error(), true
		t.recordError("list", s.Failed)
	} else {
		t.countError("refused")
	}
	u.Name = s.name()
	tr.refused[s.Key] = refusedStream{u, s.lagging(times.Min(t.watermark, tr.foundAt))}
}

// closeIdleFiles requests the closing of files if too many are open. It selects the files that
// have not been read for the longest time.
func (t *Tailer) closeIdleFiles() {
	n := t.files.Load()
	excess := n - t.maxOpen
	if t.outOfFDs.Swap(false) {
		excess = max(excess, n/2)
	}
	if excess <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	type idle struct {
		c  *follower
		at time.Time
	}
	var all []idle
	for _, c := range t.followers {
		c.mu.Lock()
		if c.pinned {
			all = append(all, idle{c, c.view.LastRead})
		}
		c.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b idle) int { return a.at.Compare(b.at) })
	for _, i := range all[:min(int(excess), len(all))] {
		i.c.closeIdle.Store(true)
		t.queue.add(i.c)
	}
}
