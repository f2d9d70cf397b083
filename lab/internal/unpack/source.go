package unpack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// source is the archive that is being unpacked. It counts what is read from it.
type source struct {
	io.ReaderAt

	u     *unpacker
	dir   string // its files lie below
	depth int

	consumed, produced int64 // bytes
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, at)
	s.consumed += int64(n)
	return n, err
}

// entry writes a file of the archive, with its time of modification if that is known. It returns an error only if it ends the unpacking.
func (s *source) entry(name string, modified time.Time, r io.Reader) error {
	if err := s.u.counted(name); err != nil {
		return err
	}
	local := path.Clean(strings.TrimLeft(strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), `\`, "/"), "/"))
	err := errors.New("the name leads out of the archive")
	switch {
	case len(name) > maxName:
		err = fmt.Errorf("the name has more than %d bytes", maxName)
	case fs.ValidPath(local) && local != ".":
		err = s.write(path.Join(s.dir, local), modified, r)
		name = local
	}
	if ends(err) {
		return err
	}
	s.u.lost(inside(s.dir, name), err)
	return nil
}

// inside returns the path of an entry for messages, also of one that leads out.
func inside(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// write writes a file, and puts it on the queue if it is an archive.
func (s *source) write(name string, modified time.Time, r io.Reader) error {
	f, name, err := s.u.create(name)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	_, err = io.Copy(disk{f}, &bounded{r: r, in: s})
	if ends(err) {
		_ = s.u.root.Remove(name)
		return err
	}
	_ = s.u.root.Chtimes(name, time.Time{}, modified) // anybody may have written a time that no file can have
	s.u.result.Files++                                // the beginning of a damaged entry is read as well
	if err == nil && Is(f) {
		s.u.result.Files--
		s.u.queue = append(s.u.queue, nested{name: name, depth: s.depth + 1})
	}
	return err
}

// withoutPath removes the path from an error, for messages that already name it.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && !ends(err) {
		return p.Err
	}
	return err
}

// disk is a file whose errors end the unpacking: the next one could not be written either.
type disk struct{ w io.Writer }

// Write implements io.Writer.
func (d disk) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, withoutPath(err))
	}
	return n, err
}

// bounded reads a file of an archive and counts its bytes.
type bounded struct {
	r  io.Reader
	in *source
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	u := b.in.u
	b.in.produced += int64(n)
	u.result.Bytes += int64(n)
	l := u.limits
	switch {
	case u.result.Bytes > l.Bytes:
		return n, fmt.Errorf("%w: more than %d GiB, so nothing of it was read; unpack it by hand and scan the folders that matter", errTooBig, l.Bytes>>30)
	case b.in.produced > l.RatioFrom && b.in.produced/l.Ratio > b.in.consumed, u.result.Bytes > l.RatioFrom && u.result.Bytes/l.Ratio > u.packed:
		return n, fmt.Errorf("%w: more than %d times its size, as no logs do, so nothing of it was read; unpack it by hand if it is what it should be", errTooBig, l.Ratio)
	}
	return n, err
}
