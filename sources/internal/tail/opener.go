package tail

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/gunzip"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/position"
)

// opener opens the files of one stream. now, dir and err are those of the present
// turn of its follower.
type opener struct {
	*account
	tree    *tree
	found   Stream
	gunzips *gunzip.Pool
	waiter  gunzip.Waiter // queues a turn of the follower

	now time.Time
	dir *logdir.Dir // trusted directory of the tree
	err error       // why this turn could not read something
}

var (
	errBusy  = errors.New("all decompressors are in use")
	errMoved = errors.New("another file has its name now")
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

func (o *opener) rel(name string) string  { return path.Join(o.found.Dir, name) }
func (o *opener) path(name string) string { return o.tree.root.Abs(o.rel(name)) }

// fail counts an error of this turn.
func (o *opener) fail(reason string, err error) {
	o.account.fail(reason, err)
	if !errors.Is(err, fs.ErrNotExist) { // files come and go
		o.err = err
	}
}

// deleted counts the unread rest of a removed file. For a compressed file its size
// is not known.
func (o *opener) deleted(f *file) {
	n := f.fi.Size() - f.off
	if f.order.GZ {
		n = max(n, 1)
	}
	if n > 0 {
		o.lose(lossDeleted, n)
		o.miss(lossDeleted, o.path(f.name))
	}
}

// damaged counts a compressed file that cannot be read to its end.
func (o *opener) damaged(f *file, err error) {
	if !f.broken {
		f.broken = true
		o.miss(lossGzip, o.path(f.name))
		o.note(err.Error())
	}
}

// open opens a file, and takes a decompressor for it if it is compressed. errBusy: none
// is free; the follower is woken when one is.
func (o *opener) open(f *file) error {
	if f.f == nil {
		h, fi, err := o.openFile(o.dir, o.rel(f.name))
		if err != nil {
			return err
		}
		if !os.SameFile(fi, f.fi) || !f.looksLike(h) {
			o.closeFile(h)
			return errMoved
		}
		f.f, f.fi = h, fi
	}
	if !f.order.GZ || f.gz != nil {
		return nil
	}
	if f.gz = o.gunzips.Take(&o.waiter); f.gz == nil {
		return errBusy
	}
	err := f.at(f.off)
	if errors.Is(err, errChanged) { // another file starts alike
		o.miss(lossGap, o.path(f.name))
		err = f.at(0)
	}
	return err
}

// openMember opens a file to be read from off on.
func (o *opener) openMember(m member, off int64) (*file, error) {
	f := m.file()
	f.off = off
	err := o.open(f)
	if err == nil && f.gz == nil {
		err = f.at(off)
	}
	if err == nil || errors.Is(err, errBusy) {
		return f, nil // if busy, it is opened when a decompressor is free
	}
	damaged := f.gz != nil
	o.close(f)
	if damaged {
		return f, nil // the reader skips the file
	}
	return f, &unreadError{m, err}
}

func (o *opener) close(f *file) {
	if f == nil {
		return
	}
	if f.gz != nil {
		o.gunzips.Return(f.gz)
		f.gz = nil
	}
	if f.f != nil {
		o.closeFile(f.f)
		f.f = nil
	}
	f.win = nil
}

// read reads a block of the file.
func (o *opener) read(f *file, w *worker) (data []byte, end bool, err error) {
	if err := o.tree.root.Try("read", o.rel(f.name)); err != nil {
		return nil, false, err
	}
	return f.read(w.space())
}

// stat updates an open file's size.
func (o *opener) stat(f *file) bool {
	if f.f == nil {
		return true
	}
	fi, err := f.f.Stat()
	if err != nil {
		o.fail("read", err)
		return false
	}
	f.fi = fi
	return true
}

// readHead reads the head of a file: of the open one if it is among these, whatever
// became of its name.
func (o *opener) readHead(m member, open []*file) (*head, error) {
	for _, f := range open {
		if f != nil && f.f != nil && !m.order.GZ && os.SameFile(f.fi, m.fi) {
			return headOf(f.f, m.fi, false)
		}
	}
	f, fi, err := o.openFile(o.dir, o.rel(m.name))
	if err != nil {
		return nil, err
	}
	defer o.closeFile(f)
	if err := o.tree.root.Try("head", o.rel(m.name)); err != nil {
		return nil, err
	}
	return headOf(f, fi, m.order.GZ)
}

func headOf(f *os.File, fi fs.FileInfo, gz bool) (*head, error) {
	b, err := content.ReadHead(f, gz)
	if err != nil && (!gz || isIO(err)) {
		return nil, err
	}
	// A damaged .gz has no head.
	return &head{fi: fi, bytes: b, first: content.FirstTime(b), size: content.FullSize(f, fi.Size(), gz)}, nil
}

// locate returns which file the point is in, -1 if none. Most likely the file still
// has its name.
func (o *opener) locate(ms []member, p position.Point) (int, error) {
	for _, named := range []bool{true, false} {
		for i := len(ms) - 1; i >= 0; i-- {
			m := ms[i]
			if (m.name == p.Name) != named || !p.Is(m.head.bytes) {
				continue
			}
			if ok, err := o.holds(m, p); ok || err != nil {
				return i, err
			}
		}
	}
	return -1, nil
}

// holds reports whether the bytes before the point are in the file.
func (o *opener) holds(m member, p position.Point) (bool, error) {
	if m.order.GZ {
		return true, nil // they are compared when it is opened
	}
	f, fi, err := o.openFile(o.dir, o.rel(m.name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &unreadError{m, err}
	}
	defer o.closeFile(f)
	ok, err := p.Fits(f, fi.Size())
	if err != nil {
		return false, &unreadError{m, err}
	}
	return ok, nil
}
