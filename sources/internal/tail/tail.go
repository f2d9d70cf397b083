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
	rescanEvery     = 5 * time.Second // until the root is opened again
	workers         = 2
)

// Config sets how streams are read. The zero value of a field means its default.
type Config struct {
	Source   string           // name of the source whose watermark advances
	Clock    func() time.Time // time.Now
	Poll     time.Duration    // interval of polling every file
	LookBack time.Duration    // without a position: how old the first line may be; negative: no bound
	FromEnd  bool             // at a first start: files without times are read from their end
	Newest   bool             // at a first start: a log is read from the start of its newest file
	MaxOpen  int              // files that are held open while idle
	NoWatch  bool             // poll only
	OneName  bool             // files with hard links are refused
	Framed   bool             // a runtime frames each line: none begins behind a hole
	streams  int              // limit of streams that are read; tests set a smaller one
	deaf     bool             // tests set it to read inotify events only at each poll
	// fault, in tests, runs before a log or a directory is opened, listed or read:
	// it may block or fail that.
	fault func(op, path string) error
}

// Finder finds the streams below one directory. Below it no link is followed.
type Finder struct {
	Root string
	// Known means that Find itself checks that Root is the right directory: it
	// returns ErrDoubt if it is not.
	Known bool
	// Find returns all streams that exist now. list returns the content of a
	// directory, by its path relative to Root; "." is Root itself. If it also
	// returns an error, the streams are those found in spite of it.
	Find func(list func(dir string) ([]logdir.Entry, error)) ([]Stream, error)
	// Empty explains, after a Find that returned no stream, why there is none.
	Empty func() string
	// Labels are those that all streams below Root have, and Unknown names the labels that
	// differ. They identify what is not read while Root cannot be searched. Nil stands for
	// any stream of the source.
	Labels  matcher.Labels
	Unknown []string
}

// ErrDoubt means that the directory exists but is not the one that the logs are
// written to, such as an empty mount point.
var ErrDoubt = errors.New("not the directory of the logs")

// Stream is one log over all of its files, as a Finder sees it.
type Stream struct {
	Key   string // identity over restarts; unique in the Tailer
	Dir   string // relative to the root
	Order func(name string) (logname.Order, bool)
	New   func(path string) *matcher.Stream // called once; path is of its newest file
	// Labels returns the labels that are known before a file is read, and Unknown names
	// those that New adds. They identify the stream while it is not read.
	Labels  func() matcher.Labels
	Unknown []string
	// Refused is why the stream is not read; empty if it is. Order and New are not used then.
	Refused string
	// Failed is why Dir cannot be listed: it may have streams, whose keys begin with Key and
	// a slash. Order and New are not used then.
	Failed error
}

// tree is the state of one Finder.
type tree struct {
	find    Finder
	root    *logdir.Root
	dirs    *logdir.Cache
	lister  *lister
	listed  map[string]bool // directories that Find listed
	watched bool            // all of them are
	up      bool
	over    int       // streams beyond the bound
	foundAt time.Time // last search that succeeded; guarded by Tailer.mu
	doubted time.Time // time since which the directory has not been trusted; zero if it is
	doubts  string    // the identity of that directory
	// refused are streams and folders that are not read, by key; guarded by Tailer.mu.
	refused map[string]refusedStream
}

// Tailer reads all streams that its finders find. It is the state of a source:
// Positions, Restore and Status are the source's.
type Tailer struct {
	cfg Config
	*account
	trees   []*tree
	gunzips *gunzip.Pool
	queue   *turns.Queue[*follower]
	blind   atomic.Pointer[error] // why no more directories can be watched; nil if counted, or they can
	wake    chan struct{}         // the watermark may advance
	search  chan struct{}         // streams are to be looked for
	p       sources.Pipeline
	hand    hand // passes lines to p until Run returns

	mu        sync.Mutex
	followers map[string]*follower
	restored  map[string]*restored // positions of streams that were not found yet
	saved     time.Time            // when the restored positions were taken
	state     bool                 // positions were restored
	searched  bool                 // at least once
	began     time.Time            // start of Run
	watermark time.Time
	lagging   []matcher.LaggingStream  // lagging streams in the last report to the pipeline
	lags      int                      // streams that these stand for
	read      bool                     // a log was read then, or there was none to read
	up        bool                     // a tree can be searched
	opened    bool                     // every stream of the start was found
	begun     bool                     // and each had its first turn: a line that is written now is not skipped
	roots     map[string]string        // identity of each root when it was last trusted, by path
	closed    matcher.Counters         // counters of removed streams
	hangs     time.Time                // time since which looking for streams has hung; zero if it does not
	down      map[*tree]sources.Unread // trees that cannot be searched
	empty     map[*tree]string         // why trees without a stream have none
}

