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

// opener opens the files of one stream. now, dir and err belong to the follower's current turn.
type opener struct {
	*account
	tree    *tree
	found   Stream
	gunzips *gunzip.Pool
	waiter  gunzip.Waiter // waiter for a decompressor; its Wake queues a turn of the follower

	now time.Time
	dir *logdir.Dir // trusted directory of the tree
	err error       // reason why a file could not be read in this turn
}

var (
	errBusy  = errors.New("all decompressors are in use")
	errMoved = errors.New("another file has its name now")
)

type unreadError struct {
	m   member
	err error
}

func (e *unreadError) Error() string { return e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

// isIO reports whether the system failed to read. It is false if the content of the file is
// the cause of err.
func isIO(err error) bool {
	var path *os.PathError
	return errors.As(err, &path)
}

func (o *opener) relativePath(name string) string { return path.Join(o.found.Dir, name) }
func (o *opener) absolutePath(name string) string { return o.tree.root.Abs(o.relativePath(name)) }

func (o *opener) recordTurnError(reason string, err error) {
	o.account.recordError(reason, err)
	if !errors.Is(err, fs.ErrNotExist) { // a missing file is normal
		o.err = err
	}
}

// countDeleted counts the unread rest of a removed file. The size of the rest is unknown if the
// file is compressed.
func (o *opener) countDeleted(f *file) {
	n := f.fi.Size() - f.offset
	if f.order.GZ {
		n = max(n, 1)
	}
	if n > 0 {
		o.countLostBytes(lossDeleted, n)
		o.countLoss(lossDeleted, o.absolutePath(f.name))
	}
}

func (o *opener) countDamaged(f *file, err error) {
	if !f.broken {
		f.broken = true
		o.countLoss(lossGzip, o.absolutePath(f.name))
		o.setLastError(err.Error())
	}
}

// open opens a file, and takes a decompressor if the file is compressed. If none is free, it
// returns errBusy, and queues a turn of the follower as soon as one is free.
func (o *opener) open(f *file) error {
	if f.f == nil {
		h, fi, err := o.openFile(o.dir, o.relativePath(f.name))
		if err != nil {
			return err
		}
		same := os.SameFile(fi, f.fi)
		if same && f.id.N > 0 {
			head, err := content.ReadHead(h, f.order.GZ)
			same = err != nil || f.id.Is(head)
		}
		if !same {
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
	err := f.seek(f.offset)
	if errors.Is(err, errChanged) { // another file has the same first bytes
		o.countLoss(lossGap, o.absolutePath(f.name))
		err = f.seek(0)
	}
	return err
}

func (o *opener) openMember(m member, off int64) (*file, error) {
	f := m.newFile()
	f.offset = off
	err := o.open(f)
	if err == nil && f.gz == nil {
		err = f.seek(off)
	}
	if err == nil || errors.Is(err, errBusy) {
		return f, nil // a busy file is opened when a decompressor is free
	}
	damaged := f.gz != nil
	o.close(f)
	if damaged {
		return f, nil // the reader skips the damaged file
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

func (o *opener) read(f *file, w *worker) (data []byte, end bool, err error) {
	if err := o.tree.root.InjectFault("read", o.relativePath(f.name)); err != nil {
		return nil, false, err
	}
	return f.read(w.buffer())
}

func (o *opener) updateSize(f *file) bool {
	if f.f == nil {
		return true
	}
	fi, err := f.f.Stat()
	if err != nil {
		o.recordTurnError("read", err)
		return false
	}
	f.fi = fi
	return true
}

// readHead reads the head of a file. If the file is open, it uses the open descriptor, because
// the name may belong to another file by now.
func (o *opener) readHead(m member, open []*file) (*head, error) {
	for _, f := range open {
		if f != nil && f.f != nil && !m.order.GZ && os.SameFile(f.fi, m.fi) {
			return readHeadFrom(f.f, m.fi, false)
		}
	}
	f, fi, err := o.openFile(o.dir, o.relativePath(m.name))
	if err != nil {
		return nil, err
	}
	defer o.closeFile(f)
	if err := o.tree.root.InjectFault("head", o.relativePath(m.name)); err != nil {
		return nil, err
	}
	return readHeadFrom(f, fi, m.order.GZ)
}

func readHeadFrom(f *os.File, fi fs.FileInfo, gz bool) (*head, error) {
	b, err := content.ReadHead(f, gz)
	if err != nil && (!gz || isIO(err)) {
		return nil, err
	}
	// The head of a damaged .gz is empty.
	return &head{fi: fi, bytes: b, first: content.FirstTime(b), size: content.FullSize(f, fi.Size(), gz)}, nil
}

// findMember returns the index of the file that contains the point, or -1. It first tries the
// files with the same name.
func (o *opener) findMember(ms []member, p position.Point) (int, error) {
	for _, named := range []bool{true, false} {
		for i := len(ms) - 1; i >= 0; i-- {
			m := ms[i]
			if (m.name == p.Name) != named || !p.Is(m.head.bytes) {
				continue
			}
			if ok, err := o.containsPoint(m, p); ok || err != nil {
				return i, err
			}
		}
	}
	return -1, nil
}

func (o *opener) containsPoint(m member, p position.Point) (bool, error) {
	if m.order.GZ {
		return true, nil // the caller opens the file, and open compares the bytes before the point
	}
	f, fi, err := o.openFile(o.dir, o.relativePath(m.name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &unreadError{m, err}
	}
	defer o.closeFile(f)
	ok, err := p.IsPrefixOf(f, fi.Size())
	if err != nil {
		return false, &unreadError{m, err}
	}
	return ok, nil
}
