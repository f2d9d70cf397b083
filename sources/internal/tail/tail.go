package tail

import (
	"context"
	"maps"
	"slices"
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

// Config says how streams are read. The zero value of a field means its
// default.
type Config struct {
	Source   string           // name that proof of reading is given under
	Clock    func() time.Time // time.Now
	Poll     time.Duration    // how often every file is looked at
	Rescan   time.Duration    // how often the root is looked up anew
	LookBack time.Duration    // without a position: how old the first line may be; negative: no bound
	FromEnd  bool             // at a first start: files without times are read from their end
	Workers  int
	MaxOpen  int  // files that are held open while idle
	NoWatch  bool // poll only
	deaf     bool // in tests: what the kernel says is asked for at each poll, and only then
}

// Finder finds the streams below one directory. Below it no link is followed.
type Finder struct {
	Root string
	// Find returns all streams that are there now. list returns what is in a
	// directory, by its path relative to Root; "." is Root itself.
	Find func(list func(dir string) ([]Entry, error)) ([]Stream, error)
}

// Stream is one log over all of its files, as a Finder sees it.
type Stream struct {
	Key   string // identity over restarts; unique in the Tailer
	Dir   string // relative to the root
	Order func(name string) (Order, bool)
	New   func(path string) *matcher.Stream // called once; path is of its newest file
}

// tree is the state of one Finder.
type tree struct {
	find    Finder
	root    *root
	dirs    *dirs
	listed  map[string]bool // directories that Find listed
	watched bool            // all of them are
	up      bool
}

// Tailer reads all streams that its finders find. It is the state of a source:
// Positions, Restore and Status are the source's.
type Tailer struct {
	cfg      Config
	trees    []*tree
	gunzips  *gunzips
	queue    *queue
	files    atomic.Int64          // descriptors of log files
	parkMany atomic.Bool           // the process ran out of descriptors
	blind    atomic.Pointer[error] // why no more directories can be watched; nil: said, or they can
	wake     chan struct{}
	p        sources.Pipeline

	mu       sync.Mutex
	chains   map[string]*chain
	restored map[string]*restored // positions of streams that were not found yet
	saved    time.Time            // when the restored positions were taken
	state    bool                 // positions were restored
	started  bool                 // every stream of the start was found
	began    time.Time            // of Run
	proved   time.Time
	foundAt  time.Time // when the streams were last looked for, all trees
	up       bool
	opened   bool // every stream of the start was found
	begun    bool // and each had its first turn: a line that is written now is not skipped
	lastErr  string
	lost     map[string]int64
	errs     map[string]int64
	losses   map[string]sources.Loss
	closed   matcher.Counters // of streams that are gone
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
	t := &Tailer{
		cfg: cfg, gunzips: newGunzips(cfg.Workers + 2), queue: newQueue(), wake: make(chan struct{}, 1),
		chains: map[string]*chain{}, restored: map[string]*restored{},
		lost: map[string]int64{"deleted": 0, "long_line": 0, "nul": 0},
		errs: map[string]int64{
			lossDeleted: 0, lossGap: 0, lossGzip: 0, lossRemoved: 0, lossTruncated: 0,
			"list": 0, "open": 0, "read": 0, "refused": 0, "watch": 0,
		},
		losses: map[string]sources.Loss{},
	}
	for _, f := range finders {
		r := newRoot(f.Root)
		t.trees = append(t.trees, &tree{find: f, root: r, dirs: newDirs(r)})
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
// end and parts without their last one are not: they are read again.
func (t *Tailer) Run(ctx context.Context, p sources.Pipeline) error {
	t.p = p
	t.mu.Lock()
	t.began = t.cfg.Clock()
	t.mu.Unlock()
	t.queue.open()
	var wg sync.WaitGroup
	for range t.cfg.Workers {
		wg.Go(t.work)
	}
	hints := newHints(t.kick)
	var w *watcher
	if !t.cfg.NoWatch {
		var err error
		if w, err = newWatcher(hints.add, func(err error) { t.blind.Store(&err) }); err != nil {
			t.fail("watch", err)
		} else if !t.cfg.deaf {
			wg.Go(w.run)
		}
	}
	t.coordinate(ctx, w, hints)
	t.queue.close()
	if w != nil {
		w.close()
	}
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = false
	for _, c := range t.chains {
		c.closeAll()
	}
	for _, tr := range t.trees {
		tr.root.close()
	}
	return nil
}

func (t *Tailer) work() {
	w := newWorker()
	for c := t.queue.take(); c != nil; c = t.queue.take() {
		if t.queue.done(c, c.run(w)) {
			t.kick() // all were looked at: something may be proved
		}
	}
}

func (t *Tailer) kick() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// coordinate finds streams and has each looked at once per tick, and at once
// where a hint came from.
func (t *Tailer) coordinate(ctx context.Context, w *watcher, h *hints) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var rescan, found time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			if dirs, all := h.take(); all || len(dirs) > 0 {
				t.findAll(w, false)
				t.lookHere(dirs, all)
			}
			t.advance()
		case <-tick.C:
			now := t.cfg.Clock()
			full := !now.Before(rescan) || rescan.Sub(now) > t.cfg.Rescan // the clock stepped back
			if full {
				rescan = now.Add(t.cfg.Rescan)
			}
			w.drain()
			dirs, all := h.take()
			if since := now.Sub(found); full || all || len(dirs) > 0 || since < 0 || since >= dirsEvery || !t.watched() {
				found = now
				t.findAll(w, full)
			}
			t.lookHere(dirs, all)
			n := t.lookAtAll()
			t.parkIdle()
			t.advance()
			// A look costs microseconds. Very many files are looked at less
			// often rather than all the time.
			tick.Reset(max(t.cfg.Poll, time.Duration(n)*100*time.Microsecond))
		}
	}
}