// refusedStream is a stream that is not read, or a folder that cannot be listed.
type refusedStream struct {
	sources.Unread
	matcher.LaggingStream
}

type restored struct {
	pos *position.Stream
	at  time.Time // time since which nothing was found for the stream
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
		down: map[*tree]sources.Unread{}, empty: map[*tree]string{},
	}
	for _, f := range finders {
		t.trees = append(t.trees, &tree{
			find: f, root: &logdir.Root{Path: f.Root, Fault: cfg.fault}, dirs: logdir.NewCache(), lister: newLister(func() { kick(t.search) }), refused: map[string]refusedStream{},
		})
	}
	return t
}

// Name returns the name of the source.
func (t *Tailer) Name() string { return t.cfg.Source }

// Info implements sources.Source.
func (t *Tailer) Info() sources.Info { return sources.Info{Local: true} }

// Run reads until ctx ends. The complete lines read by then are ingested; unfinished
// lines are read again after a restart. A goroutine whose read hangs is left behind: it
// ends when the read or the process ends.
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
		if w, err = logdir.NewWatcher(func() { kick(t.search) }, func(err error) { t.blind.Store(&err) }); err != nil {
			t.fail("watch", err)
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
		if !t.queue.Held(c) {
			c.closeAll()
		}
	}
	for _, tr := range t.trees {
		tr.root.Close()
	}
	return nil
}

// kick wakes the receiver of c, unless a wake-up is pending.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// coordinate starts a search for streams and a turn of each follower once per tick.
// It makes no system call on a log or its directory, so a hanging one does not stop
// it.
func (t *Tailer) coordinate(ctx context.Context, pool *pool, f *finder) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			t.advance()
		case <-tick.C:
			f.due.Store(true)
			kick(t.search)
			n := t.pollAll()
			t.closeIdleFiles()
			pool.relieve(&f.beat)
			t.advance()
			// A poll costs microseconds. Very many files are polled less often
			// rather than all the time.
			tick.Reset(max(t.cfg.Poll, time.Duration(n)*100*time.Microsecond))
		}
	}
}

// pollAll queues a turn of every follower and returns how many there are.
func (t *Tailer) pollAll() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.AddAll(maps.Values(t.followers))
	return len(t.followers)
}

// pollHinted queues a turn of the followers in these directories, or of all.
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

// advance passes the watermark to the pipeline: the time of the last search for
// streams, held back by the stream that is furthest behind. Streams that cannot be read, or
// could not until a moment ago, have watermarks of their own.
func (t *Tailer) advance() {
	now := t.cfg.Clock()
	t.mu.Lock()
	if ahead(t.watermark, now) { // the clock was set back: the watermark starts again here
		t.watermark = now
	}
	at, all := t.progress(now)
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

// progress returns the time up to which everything was read except the lagging streams. It
// is zero while no log is read although there are some. The caller holds mu.
func (t *Tailer) progress(now time.Time) (at time.Time, lagging []matcher.LaggingStream) {
	missing := map[*tree]*matcher.LaggingStream{} // what cannot be searched
	for _, tr := range t.trees {
		found := tr.foundAt
		switch _, down := t.down[tr]; {
		case down && len(t.trees) > 1:
			missing[tr] = &matcher.LaggingStream{Labels: tr.find.Labels, Unknown: tr.find.Unknown, ReadUpTo: found}
			continue
		case down, ahead(found, now):
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

// ahead reports whether t is in the future by the clock, regardless of the time that
// passed since t was measured.
func ahead(t, now time.Time) bool { return t.Round(0).After(now.Round(0)) }

// lookBackTo returns where a stream without a position starts, which was read up to bound: no
// later than that, so that a new stream is read from its start, whenever it can be read.
func (t *Tailer) lookBackTo(bound time.Time) time.Time {
	if t.cfg.LookBack < 0 {
		return time.Unix(0, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.cfg.Clock()
	if bound.IsZero() { // the log could not be read since the start
		from = times.Earlier(from, t.began)
	}
	from = from.Add(-t.cfg.LookBack).Round(0) // times in files have no other reading
	for _, done := range []time.Time{t.saved, bound} {
		if done = done.Round(0); !done.IsZero() && done.Before(from) {
			from = times.Later(done, time.Unix(0, 0)) // a state file may say anything
		}
	}
	return from
}
