package tail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/position"
)

// finder searches for streams in its own goroutine, so that a directory that hangs does not
// stop the reading of known logs.
type finder struct {
	t    *Tailer
	w    *logdir.Watcher
	beat beat
	due  atomic.Bool // whether another search is due, because a tick has passed since the last one

	rescan, found time.Time
}

// run searches once a tick and immediately after a hint, until ctx ends.
func (f *finder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.t.search:
			f.beat.start()
			f.poll()
			f.beat.stop()
		}
	}
}

func (f *finder) poll() {
	t, now, full := f.t, f.t.cfg.Clock(), false
	due := f.due.Swap(false)
	if due {
		// The second condition means that the clock was set back.
		if full = !now.Before(f.rescan) || f.rescan.Sub(now) > rescanEvery; full {
			f.rescan = now.Add(rescanEvery)
		}
		f.w.Drain()
	}
	dirs, all := f.w.Take()
	since := now.Sub(f.found)
	// blind is set if inotify misses new streams, because a directory is not watched.
	blind := slices.ContainsFunc(t.trees, func(tr *tree) bool { return !tr.watched })
	if all || len(dirs) > 0 || due && (full || since < 0 || since >= dirsEvery || blind) {
		f.found = now
		t.findAll(f.w, full)
		pause.Wake(t.wake)
	}
	if !all && len(dirs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.followers {
		if all || dirs[c.tree.root.Abs(c.found.Dir)] {
			c.hinted.Store(true)
			t.queue.add(c)
		}
	}
}

func (t *Tailer) findAll(w *logdir.Watcher, full bool) {
	now := t.cfg.Clock()
	all := true
	for _, tr := range t.trees {
		err := t.searchTree(tr, now, full, w)
		t.setDown(tr, now, err)
		all = all && err == nil
	}
	if err := t.watchLimit.Swap(nil); err != nil {
		t.recordError("watch", *err)
	}
	t.mu.Lock()
	again := t.searched
	t.up, t.searched = len(t.failedTrees) < len(t.trees), true
	if all {
		t.opened = true
		t.setLastError("")
	}
	t.mu.Unlock()
	if again {
		t.dropRemoved(now)
	}
}

// searchTree looks for streams in one tree if a directory of the tree has changed. It returns
// nil if all streams are known.
func (t *Tailer) searchTree(tr *tree, now time.Time, full bool, w *logdir.Watcher) error {
	if full || !tr.up || tr.root.Moved() {
		if err := tr.root.Reopen(); err != nil {
			if logdir.IsOutOfDescriptors(err) {
				t.recordShortage(err)
			}
			tr.up = false
			return err
		}
		tr.dirs.Sweep()
	}
	f := tr.root.Borrow()
	defer f.Release()
	if tr.up && !full && !tr.hasChanged(f, now) {
		return tr.checkLimit(t.cfg.streams)
	}
	tr.listed, tr.watched = map[string]bool{}, true
	found, err := tr.find.Find(func(dir string) ([]logdir.Entry, error) {
		tr.listed[dir] = true
		return tr.list(f, dir, now, w)
	})
	tr.up = err == nil
	if why := t.checkTrust(tr, f, found, err, now); why != nil {
		tr.up = false
		f.Trusted.Store(false)
		return why
	}
	if err == nil || len(found) > 0 {
		tr.doubted = time.Time{}
		if !f.Trusted.Swap(true) {
			t.mu.Lock()
			t.roots[tr.root.Path] = f.ID
			t.mu.Unlock()
		}
	}
	t.updateFollowers(tr, found, w)
	if err != nil {
		return err
	}
	return tr.checkLimit(t.cfg.streams)
}

func (tr *tree) hasChanged(f *logdir.Dir, now time.Time) bool {
	listed := tr.listed
	changed, err := within(tr.lister, f, "folders of "+tr.root.Path, func() bool { return tr.dirs.Changed(f, listed, now) })
	return tr.lister.returned.Swap(false) || err != nil || changed
}

func (tr *tree) list(f *logdir.Dir, dir string, now time.Time, w *logdir.Watcher) ([]logdir.Entry, error) {
	type result struct {
		listing *logdir.Listing
		err     error
		watched bool
	}
	r, err := within(tr.lister, f, tr.root.Abs(dir), func() (r result) {
		r.watched = tr.watch(w, dir)
		r.listing, r.err = tr.dirs.Get(f, dir, now)
		return r
	})
	tr.watched = r.watched && tr.watched
	if err = cmp.Or(err, r.err); err != nil {
		return nil, err
	}
	return r.listing.Entries, nil
}

// watch watches a directory, and reports whether it is watched. It calls Lstat first, so that
// a directory that hangs does not block the watcher while it is locked.
func (tr *tree) watch(w *logdir.Watcher, dir string) bool {
	_, err := tr.root.Lstat(dir)
	return err == nil && w.Add(tr.root.Abs(dir), dir == ".")
}

func (tr *tree) checkLimit(most int) error {
	if tr.excessStreams == 0 {
		return nil
	}
	return fmt.Errorf("%d logs in %s are not read: there are more than %d", tr.excessStreams, tr.root.Path, most)
}

// setDown records the reason why a tree cannot be searched. A nil err means that it was
// searched.
func (t *Tailer) setDown(tr *tree, now time.Time, err error) {
	if err != nil {
		t.recordError("list", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u, known := t.failedTrees[tr]
	switch {
	case err == nil:
		delete(t.failedTrees, tr)
		tr.foundAt = now
		return
	case !known:
		u = sources.UnreadLog{Path: tr.root.Path, Since: now, Holds: true}
	}
	u.Reason = err.Error()
	t.failedTrees[tr] = u
}

// checkTrust returns the reason why f may not be the directory of the logs, or nil if it is
// trusted. While it is not trusted, missing files do not count as removed, and the watermark
// does not advance. f is trusted if it is the same directory as last time, if it contains a
// known stream, or if no stream is known. After forgetAfter it is trusted anyway, because all
// logs may have been replaced.
func (t *Tailer) checkTrust(tr *tree, f *logdir.Dir, found []Stream, err error, now time.Time) error {
	switch {
	case errors.Is(err, ErrDoubt):
		return err
	case f.Trusted.Load(), tr.find.ChecksRoot, err != nil && len(found) == 0:
		return nil
	}
	known, was := t.knownStreams(tr)
	if len(known) == 0 || f.ID == was ||
		slices.ContainsFunc(found, func(s Stream) bool { return known[s.Key] }) ||
		was == "" && len(found) > 0 {
		return nil
	}
	if tr.doubted.IsZero() || tr.doubts != f.ID || now.Before(tr.doubted) {
		tr.doubted, tr.doubts = now, f.ID
	}
	if now.Sub(tr.doubted) >= forgetAfter {
		return nil
	}
	return fmt.Errorf("%s has none of the %d logs that it had before: %w; check whether its file system is mounted. At %s, crowsnest accepts the files that the directory has then",
		tr.root.Path, len(known), ErrDoubt, tr.doubted.Add(forgetAfter).UTC().Format(time.RFC3339))
}

// knownStreams returns the streams of the tree that have not ended, and the identity of
// its directory when it was last trusted.
func (t *Tailer) knownStreams(tr *tree) (keys map[string]bool, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys = map[string]bool{}
	for key, c := range t.followers {
		if c.tree == tr && !c.unlisted.Load() {
			keys[key] = true
		}
	}
	for key, r := range t.restored {
		if r.at.IsZero() && !r.pos.Ended && tr.mayOwn(key) {
			keys[key] = true
		}
	}
	return keys, t.roots[tr.root.Path]
}

func (tr *tree) mayOwn(key string) bool {
	return !filepath.IsAbs(key) || strings.HasPrefix(key, tr.root.Path+"/") || tr.root.Path == "/"
}

// updateFollowers creates followers for new streams, and marks the followers of removed
// streams.
func (t *Tailer) updateFollowers(tr *tree, found []Stream, w *logdir.Watcher) {
	seen, watched := make(map[string]bool, len(found)), make([]bool, len(found))
	refused := map[string]bool{}
	f := tr.root.Borrow()
	defer f.Release()
	for i, s := range found {
		if s.isUnread() {
			continue
		}
		does, err := within(tr.lister, f, tr.root.Abs(s.Dir), func() bool { return tr.watch(w, s.Dir) })
		watched[i] = does && err == nil
	}
	empty := ""
	if len(found) == 0 && tr.find.Empty != nil {
		empty = tr.find.Empty()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.empty[tr] = empty
	tr.excessStreams = 0
	for i, s := range found {
		if s.isUnread() {
			refused[s.Key] = true
			t.recordRefused(tr, s)
			continue
		}
		seen[s.Key] = true
		c := t.followers[s.Key]
		if c == nil && len(t.followers) >= t.cfg.streams {
			tr.excessStreams++
			continue
		}
		if c == nil {
			c = t.newStream(tr, s)
		}
		c.unlisted.Store(false)
		c.watched.Store(watched[i])
	}
	if !tr.up {
		return
	}
	maps.DeleteFunc(tr.refused, func(key string, _ refusedStream) bool { return !refused[key] })
	for key, c := range t.followers {
		if c.tree == tr && !seen[key] {
			_, failed := tr.unlistableFolder(key)
			c.unlisted.Store(!failed)
		}
	}
}

func (s *Stream) isUnread() bool { return s.Refused != "" || s.Failed != nil }

// unlistableFolder returns the unlistable folder that contains a stream, if there is one. The
// caller holds Tailer.mu.
func (tr *tree) unlistableFolder(key string) (folder refusedStream, found bool) {
	for dir := path.Dir(key); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if r, ok := tr.refused[dir]; ok && r.Holds {
			return r, true
		}
	}
	return refusedStream{}, false
}

// provenUpTo returns the time up to which a new stream counts as read. This is the watermark,
// or an earlier time if the stream may have existed while it could not be found. The caller
// holds mu.
func (t *Tailer) provenUpTo(tr *tree, key string) time.Time {
	at := t.watermark
	if _, down := t.failedTrees[tr]; down {
		at = times.Min(at, tr.foundAt)
	}
	if r, was := tr.unlistableFolder(key); was {
		at = times.Min(at, r.ReadUpTo)
	}
	if r, was := tr.refused[key]; was {
		at = times.Min(at, r.ReadUpTo)
	}
	return at
}

// newStream creates the follower of a stream. The caller holds mu.
func (t *Tailer) newStream(tr *tree, s Stream) *follower {
	var pos *position.Stream
	if r := t.restored[s.Key]; r != nil {
		pos = r.pos
		delete(t.restored, s.Key)
	}
	c := newFollower(t, tr, s, pos)
	// All lines of the stream from before bound were read. If bound is early because the stream could not be read, the
	// watermark stays behind too.
	c.bound, c.since = t.provenUpTo(tr, s.Key), t.saved
	c.fromEnd = t.cfg.FromEnd && !t.state && !t.opened
	c.newest = t.cfg.Newest && !t.state && !t.opened
	t.followers[s.Key] = c
	t.queue.add(c)
	return c
}

// Limits of the positions that are kept for streams without files. The directory of such a
// stream may only be unreachable for a moment.
const (
	forgetAfter = 10 * time.Minute
	maxMissing  = 1000 // largest number of positions for streams without files; the newest are kept
)

// dropRemoved drops followers whose stream was removed and read to its end. It also drops old
// positions without a stream. It skips trees that could not be searched.
func (t *Tailer) dropRemoved(now time.Time) {
	for key, r := range t.missingStreams() {
		path, there := key, false // if the stream exists, the configuration no longer selects it
		for i := 0; i < len(t.trees) && !there; i++ {
			if !filepath.IsAbs(key) {
				path = t.trees[i].root.Abs(key)
			}
			_, err := os.Lstat(path)
			there = err == nil
		}
		t.mu.Lock()
		if r.at = now; !r.pos.Ended && !there {
			t.countLoss(lossRemoved, path)
			r.pos = &position.Stream{Point: r.pos.Point, Ended: true}
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, c := range t.followers {
		if !c.tree.up || !c.unlisted.Load() || c.turn.Load() != turnIdle {
			continue
		}
		c.mu.Lock()
		over, n, pos := c.isEnded, c.counters, c.saved
		c.mu.Unlock()
		if !over {
			continue
		}
		t.closed.Add(n)
		delete(t.followers, key)
		c.tree.dirs.Forget(c.found.Dir)
		if pos != nil && !pos.Ended {
			pos = &position.Stream{Point: pos.Point, Ended: true} // its unread part was already counted as lost
		}
		if pos != nil {
			t.restored[key] = &restored{pos: pos, at: now}
		}
	}
	for key, r := range t.restored {
		if age := now.Sub(r.at); !r.at.IsZero() && (age > forgetAfter || age < -forgetAfter) {
			delete(t.restored, key)
		}
	}
	if len(t.restored) <= maxMissing || !t.opened {
		return
	}
	keys := slices.Collect(maps.Keys(t.restored))
	slices.SortFunc(keys, func(a, b string) int { return t.restored[a].at.Compare(t.restored[b].at) })
	for _, key := range keys[:len(keys)-maxMissing] {
		delete(t.restored, key)
	}
}

func (t *Tailer) missingStreams() map[string]*restored {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]*restored{}
	for key, r := range t.restored {
		hidden := func(tr *tree) bool {
			_, unlistable := tr.unlistableFolder(key)
			return unlistable || tr.mayOwn(key) && !tr.up
		}
		if r.at.IsZero() && !slices.ContainsFunc(t.trees, hidden) {
			out[key] = r
		}
	}
	return out
}
