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

// source is the archive that is being unpacked. It counts the bytes that are read from it.
type source struct {
	io.ReaderAt

	u     *unpacker
	dir   string // folder for its files
	depth int

	consumed, produced int64 // numbers of bytes that were read and written
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, t int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, t)
	s.consumed += int64(n)
	return n, err
}

// writeEntry writes a file of the archive, with its time of modification if that is known. It
// returns an error only if the unpacking has to end.
func (s *source) writeEntry(name string, modified time.Time, r io.Reader) error {
	if err := s.u.countEntry(name); err != nil {
		return err
	}
	local := path.Clean(strings.TrimLeft(strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), `\`, "/"), "/"))
	err := errors.New("the name leads out of the archive")
	switch {
	case len(name) > maxName:
		err = fmt.Errorf("the name has more than %d bytes", maxName)
	case fs.ValidPath(local) && local != ".":
		err = s.writeFile(path.Join(s.dir, local), modified, r)
		name = local
	}
	if isFinal(err) {
		return err
	}
	s.u.noteLost(entryPath(s.dir, name), err)
	return nil
}

// entryPath returns the path of an entry for messages, even if it leads out of the folder.
func entryPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// writeFile writes a file. If the file is an archive, writeFile also adds it to the queue.
func (s *source) writeFile(name string, modified time.Time, r io.Reader) error {
	f, name, err := s.u.createFile(name)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	_, err = io.Copy(disk{f}, &bounded{r: r, in: s})
	if isFinal(err) {
		_ = s.u.root.Remove(name)
		return err
	}
	_ = s.u.root.Chtimes(name, time.Time{}, modified) // the time comes from the archive, and may be one that no file can have
	s.u.result.Files++                                // a damaged entry is counted too, because its beginning was read
	if err == nil && IsArchive(f) {
		s.u.result.Files--
		s.u.queue = append(s.u.queue, nested{name: name, depth: s.depth + 1})
	}
	return err
}

// withoutPath returns an error without its path, for messages that already name the path.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && !isFinal(err) {
		return p.Err
	}
	return err
}

// disk is a writer for a file. Its errors end the unpacking, because the next file could not be
// written either.
type disk struct{ w io.Writer }

// Write implements io.Writer.
func (d disk) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, withoutPath(err))
	}
	return n, err
}

// bounded reads a file of an archive, counts its bytes and checks the limits.
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
		return n, fmt.Errorf("%w: more than %d times its size, which is not plausible for logs, so nothing of it was read; if you trust the archive, unpack it by hand", errTooBig, l.Ratio)
	}
	return n, err
}
