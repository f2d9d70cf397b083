package tail

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

// Defaults of Config.
const (
	DefaultPoll     = 300 * time.Millisecond
	DefaultRescan   = 5 * time.Second
	DefaultLookBack = 15 * time.Minute
	DefaultWorkers  = 2
	DefaultMaxOpen  = 1024
)

// Config sets how streams are read. The zero value of a field means its default.
type Config struct {
	Source   string           // name of the source whose watermark advances
	Clock    func() time.Time // time.Now
	Poll     time.Duration    // interval of polling every file
	Rescan   time.Duration    // interval of opening the root again
	LookBack time.Duration    // without a position: how old the first line may be; negative: no bound
	FromEnd  bool             // at a first start: files without times are read from their end
	Workers  int
	MaxOpen  int  // files that are held open while idle
	NoWatch  bool // poll only
	OneName  bool // files with hard links are refused
	Framed   bool // a runtime frames each line: none begins behind a hole
	streams  int  // that are read at most; tests set a smaller bound
	deaf     bool // in tests: inotify events are read only at each poll
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
	Find func(list func(dir string) ([]Entry, error)) ([]Stream, error)
}

// ErrDoubt means that the directory exists but is not the one that the logs are
// written to, such as an empty mount point.
var ErrDoubt = errors.New("not the directory of the logs")

// Stream is one log over all of its files, as a Finder sees it.
type Stream struct {
	Key   string // identity over restarts; unique in the Tailer
	Dir   string // relative to the root
	Order func(name string) (Order, bool)
	New   func(path string) *matcher.Stream // called once; path is of its newest file
	// Refused is why the stream is not read; "": it is. Only Key and Dir are looked
	// at then.
	Refused string
}

// tree is the state of one Finder.
type tree struct {
	find    Finder
	root    *root
	dirs    *dirs
	listed  map[string]bool // directories that Find listed
	watched bool            // all of them are
	up      bool
	over    int       // streams beyond the bound
	doubted time.Time // since when what is there is not believed; zero: it is
	doubts  string    // the identity of that directory
}

// Tailer reads all streams that its finders find. It is the state of a source:
// Positions, Restore and Status are the source's.
type Tailer struct {
	cfg      Config
	trees    []*tree
	gunzips  *gunzips
	queue    *queue
	files    atomic.Int64          // descriptors of log files
	outOfFDs atomic.Bool           // the process ran out of descriptors
	blind    atomic.Pointer[error] // why no more directories can be watched; nil: said, or they can
	wake     chan struct{}         // the watermark may advance
	search   chan struct{}         // streams are to be looked for
	p        sources.Pipeline
	hand     hand // p for who may be left behind at the end

	mu        sync.Mutex
	followers map[string]*follower
	restored  map[string]*restored // positions of streams that were not found yet
	saved     time.Time            // when the restored positions were taken
	state     bool                 // positions were restored
	started   bool                 // every stream of the start was found
	searched  bool                 // at least once
	began     time.Time            // of Run
	watermark time.Time
	foundAt   time.Time // when the streams were last looked for, all trees
	up        bool
	opened    bool // every stream of the start was found
	begun     bool // and each had its first turn: a line that is written now is not skipped
	lastErr   string
	roots     map[string]string // identity of each root that was believed last, by path
	lost      map[string]int64
	errs      map[string]int64
	losses    map[string]sources.Loss
	closed    matcher.Counters // of removed streams
	hangs     time.Time        // since when looking for streams does not end; zero: it does
	exhaust   exhaustion
	down      map[*tree]sources.Unread  // trees that cannot be searched
	refused   map[string]sources.Unread // streams that are refused, by key
}

type restored struct {
	pos *position
	at  time.Time // since when nothing was found for it
}

