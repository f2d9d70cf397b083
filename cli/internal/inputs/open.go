package inputs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

var gzipMagic = []byte{0x1f, 0x8b}

// openFunc opens an input at its first line.
type openFunc = func() (io.ReadCloser, error)

// opener opens a file as it is now. One that is not regular can be read once; one
// without a size may still have content, as in /proc.
func (c *collector) opener(path string, info fs.FileInfo) openFunc {
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, cause(err)
		}
		return f, nil
	}
	if !info.Mode().IsRegular() {
		return c.once(open)
	}
	return func() (io.ReadCloser, error) {
		rc, err := open()
		if err != nil {
			return nil, err
		}
		if info.Size() > 0 {
			rc = &joined{Reader: io.LimitReader(rc, info.Size()), close: rc.Close}
		}
		return lines(rc, headSize)
	}
}

// once opens what can be read only once: where there is a folder for copies,
// through a copy of it.
func (c *collector) once(open openFunc) openFunc {
	if c.opt.Spool == "" {
		return func() (io.ReadCloser, error) {
			rc, err := open()
			if err != nil {
				return nil, err
			}
			return lines(rc, 1)
		}
	}
	copied := sync.OnceValues(func() (string, error) { return spool(open, c.opt.Spool) })
	return func() (io.ReadCloser, error) {
		path, err := copied()
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read its copy: %w", err)
		}
		return lines(f, headSize)
	}
}

// spool copies what open returns to a file in a folder.
func spool(open openFunc, dir string) (path string, err error) {
	rc, err := open()
	if err != nil {
		return "", err
	}
	defer rc.Close()
	f, err := os.CreateTemp(dir, "input-*")
	if err != nil {
		return "", fmt.Errorf("copy it, to read it twice: %w", err)
	}
	_, err = io.Copy(f, rc)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("copy it, to read it twice: %w", err)
	}
	return f.Name(), nil
}

// lines returns the lines of rc, which it unpacks if they are in gzip, known by
// its first bytes and not by a name. Anything else is an *unreadableError. It
// waits for so many bytes or the end: one of a pipe, so that lines are looked at
// as they come. It closes rc when the result is closed, or with an error.
func lines(rc io.ReadCloser, wait int) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, 64<<10)
	head, err := peek(br, wait)
	if err != nil {
		return nil, errors.Join(cause(err), rc.Close())
	}
	if !bytes.HasPrefix(head, gzipMagic) {
		if k, bad := judge(head); bad {
			return nil, errors.Join(&unreadableError{k}, rc.Close())
		}
		return &joined{Reader: br, close: rc.Close}, nil
	}
	zr, err := gzip.NewReader(br)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack gzip: %w", err), rc.Close())
	}
	unpacked := bufio.NewReaderSize(zr, 64<<10)
	if head, err = peek(unpacked, wait); err != nil && len(head) == 0 {
		return nil, errors.Join(fmt.Errorf("unpack gzip: %w", err), rc.Close())
	}
	k, bad := judge(head)
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		k, bad = kind{name: "packed with gzip twice", fix: "unpack it once with gzip -d"}, true
	case k == tarred:
		k = kind{name: "a tar archive in gzip", fix: "unpack it with tar -xzf and scan the folder"}
	}
	if bad {
		return nil, errors.Join(&unreadableError{k}, rc.Close())
	}
	return &joined{Reader: unpacked, close: rc.Close}, nil
}

// peek returns the first bytes, at most headSize, once so many are there or the
// input has ended.
func peek(br *bufio.Reader, wait int) ([]byte, error) {
	_, err := br.Peek(wait)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	head, _ := br.Peek(min(br.Buffered(), headSize))
	return head, err
}

type joined struct {
	io.Reader
	close func() error
}

// Close closes what is read from.
func (j *joined) Close() error { return j.close() }

// cause takes the path out of an error that names it again.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
