package tail

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/sources"
)

// maxUnread bounds the list of logs that are not read.
const maxUnread = 100

// exhaustion is the state of a process that may open no more files.
type exhaustion struct {
	since, last time.Time
	err         error
}

// exhaustedFor is how long after the last failure descriptors count as short: a
// process at its limit can open files now and then.
const exhaustedFor = 10 * time.Second

// short records that no descriptor was left.
func (t *Tailer) short(err error) {
	t.outOfFDs.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.cfg.Clock()
	if e := &t.exhaust; e.since.IsZero() || now.Sub(e.last) >= exhaustedFor || now.Before(e.last) {
		e.since = now
	}
	t.exhaust.last, t.exhaust.err = now, err
	t.errs["descriptors"]++
}

// setSearching records whether the search for streams hangs.
func (t *Tailer) setSearching(now time.Time, hangs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !hangs:
		t.hangs = time.Time{}
	case t.hangs.IsZero():
		t.hangs = now
	}
}

// refuse records the refused streams of a tree. The caller holds mu.
func (t *Tailer) refuse(tr *tree, s Stream) {
	if _, known := t.refused[s.Key]; known || len(t.refused) >= maxUnread {
		return
	}
	t.errs["refused"]++
	t.refused[s.Key] = sources.Unread{Path: tr.root.abs(s.Dir), Why: s.Refused, Since: t.cfg.Clock()}
}

// unread lists the logs that exist and are not read, ordered by path. The caller
// holds mu.
func (t *Tailer) unread(now time.Time) []sources.Unread {
	var out []sources.Unread
	if !t.hangs.IsZero() {
		for _, tr := range t.trees {
			out = append(out, sources.Unread{Path: tr.root.path, Why: "looking through its folders does not end", Since: t.hangs, Holds: true})
		}
	}
	for _, u := range t.down {
		out = append(out, u)
	}
	if e := t.exhaust; !e.since.IsZero() && now.Sub(e.last) < exhaustedFor {
		out = append(out, sources.Unread{Path: "some logs", Why: e.err.Error() + ": raise the number of open files of the process (ulimit -n)", Since: e.since, Holds: true})
	}
	for _, c := range t.followers {
		c.mu.Lock()
		if !c.stalled.since.IsZero() {
			out = append(out, sources.Unread{Path: t.rootedPath(c), Why: c.stalled.why, Since: c.stalled.since, Holds: true})
		}
		for _, u := range c.refused {
			out = append(out, u)
		}
		c.mu.Unlock()
	}
	for _, u := range t.refused {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b sources.Unread) int { return cmp.Compare(a.Path, b.Path) })
	return out[:min(len(out), maxUnread)]
}

// rootedPath returns the file that a follower reads. The caller holds c.mu.
func (t *Tailer) rootedPath(c *follower) string {
	if c.view.Path != "" {
		return c.view.Path
	}
	return c.tree.root.abs(c.found.Dir)
}