// New returns a Tailer that reads nothing yet.
func New(cfg Config, finders ...Finder) *Tailer {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Poll = or(cfg.Poll, DefaultPoll)
	cfg.Rescan = or(cfg.Rescan, DefaultRescan)
	cfg.LookBack = or(cfg.LookBack, DefaultLookBack)
	cfg.Workers = or(cfg.Workers, DefaultWorkers)
	cfg.MaxOpen = or(cfg.MaxOpen, DefaultMaxOpen)
	cfg.streams = or(cfg.streams, maxStreams)
	t := &Tailer{
		cfg: cfg, gunzips: newGunzips(cfg.Workers + 2), queue: newQueue(),
		wake: make(chan struct{}, 1), search: make(chan struct{}, 1),
		followers: map[string]*follower{}, restored: map[string]*restored{},
		lost: map[string]int64{"deleted": 0, "long_line": 0, "nul": 0},
		errs: map[string]int64{
			lossDeleted: 0, lossGap: 0, lossGzip: 0, lossRemoved: 0, lossTruncated: 0, lossUnreadable: 0,
			"descriptors": 0, "hung": 0, "list": 0, "open": 0, "read": 0, "refused": 0, "watch": 0,
		},
		losses: map[string]sources.Loss{}, roots: map[string]string{},
		refused: map[string]sources.Unread{}, down: map[*tree]sources.Unread{},
	}
	for _, f := range finders {
		r := newRoot(f.Root)
		r.fault = cfg.fault
		t.trees = append(t.trees, &tree{find: f, root: r, dirs: newDirs()})
	}
	return t
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Run reads until ctx ends. What was read by then is taken; a line without its
// end and parts without their last one are not: they are read again. A goroutine
// that a read hangs in is left behind: nothing but the end of the process, or of
// the read, ends it.
func (t *Tailer) Run(ctx context.Context, p sources.Pipeline) error {
	t.p = p
	t.hand.open(p)
	t.mu.Lock()
	t.began = t.cfg.Clock()
	t.mu.Unlock()
	t.queue.open()
	var wg sync.WaitGroup
	hints := newHints(func() { kick(t.search) })
	var w *watcher
	if !t.cfg.NoWatch {
		var err error
		if w, err = newWatcher(hints.add, func(err error) { t.blind.Store(&err) }); err != nil {
			t.fail("watch", err)
		} else if !t.cfg.deaf {
			wg.Go(w.run)
		}
	}
	finder := &finder{t: t, w: w, hints: hints}
	wg.Go(func() { finder.run(ctx) })
	pool := newPool(t, &wg)
	t.coordinate(ctx, pool, finder)
	t.queue.close()
	if w != nil {
		w.close()
	}
	pool.wait(&finder.beat)
	t.hand.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = false
	for _, c := range t.followers {
		if !t.queue.held(c) {
			c.closeAll()
		}
	}
	for _, tr := range t.trees {
		tr.root.close()
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
			n := t.lookAtAll()
			t.closeIdleFiles()
			pool.relieve(&f.beat)
			t.advance()
			// A look costs microseconds. Very many files are looked at less
			// often rather than all the time.
			tick.Reset(max(t.cfg.Poll, time.Duration(n)*100*time.Microsecond))
		}
	}
}

// lookAtAll queues a turn of every follower and returns how many there are.
func (t *Tailer) lookAtAll() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.addAll(t.followers)
	return len(t.followers)
}

// lookHere queues a turn of the followers in these directories, or of all.
func (t *Tailer) lookHere(dirs map[string]bool, all bool) {
	if !all && len(dirs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.followers {
		if all || dirs[c.tree.root.abs(c.found.Dir)] {
			c.hinted.Store(true)
			t.queue.add(c)
		}
	}
}

// advance passes the watermark to the pipeline: the time of the last search for
// streams, held back by the stream that is furthest behind.
func (t *Tailer) advance() {
	now := t.cfg.Clock()
	t.mu.Lock()
	if ahead(t.watermark, now) { // the clock was set back: the watermark starts again here
		t.watermark = now
	}
	at := t.foundAt
	if !t.up || ahead(at, now) {
		at = time.Time{}
	}
	for _, c := range t.followers {
		if b := c.readUpTo(); b.Before(at) {
			at = b
		}
	}
	ok := at.After(t.watermark)
	if ok {
		t.watermark = at
	}
	t.mu.Unlock()
	if ok {
		t.p.AdvanceWatermark(t.cfg.Source, at)
	}
}

// ahead reports whether t is in the future by the clock, regardless of the time that
// passed since t was measured.
func ahead(t, now time.Time) bool { return t.Round(0).After(now.Round(0)) }

// lookBackTo returns where a stream without a position starts: no later than the
// watermark, so that a new stream is read from its start.
func (t *Tailer) lookBackTo() time.Time {
	if t.cfg.LookBack < 0 {
		return time.Unix(0, 0)
	}
	from := t.cfg.Clock().Add(-t.cfg.LookBack).Round(0) // times in files have no other reading
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range []time.Time{t.saved, t.watermark} {
		if done = done.Round(0); !done.IsZero() && done.Before(from) {
			from = later(done, time.Unix(0, 0)) // a state file may say anything
		}
	}
	return from
}