// watched tells whether the kernel says so when a stream comes.
func (t *Tailer) watched() bool {
	return !slices.ContainsFunc(t.trees, func(tr *tree) bool { return !tr.watched })
}

// findAll looks for streams in every tree.
func (t *Tailer) findAll(w *watcher, full bool) {
	now := t.cfg.Clock()
	all := true
	for _, tr := range t.trees {
		all = t.findIn(tr, now, full, w) && all
	}
	t.forget(now)
	if err := t.blind.Swap(nil); err != nil {
		t.fail("watch", *err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = all
	if all {
		t.foundAt, t.opened, t.started, t.lastErr = now, true, true, ""
	}
}

// findIn looks for streams in one tree, if anything changed.
func (t *Tailer) findIn(tr *tree, now time.Time, full bool, w *watcher) bool {
	if full || !tr.up {
		if err := tr.root.reopen(); err != nil {
			if exhausted(err) {
				t.parkMany.Store(true)
			}
			tr.up = false
			t.fail("list", err)
			return false
		}
		tr.dirs.sweep()
	} else if !tr.dirs.changed(tr.listed, now) {
		return true
	}
	tr.listed, tr.watched = map[string]bool{}, true
	list := func(dir string) ([]Entry, error) {
		tr.listed[dir] = true
		tr.watched = w.add(tr.root.abs(dir), dir == ".") && tr.watched
		l, err := tr.dirs.get(dir, now)
		if err != nil {
			return nil, err
		}
		return l.entries, nil
	}
	found, err := tr.find.Find(list)
	if err != nil {
		tr.up = false
		t.fail("list", err)
		return false
	}
	tr.up = true
	t.update(tr, found, w)
	return true
}

// update makes chains for new streams and marks those that are gone.
func (t *Tailer) update(tr *tree, found []Stream, w *watcher) {
	seen := make(map[string]bool, len(found))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range found {
		seen[s.Key] = true
		watched := w.add(tr.root.abs(s.Dir), false)
		if c := t.chains[s.Key]; c != nil {
			c.unlisted.Store(false)
			c.watched.Store(watched)
			continue
		}
		var pos *position
		if r := t.restored[s.Key]; r != nil {
			pos = r.pos
			delete(t.restored, s.Key)
		}
		c := newChain(t, tr, s, pos)
		// Nothing in it is older than the last look, or it was found before it
		// could be read: both hold back what is proved.
		c.bound, c.since = t.proved, t.saved
		c.watched.Store(watched)
		c.fromEnd = t.cfg.FromEnd && !t.state && !t.started
		t.chains[s.Key] = c
		t.queue.add(c)
	}
	for key, c := range t.chains {
		if c.tree == tr && !seen[key] {
			c.unlisted.Store(true)
		}
	}
}

// The position of a stream without files is kept: its directory may only be away
// for a moment.
const (
	forgetAfter = 10 * time.Minute
	maxGone     = 1000 // such positions; where pods come and go fast the newest are kept
)

// forget drops chains whose stream is gone and read to its end, and positions
// that nothing was found for.
func (t *Tailer) forget(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, c := range t.chains {
		if !c.unlisted.Load() || !t.queue.idle(c) {
			continue
		}
		if over, n, pos := c.final(); over {
			t.closed = add(t.closed, n)
			delete(t.chains, key)
			c.tree.dirs.forget(c.found.Dir)
			if pos != nil {
				t.restored[key] = &restored{pos: pos, at: now}
			}
		}
	}
	for key, r := range t.restored {
		if t.started && r.at.IsZero() {
			r.at = now
			t.goneMeanwhile(key, r)
		}
		if age := now.Sub(r.at); !r.at.IsZero() && (age > forgetAfter || age < -forgetAfter) {
			delete(t.restored, key)
		}
	}
	t.boundGone()
}

// boundGone drops the oldest positions of streams without files if there are
// too many.
func (t *Tailer) boundGone() {
	if len(t.restored) <= maxGone || !t.started {
		return
	}
	keys := slices.Collect(maps.Keys(t.restored))
	slices.SortFunc(keys, func(a, b string) int { return t.restored[a].at.Compare(t.restored[b].at) })
	for _, key := range keys[:len(keys)-maxGone] {
		delete(t.restored, key)
	}
}

// lookAtAll has every chain read what came, and returns how many there are.
func (t *Tailer) lookAtAll() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.addAll(t.chains)
	return len(t.chains)
}

// lookHere has the chains of these directories, or all, look at what is in them.
func (t *Tailer) lookHere(dirs map[string]bool, all bool) {
	if !all && len(dirs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.chains {
		if all || dirs[c.tree.root.abs(c.found.Dir)] {
			c.hinted.Store(true)
			t.queue.add(c)
		}
	}
}

// advance tells the pipeline up to when everything was read: the time of the
// last look for streams, held back by the stream that is furthest behind.
func (t *Tailer) advance() {
	now := t.cfg.Clock()
	t.mu.Lock()
	if ahead(t.proved, now) { // the clock was set back: from here on it proves anew
		t.proved = now
	}
	at := t.foundAt
	if !t.up || ahead(at, now) {
		at = time.Time{}
	}
	for _, c := range t.chains {
		if b := c.provedTo(); b.Before(at) {
			at = b
		}
	}
	ok := at.After(t.proved)
	if ok {
		t.proved = at
	}
	t.mu.Unlock()
	if ok {
		t.p.Advance(t.cfg.Source, at)
	}
}

// ahead tells whether t is still to come by the clock, whatever has passed since
// it was taken.
func ahead(t, now time.Time) bool { return t.Round(0).After(now.Round(0)) }

// lookBackTo is where a stream without a position starts: no later than what
// was proved, so that a stream that is new is read from its start.
func (t *Tailer) lookBackTo() time.Time {
	if t.cfg.LookBack < 0 {
		return time.Unix(0, 0)
	}
	from := t.cfg.Clock().Add(-t.cfg.LookBack).Round(0) // times in files have no other reading
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range []time.Time{t.saved, t.proved} {
		if done = done.Round(0); !done.IsZero() && done.Before(from) {
			from = later(done, time.Unix(0, 0)) // a state file may say anything
		}
	}
	return from
}
