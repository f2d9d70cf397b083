package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"time"

	"crowsnest/sources"
	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/logname"
)

// awayAfter is the time after which a deleted file without writes is closed, and after which
// an unreadable file is skipped.
const awayAfter = 2 * time.Second

type directory struct {
	*opener
	heads        map[string]*head
	known        []member                     // files of the stream at the last poll
	olderMembers []member                     // files of the stream at the poll before the last one
	names        []string                     // names of the members and of unread files at the last poll
	broken       map[string]fs.FileInfo       // skipped unreadable files; the key is the name
	failing      map[string]time.Time         // time since which a file cannot be read; the key is the name
	skipped      []skipped                    // unreadable files that were skipped since countSkipped was last called
	barred       map[string]sources.UnreadLog // files that must not be read, such as links; the key is the name
	gen          int64                        // generation of the last listing; zero if the files must be examined again
	polled       time.Time                    // time at which the directory was last listed
	settled      bool                         // whether all names are the same as at the last poll
}

// member is a file of the stream that was in the directory at a poll.
type member struct {
	name  string
	order logname.Order
	fi    fs.FileInfo
	head  *head
}

func (m member) newFile() *file {
	return &file{name: m.name, order: m.order, id: content.IDOf(m.head.bytes), fi: m.fi}
}

// head is the first bytes of a file, with information about the file when they were read.
type head struct {
	fi    fs.FileInfo // information about the file when its head was read
	bytes []byte
	first int64
	size  int64 // size of the whole file, decompressed
}

// skipped is a file that was skipped because it cannot be read.
type skipped struct {
	member
	known bool // whether the file belonged to the stream at the last poll
}

// isUnchanged reports whether a and b describe the same file without a write between them.
func isUnchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// errUnstable means that files were renamed each time the directory was read.
var errUnstable = errors.New("the directory changes while it is read")

// listMembers returns the files of the stream in the order in which they were written. A
// directory that is read during a rename may show a file twice or not at all, so it is read
// until two readings agree. open are the files that are already open.
func (d *directory) listMembers(entries []logdir.Entry, open []*file) ([]member, error) {
	if len(entries) == 0 {
		d.known, d.names, d.barred = nil, nil, nil
		return nil, nil
	}
	for range 5 {
		ms, complete, err := d.examine(entries, open)
		if err != nil {
			return nil, err
		}
		same := func(a, b member) bool { return a.name == b.name && os.SameFile(a.fi, b.fi) }
		if complete && slices.EqualFunc(ms, d.known, same) {
			d.olderMembers, d.names = d.known, d.ownNames(entries)
			return ms, nil
		}
		again, err := d.dir.List(d.found.Dir)
		if err != nil {
			return nil, err
		}
		if n := d.ownNames(entries); complete && slices.Equal(n, d.ownNames(again)) {
			d.olderMembers, d.known, d.names = d.known, ms, n
			return ms, nil
		}
		entries = again
	}
	return nil, errUnstable
}

func (d *directory) ownNames(es []logdir.Entry) []string {
	var names []string
	for _, e := range es {
		if _, ok := d.found.Order(e.Name); ok && !e.Dir {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names
}

// confirmNames checks that no name changed while files were opened by name. After a change,
// the directory is listed again. If the file system reuses inodes immediately, only the names
// show the change.
func (d *directory) confirmNames() {
	again, err := d.dir.List(d.found.Dir)
	d.settled = err == nil && slices.Equal(d.names, d.ownNames(again)) || errors.Is(err, fs.ErrNotExist)
	if !d.settled {
		d.gen = 0
	}
}

// examine examines the files that entries name. complete is false if at least one of them is
// missing. A file that stays unreadable is skipped, unless it is the newest file.
func (d *directory) examine(entries []logdir.Entry, open []*file) (ms []member, complete bool, err error) {
	heads := make(map[string]*head, len(d.heads))
	refused := map[string]sources.UnreadLog{}
	complete = true
	for _, e := range entries {
		o, ok := d.found.Order(e.Name)
		if !ok {
			continue
		}
		m := member{name: e.Name, order: o}
		if m.fi, err = d.tree.root.Lstat(d.relativePath(e.Name)); err == nil {
			if b := d.broken[e.Name]; b != nil && isUnchanged(b, m.fi) {
				continue
			}
			switch h := d.heads[e.Name]; {
			case e.Dir:
				err = fmt.Errorf("open %s: %w: it is a directory", d.absolutePath(e.Name), logdir.ErrRefused)
			case h != nil && isUnchanged(h.fi, m.fi):
				m.head = h
			default:
				m.head, err = d.readHead(m, open)
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			complete = false
		case errors.Is(err, logdir.ErrRefused):
			refused[e.Name] = sources.UnreadLog{Path: d.absolutePath(e.Name), Reason: err.Error(), Since: d.now}
		case err != nil:
			if !d.skipUnreadable(m, err, entries) {
				return nil, false, err
			}
		default:
			m.fi = m.head.fi // the head was read from this file
			heads[e.Name] = m.head
			ms = append(ms, m)
		}
	}
	d.heads, d.barred = heads, refused
	return inOrder(ms), complete, nil
}

// skipUnreadable skips a file that has been unreadable for awayAfter, because newer files must
// not wait for it. It reports whether it skipped the file. It skips neither the newest file
// nor a file that is unreadable for lack of descriptors.
func (d *directory) skipUnreadable(m member, err error, entries []logdir.Entry) bool {
	newer := func(e logdir.Entry) bool { o, ok := d.found.Order(e.Name); return ok && m.order.Before(o) }
	if logdir.IsOutOfDescriptors(err) || !isIO(err) || errors.Is(err, fs.ErrNotExist) || m.fi == nil || !slices.ContainsFunc(entries, newer) {
		return false
	}
	since, waits := d.failing[m.name]
	if !waits {
		since = d.now
		d.failing = setLazily(d.failing, m.name, since)
	}
	if d.now.Sub(since) < awayAfter && !d.now.Before(since) {
		return false
	}
	delete(d.failing, m.name)
	d.recordTurnError("open", err)
	d.broken = setLazily(d.broken, m.name, m.fi)
	known := slices.ContainsFunc(d.known, func(k member) bool { return os.SameFile(k.fi, m.fi) })
	d.skipped = append(d.skipped, skipped{m, known})
	return true
}

func setLazily[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// inOrder sorts by instance and name. It drops the compressed twin of a file that is being
// compressed. If all rotated files contain times, these times decide, because the names
// contain local time, which can go back.
func inOrder(ms []member) []member {
	twins := func(a, b member) bool {
		return a.order.Instance == b.order.Instance && a.order.Rotated == b.order.Rotated
	}
	sort.SliceStable(ms, func(i, j int) bool {
		if twins(ms[i], ms[j]) {
			return !ms[i].order.GZ && ms[j].order.GZ
		}
		return ms[i].order.Before(ms[j].order)
	})
	kept := slices.CompactFunc(ms, func(a, b member) bool { return twins(a, b) && (a.order.GZ || b.order.GZ) })
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
