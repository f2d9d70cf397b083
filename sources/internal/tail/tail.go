package tail

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/internal/gunzip"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/logname"
	"crowsnest/sources/internal/position"
	"crowsnest/sources/internal/turns"
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
	// largest age of the first line that is read if no position was saved; negative means no
	// limit
	LookBack time.Duration
	FromEnd  bool // whether files without times are read from their end at a first start
	Newest   bool // whether a log is read from the start of its newest file at a first start
	MaxOpen  int  // largest number of idle files that are kept open
	NoWatch  bool // whether inotify is disabled
	OneName  bool // whether files with hard links are refused
	// whether a container runtime writes the start of each line, so that none begins after a
	// hole of NUL bytes
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
	// Known is set if Find itself checks that Root is the right directory. Find then returns
	// ErrDoubt if it is not.
	Known bool
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

// ErrDoubt means that the directory exists but is not the directory of the logs. It may be an
// empty mount point.
var ErrDoubt = errors.New("not the directory of the logs")

// Stream is one log with all of its files, as a Finder returns it.
type Stream struct {
	Key   string // identity of the log across restarts; unique in the Tailer
	Dir   string // directory of the log, relative to Root
	Order func(name string) (logname.Order, bool)
	// creates the matcher's stream; called once, with the path of the newest file
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

// tree is the state of one Finder.
type tree struct {
	find          Finder
	root          *logdir.Root
	dirs          *logdir.Cache
	lister        *lister
	listed        map[string]bool // directories that Find listed in the last search
	watched       bool            // whether all of these directories are watched
	up            bool
	excessStreams int       // number of streams beyond the limit
	foundAt       time.Time // time of the last successful search; guarded by Tailer.mu
	doubted       time.Time // time at which trust in the directory was lost; zero if it is trusted
	doubts        string    // identity of the directory that is not trusted
	// refused are streams and folders that are not read, by key; guarded by Tailer.mu.
	refused map[string]refusedStream
}

// Tailer reads all streams that its finders find. A source embeds it, and thereby gets
// Positions, Restore and Status.
type Tailer struct {
	cfg Config
	*account
	trees   []*tree
	gunzips *gunzip.Pool
	queue   *turns.Queue[*follower]
	// reason why no more directories can be watched; nil if there is none or it was counted
	blind  atomic.Pointer[error]
	wake   chan struct{} // signals that the watermark may advance
	search chan struct{} // signals that a search for streams is due
	p      sources.Pipeline
	hand   hand // passes lines to the pipeline until Run returns

	mu          sync.Mutex
	followers   map[string]*follower
	restored    map[string]*restored // positions of streams that were not found yet
	saved       time.Time            // time at which the restored positions were saved
	state       bool                 // whether positions were restored
	searched    bool                 // whether a search has finished
	began       time.Time            // time at which Run started
	watermark   time.Time
	lagging     []matcher.LaggingStream  // lagging streams in the last report to the pipeline
	lags        int                      // number of lagging streams, including those that lagging summarizes in one entry
	read        bool                     // whether logs were read at the time of the last report, or no log needed to be read
	up          bool                     // whether at least one tree can be searched
	opened      bool                     // whether at least one search found every stream
	begun       bool                     // whether each stream had its first turn after that search, so that new lines are not skipped
	roots       map[string]string        // identity of each root when it was last trusted, by path
	closed      matcher.Counters         // sum of the counters of removed streams
	hangs       time.Time                // time since which the search for streams has hung; zero if it does not hang
	failedTrees map[*tree]sources.Unread // trees that cannot be searched, with the reason
	empty       map[*tree]string         // explanations why trees have no streams
}

// refusedStream is a stream that is not read, or a folder that cannot be listed.
type refusedStream struct {
	sources.Unread
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
		cfg: cfg, account: newAccount(cfg), queue: turns.New[*follower](),
		gunzips: gunzip.NewPool(workers+2, gunzip.Sizes{Keep: markSize, Block: blockSize, Slack: slack}),
		wake:    make(chan struct{}, 1), search: make(chan struct{}, 1),
		followers: map[string]*follower{}, restored: map[string]*restored{}, roots: map[string]string{},
		failedTrees: map[*tree]sources.Unread{}, empty: map[*tree]string{},
	}
	for _, f := range finders {
		t.trees = append(t.trees, &tree{
			find: f, root: &logdir.Root{Path: f.Root, Fault: cfg.fault}, dirs: logdir.NewCache(), lister: newLister(func() { signal(t.search) }), refused: map[string]refusedStream{},
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
	t.hand.open(p)
	t.mu.Lock()
	t.began = t.cfg.Clock()
	t.mu.Unlock()
	t.queue.Open()
	var wg sync.WaitGroup
	var w *logdir.Watcher
	if !t.cfg.NoWatch {
		var err error
		if w, err = logdir.NewWatcher(func() { signal(t.search) }, func(err error) { t.blind.Store(&err) }); err != nil {
			t.recordError("watch", err)
		} else if !t.cfg.deaf {
			wg.Go(w.Run)
		}
	}
	finder := &finder{t: t, w: w}
	wg.Go(func() { finder.run(ctx) })
	pool := newPool(t, &wg)
	t.coordinate(ctx, pool, finder)
	t.queue.Close()
	if w != nil {
		w.Close()
	}
	pool.wait(&finder.beat)
	t.hand.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = false
	for _, c := range t.followers {
		if !t.queue.IsHeld(c) {
			c.closeAll()
		}
	}
	for _, tr := range t.trees {
		tr.root.Close()
	}
	return nil
}

// signal wakes the receiver of c, unless a wake-up is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
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
			signal(t.search)
			n := t.pollAll()
			t.closeIdleFiles()
			pool.replaceHung(&f.beat)
			t.advanceWatermark()
			// A poll takes microseconds. With very many files, the interval grows, so that
			// polling does not take all the time.
			tick.Reset(max(t.cfg.Poll, time.Duration(n)*100*time.Microsecond))
		}
	}
}

