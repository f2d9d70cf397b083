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

	"crowsnest/matcher"
	"crowsnest/replay"
)

// Bounds of the buffer of one file.
const (
	minBuffer = 1 << 10 // judge needs the half of it
	maxBuffer = 64 << 10
)

var gzipMagic = []byte{0x1f, 0x8b}

// openFunc opens an input at its first line.
type openFunc = func() (io.ReadCloser, error)

// logFile is a regular file that is read as a log.
type logFile struct {
	c *collector
	// path opens the file, and labelled is the path that implies its labels.
	path, labelled string
	name           string // for people
	size           int64
	// apart means that the log has no pod, and that others have none either.
	apart bool
	state *state // state of the argument that names the file
}

// open opens the file, limited to the size that it had. One with size 0 may still have
// content, as in /proc.
func (l *logFile) open() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, cause(err)
	}
	if l.size == 0 {
		return lines(f, headSize, maxBuffer)
	}
	return lines(joined{io.LimitReader(f, l.size), f}, headSize, l.size)
}

// labels returns the labels of the log.
func (l *logFile) labels() matcher.Labels {
	labels := l.c.labels(l.labelled)
	if labels["filename"] == l.path {
		labels["filename"] = l.name
	}
	return l.complete(labels)
}

// complete adds the labels that depend on other files.
func (l *logFile) complete(labels matcher.Labels) matcher.Labels {
	if l.apart {
		labels[replay.FileLabel] = unrotated(l.name)
	}
	l.state.addImage(labels)
	return labels
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
			return lines(rc, 1, maxBuffer)
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
		return lines(f, headSize, maxBuffer)
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
// or the end: one byte for a pipe, so that lines are read as they arrive. size is about
// how many bytes rc has. It closes rc when the result is closed or if it returns an error.
func lines(rc io.ReadCloser, wait int, size int64) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, int(min(max(size, minBuffer), maxBuffer)))
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
