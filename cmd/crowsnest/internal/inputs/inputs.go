// Package inputs finds recorded logs: files, folders, gzip, standard input.
package inputs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"crowsnest/matcher"
	"crowsnest/replay"
)

// Stdin is the argument that stands for standard input.
const Stdin = "-"

var gzipMagic = []byte{0x1f, 0x8b}

// Options say how logs are found.
type Options struct {
	// Labels are given to every input; they win over those of its path.
	Labels matcher.Labels
	// PathLabels returns the labels that a path states, such as that of a pod
	// log; nil: none.
	PathLabels func(path string) (matcher.Labels, bool)
	// Stdin is read for Stdin.
	Stdin io.Reader
	// Spool is a folder for copies of what can be read only once, such as
	// standard input, so that the inputs can be opened several times; "": they
	// cannot. The caller removes it.
	Spool string
}

// Skipped is a file in a folder that was passed over.
type Skipped struct {
	Path, Reason string
}

// Collect returns the logs behind the arguments: files, folders with all that
// is in them, or Stdin. An error names what is not there; files in folders that
// are not logs are skipped and reported instead. Of a file that grows, what it
// has at the time of the call is read.
func Collect(args []string, opt Options) ([]replay.Input, []Skipped, error) {
	c := &collector{opt: opt, seen: map[string]bool{}}
	var errs []error
	for _, arg := range args {
		if err := c.add(arg); err != nil {
			errs = append(errs, err)
		}
	}
	return c.inputs, c.skipped, errors.Join(errs...)
}

type collector struct {
	opt     Options
	inputs  []replay.Input
	skipped []Skipped
	seen    map[string]bool // real paths
}

func (c *collector) add(arg string) error {
	if arg == Stdin {
		c.inputs = append(c.inputs, replay.Input{
			Name: "stdin", Labels: c.labels(""),
			Open: c.once(func() (io.ReadCloser, error) { return io.NopCloser(c.opt.Stdin), nil }),
		})
		return nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return fmt.Errorf("open %s: %w", arg, cause(err))
	}
	if info.IsDir() {
		return c.addFolder(arg)
	}
	c.addFile(arg, info)
	return nil
}

// cause takes the path out of an error that names it again.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (c *collector) addFolder(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			c.skip(path, cause(err).Error())
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		c.found(path)
		return nil
	})
}

// found takes one entry of a folder if it is a log. Links to files are
// followed, as in /var/log/containers.
func (c *collector) found(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		c.skip(path, cause(err).Error())
		return
	case !info.Mode().IsRegular():
		if !info.IsDir() {
			c.skip(path, "not a regular file")
		}
		return
	}
	if binary, err := isBinary(path); err != nil {
		c.skip(path, cause(err).Error())
		return
	} else if binary {
		c.skip(path, "not text")
		return
	}
	c.addFile(path, info)
}

func (c *collector) skip(path, reason string) {
	c.skipped = append(c.skipped, Skipped{Path: path, Reason: reason})
}

// addFile adds a file once, by whichever name it is found first.
func (c *collector) addFile(path string, info fs.FileInfo) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	if abs, err := filepath.Abs(real); err == nil {
		real = abs
	}
	if c.seen[real] {
		return
	}
	c.seen[real] = true
	labels := c.labels(path)
	if len(labels) == len(c.opt.Labels) && real != path {
		labels = c.labels(real)
	}
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, cause(err)
		}
		return f, nil
	}
	c.inputs = append(c.inputs, replay.Input{Name: path, Labels: labels, Open: c.opener(open, info)})
}

// opener opens a file as it is now. One that is not regular can be read once; one
// without a size may still have content, as in /proc.
func (c *collector) opener(open func() (io.ReadCloser, error), info fs.FileInfo) func() (io.ReadCloser, error) {
	if !info.Mode().IsRegular() {
		return c.once(open)
	}
	return func() (io.ReadCloser, error) {
		rc, err := open()
		if err == nil && info.Size() > 0 {
			rc = &joined{Reader: io.LimitReader(rc, info.Size()), close: rc.Close}
		}
		if err != nil {
			return nil, err
		}
		return decompress(rc)
	}
}

// once opens what can be read only once: where there is a folder for copies,
// through a copy of it.
func (c *collector) once(open func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	if c.opt.Spool == "" {
		return func() (io.ReadCloser, error) {
			rc, err := open()
			if err != nil {
				return nil, err
			}
			return decompress(rc)
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
		return decompress(f)
	}
}

// spool copies what open returns to a file in a folder.
func spool(open func() (io.ReadCloser, error), dir string) (path string, err error) {
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

func (c *collector) labels(path string) matcher.Labels {
	labels := matcher.Labels{}
	if path != "" && c.opt.PathLabels != nil {
		if own, ok := c.opt.PathLabels(path); ok {
			maps.Copy(labels, own)
		}
	}
	maps.Copy(labels, c.opt.Labels)
	return labels
}

// decompress unpacks gzip, which it knows by its first bytes and not by a name.
// It closes rc when the result is closed.
func decompress(rc io.ReadCloser) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, 64<<10)
	head, err := br.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(cause(err), rc.Close())
	}
	if !bytes.Equal(head, gzipMagic) {
		return &joined{Reader: br, close: rc.Close}, nil
	}
	zr, err := gzip.NewReader(br)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack gzip: %w", err), rc.Close())
	}
	return &joined{Reader: zr, close: rc.Close}, nil
}

type joined struct {
	io.Reader
	close func() error
}

// Close closes what is read from.
func (j *joined) Close() error { return j.close() }

// archives are formats that hold files, not lines.
var archives = [][]byte{[]byte("PK\x03\x04"), []byte("\xfd7zXZ\x00"), []byte("BZh"), []byte("\x28\xb5\x2f\xfd"), []byte("\x7fELF"), []byte("%PDF")}

// isBinary looks at the first bytes of a file.
func isBinary(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	head = head[:n]
	if bytes.HasPrefix(head, gzipMagic) {
		return false, nil
	}
	binary := slices.ContainsFunc(archives, func(magic []byte) bool { return bytes.HasPrefix(head, magic) })
	return binary || looksBinary(head), nil
}

// looksBinary finds NUL bytes that are not the hole at the start of a file that
// a power failure leaves.
func looksBinary(head []byte) bool {
	rest := bytes.TrimLeft(head, "\x00")
	return bytes.IndexByte(rest, 0) >= 0
}