// pollAll queues a turn of every follower and returns the number of followers.
func (t *Tailer) pollAll() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.AddAll(maps.Values(t.followers))
	return len(t.followers)
}

// pollHinted queues a turn of every follower in one of these directories. If all is set, it
// queues a turn of every follower.
func (t *Tailer) pollHinted(dirs map[string]bool, all bool) {
	if !all && len(dirs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.followers {
		if all || dirs[c.tree.root.Abs(c.found.Dir)] {
			c.hinted.Store(true)
			t.queue.Add(c)
		}
	}
}

// advanceWatermark passes the watermark to the pipeline. It is the time of the last search for
// streams, or an earlier time if a stream is further behind. Streams that cannot be read, or
// could not be read until recently, have their own watermarks.
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
			missing[tr] = &matcher.LaggingStream{Labels: tr.find.Labels, Unknown: tr.find.Unknown, ReadUpTo: found}
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
		upTo, state := c.readState(t.watermark)
		switch tr := missing[c.tree]; {
		case tr != nil:
			tr.ReadUpTo = times.Earlier(tr.ReadUpTo, upTo)
		case state == reading:
			read++
			at = times.Earlier(at, upTo)
		default:
			lagging = append(lagging, c.lagging(upTo))
			if state != blocked {
				unread++
			}
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

// isAhead reports whether the wall clock time t is in the future. The monotonic clock is
// ignored.
func isAhead(t, now time.Time) bool { return t.Round(0).After(now.Round(0)) }

// lookBackTo returns the time from which a stream without a position is read. bound is the
// time up to which the stream counts as read. The result is not later than bound, so that a
// new stream is read from its start even if it becomes readable late.
func (t *Tailer) lookBackTo(bound time.Time) time.Time {
	if t.cfg.LookBack < 0 {
		return time.Unix(0, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.cfg.Clock()
	if bound.IsZero() { // the log has not been readable since Run started
		from = times.Earlier(from, t.began)
	}
	from = from.Add(-t.cfg.LookBack).Round(0) // times in files have no monotonic clock
	for _, done := range []time.Time{t.saved, bound} {
		if done = done.Round(0); !done.IsZero() && done.Before(from) {
			from = times.Later(done, time.Unix(0, 0)) // a state file may contain any time
		}
	}
	return from
}
