package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"

	"crowsnest/sources"
)

// member is one file of the stream that is in the directory now.
type member struct {
	name  string
	order Order
	fi    fs.FileInfo
	head  *head
}

// follows reports whether m goes on where cur ends, if cur is not in the directory.
func (c *follower) follows(m member) bool {
	f := c.cur
	first := f.id.first
	if first == 0 { // it is empty: what is newer than the one before it, is newer
		first = c.prevFirst
	}
	switch {
	case m.order.Instance != f.order.Instance:
		return m.order.Instance > f.order.Instance
	case m.head.first != 0 && first != 0:
		return m.head.first > first
	case m.fi.Size() == 0:
		return true
	}
	return !m.fi.ModTime().Before(f.fi.ModTime())
}

// errUnstable means that files were renamed while the directory was read.
var errUnstable = errors.New("the directory changes while it is read")

// members returns the files of the stream in the order they were written. A
// directory that is read while files in it are renamed may show a file twice or
// not at all, so it is read until two readings are the same.
func (c *follower) members(entries []Entry) ([]member, error) {
	if len(entries) == 0 {
		c.known, c.names = nil, nil
		return nil, nil
	}
	for range 5 {
		ms, complete, err := c.lookUp(entries)
		if err != nil {
			return nil, err
		}
		if complete && c.sameMembers(ms) {
			c.before, c.names = c.known, c.ownNames(entries)
			return ms, nil
		}
		again, err := c.turn.dir.list(c.found.Dir)
		if err != nil {
			return nil, err
		}
		if n := c.ownNames(entries); complete && slices.Equal(n, c.ownNames(again)) {
			c.before, c.known, c.names = c.known, ms, n
			return ms, nil
		}
		entries = again
	}
	return nil, errUnstable
}

// sameMembers reports whether these are the members of the last time.
func (c *follower) sameMembers(ms []member) bool {
	return slices.EqualFunc(ms, c.known, func(a, b member) bool {
		return a.name == b.name && os.SameFile(a.fi, b.fi)
	})
}

func (c *follower) ownNames(es []Entry) []string {
	var names []string
	for _, e := range es {
		if _, ok := c.found.Order(e.Name); ok && !e.Dir {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names
}

// lookUp examines the files behind the names. complete is false if one is missing.
// A file that cannot be read is skipped after a while, unless it is the newest one.
func (c *follower) lookUp(entries []Entry) (ms []member, complete bool, err error) {
	heads := make(map[string]*head, len(c.heads))
	refused := map[string]sources.Unread{}
	complete = true
	for _, e := range entries {
		o, ok := c.found.Order(e.Name)
		if !ok {
			continue
		}
		m := member{name: e.Name, order: o}
		if m.fi, err = c.tree.root.lstat(c.rel(e.Name)); err == nil {
			if b := c.broken[e.Name]; b != nil && unchanged(b, m.fi) {
				continue
			}
			m.head, err = c.headOf(e, m)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			complete = false
		case errors.Is(err, errRefused):
			refused[e.Name] = sources.Unread{Path: c.path(e.Name), Why: err.Error(), Since: c.turn.now}
		case err != nil:
			if !c.passOver(m, err, entries) {
				return nil, false, err
			}
		default:
			m.fi = m.head.fi // of the file that the head is of
			heads[e.Name] = m.head
			ms = append(ms, m)
		}
	}
	c.heads = heads
	c.setRefused(refused)
	return inOrder(ms), complete, nil
}

// headOf returns the head of a file, read again only if it may have changed.
func (c *follower) headOf(e Entry, m member) (*head, error) {
	if e.Dir {
		return nil, fmt.Errorf("open %s: %w: it is a directory", c.path(e.Name), errRefused)
	}
	if h := c.heads[e.Name]; h.current(m.fi) {
		return h, nil
	}
	for _, f := range append([]*file{c.cur, c.old}, c.next...) { // it can be read, whatever became of its name
		if f != nil && f.f != nil && !m.order.GZ && os.SameFile(f.fi, m.fi) {
			return c.headFrom(f.f, m.fi, false)
		}
	}
	return c.readHead(e.Name, m.order.GZ)
}

func (c *follower) readHead(name string, gz bool) (*head, error) {
	f, fi, err := c.t.openFile(c.turn.dir, c.rel(name))
	if err != nil {
		return nil, err
	}
	defer c.t.closeFile(f)
	if err := c.tree.root.try("head", c.rel(name)); err != nil {
		return nil, err
	}
	return c.headFrom(f, fi, gz)
}

func (c *follower) headFrom(f *os.File, fi fs.FileInfo, gz bool) (*head, error) {
	b, err := readHead(f, gz)
	if err != nil && (!gz || isIO(err)) {
		return nil, err
	}
	// A damaged .gz has no head.
	return &head{fi: fi, bytes: b, first: firstTime(b), size: fullSize(f, fi.Size(), gz)}, nil
}

// inOrder sorts by instance and name, drops the compressed twin of a file that
// is being compressed, and lets the times in rotated files correct their names:
// these are local times, which a change of zone or the end of summer turns back.
func inOrder(ms []member) []member {
	sort.SliceStable(ms, func(i, j int) bool {
		a, b := ms[i].order, ms[j].order
		if a.Instance == b.Instance && a.Rotated == b.Rotated {
			return !a.GZ && b.GZ
		}
		return a.before(b)
	})
	kept := ms[:0]
	for _, m := range ms {
		if n := len(kept); n > 0 && m.order.GZ {
			if p := kept[n-1].order; p.Instance == m.order.Instance && p.Rotated == m.order.Rotated {
				continue
			}
		}
		kept = append(kept, m)
	}
	for from := 0; from < len(kept); {
		to, timed := from, true
		for ; to < len(kept) && kept[to].order.Instance == kept[from].order.Instance && kept[to].order.Rotated != ""; to++ {
			timed = timed && kept[to].head.first != 0
		}
		if timed {
			run := kept[from:to]
			sort.SliceStable(run, func(i, j int) bool { return run[i].head.first < run[j].head.first })
		}
		from = max(to, from+1)
	}
	return kept
}
