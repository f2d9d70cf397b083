package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/klauspost/compress/gzip"
)

var gzipMagic = []byte{0x1f, 0x8b}

// openFunc opens an input at its first line.
type openFunc = func() (io.ReadCloser, error)

// opener returns a function that opens a file, limited to its present size. A file
// that is not regular can be read once; one with size 0 may still have content,
// as in /proc.
func (c *collector) opener(path string, info fs.FileInfo) openFunc {
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		return f, cause(err)
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
			rc = joined{io.LimitReader(rc, info.Size()), rc}
		}
		return lines(rc, headSize)
	}
}

// once returns a function that opens an input that can be read only once; if there
// is a folder for copies, it opens a copy.
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
		return "", fmt.Errorf("copy it to read it twice: %w", err)
	}
	_, err = io.Copy(f, rc)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("copy it to read it twice: %w", err)
	}
	return f.Name(), nil
}

// lines returns the lines of rc, unpacked if its first bytes are those of gzip.
// Other formats return an *unreadableError. It waits for the given number of bytes
// or the end: one byte for a pipe, so that lines are read as they arrive. It closes
// rc when the result is closed or if it returns an error.
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
		return joined{br, rc}, nil
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
	if wait < headSize {
		return joined{unpacked, rc}, nil
	}
	return joined{filling{unpacked}, rc}, nil
}

// filling fills what it reads into: a decompressor returns some KiB at a time, and large
// blocks are scanned while the next ones are decompressed.
type filling struct{ io.Reader }

// Read implements io.Reader.
func (f filling) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = f.Reader.Read(p[n:])
		n += k
	}
	return n, err
}

// peek returns the first bytes, at most headSize, once wait bytes have arrived or
// the input has ended.
func peek(br *bufio.Reader, wait int) ([]byte, error) {
	_, err := br.Peek(wait)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	head, _ := br.Peek(min(br.Buffered(), headSize))
	return head, err
}

// joined reads from one and closes the other.
type joined struct {
	io.Reader
	io.Closer
}

// cause removes the path from an error, for messages that already name it.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
