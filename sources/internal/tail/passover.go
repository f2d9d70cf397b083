package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"crowsnest/sources"
)

// unreadError is the error of a file that was found and could not be opened.
type unreadError struct {
	m   member
	err error
}

func (e *unreadError) Error() string { return e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

// isIO reports whether the system failed to read, not the reader to parse.
func isIO(err error) bool {
	var path *os.PathError
	return errors.As(err, &path)
}

// passOver skips a file that cannot be read for awayAfter, and reports whether it
// did: the logs behind it must not wait. It never skips the newest file, and none
// because descriptors ran out.
func (c *follower) passOver(m member, err error, entries []Entry) bool {
	newer := func(e Entry) bool { o, ok := c.found.Order(e.Name); return ok && m.order.before(o) }
	if exhausted(err) || !isIO(err) || errors.Is(err, fs.ErrNotExist) || m.fi == nil || !slices.ContainsFunc(entries, newer) {
		return false
	}
	since, known := c.unread[m.name]
	if !known {
		since = c.turn.now
		c.unread = grown(c.unread, m.name, since)
	}
	if c.turn.now.Sub(since) < awayAfter && !c.turn.now.Before(since) {
		return false
	}
	delete(c.unread, m.name)
	c.fail("open", err)
	c.breakOff(m)
	return true
}

// breakOff marks a file as skipped and counts possible loss, unless the file was
// read before. Before the follower has a position, that is not known.
func (c *follower) breakOff(m member) {
	c.broken = grown(c.broken, m.name, m.fi)
	waits := func(f *file) bool { return f.f == nil && f.name == m.name }
	known := slices.ContainsFunc(c.known, func(k member) bool { return os.SameFile(k.fi, m.fi) })
	switch {
	case c.cur == nil:
		c.doubtful = append(c.doubtful, m)
	case !known, slices.ContainsFunc(c.next, waits):
		c.t.miss(lossUnreadable, c.path(m.name))
	}
	c.next = slices.DeleteFunc(c.next, waits)
}

// countDoubtful counts the files that were skipped before the follower had a
// position, if they may hold unread lines.
func (c *follower) countDoubtful(unread func(m member) bool) {
	for _, m := range c.doubtful {
		if unread(m) {
			c.t.miss(lossUnreadable, c.path(m.name))
		}
	}
	c.doubtful = nil
}

// passOverCur skips cur if it cannot be read for awayAfter and another file comes
// after it.
func (c *follower) passOverCur() {
	f := c.cur
	c.mu.Lock()
	since := c.stalled.since
	c.mu.Unlock()
	if len(c.next) == 0 || since.IsZero() || c.turn.now.Sub(since) < awayAfter || exhausted(c.turn.err) {
		return
	}
	c.t.miss(lossUnreadable, c.path(f.name))
	c.broken = grown(c.broken, f.name, f.fi)
	c.skipCur()
}

// setRefused replaces the files that are refused. Each is counted once.
func (c *follower) setRefused(now map[string]sources.Unread) {
	c.mu.Lock()
	was := c.refused
	c.refused = now
	for name, u := range now {
		if old, known := was[name]; known {
			u.Since = old.Since
			now[name] = u
		}
	}
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := was[name]; !known {
			c.t.count("refused")
		}
	}
}

func grown[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// oneName refuses a file with hard links: anybody who can write into the folder
// could have any file of its file system read.
func (t *Tailer) oneName(f *os.File, fi fs.FileInfo) error {
	if n := links(fi); t.cfg.OneName && n > 1 {
		return fmt.Errorf("open %s: %w: it has %d names (hard links), and the kubelet makes none", f.Name(), errRefused, n)
	}
	return nil
}

// afterPoint reports for files that may hold lines behind a saved position in
// the file at.
func afterPoint(at Order) func(m member) bool {
	return func(m member) bool { return at.before(m.order) }
}

// writtenAfter reports for files that were written to after a time.
func writtenAfter(t time.Time) func(m member) bool {
	return func(m member) bool { return m.fi.ModTime().After(t) }
}
