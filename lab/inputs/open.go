package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"

	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// Limits of the buffer of one file.
const (
	minBuffer = 1 << 10 // judge needs half of it
	maxBuffer = 64 << 10
)

var gzipMagic = []byte{0x1f, 0x8b}

// logFile is a regular file that is read as a log.
type logFile struct {
	c *collector
	// path is used to open the file; labelled is the path that implies its labels.
	path, labelled string
	name           string // name for people
	size           int64
	// content returns a reader of a log that is in memory; nil if the log is a file.
	content func() *bytes.Reader
	state   *state // state of the argument that names the file
	tally   tally
	// apart reports whether the log has no pod and there are other logs without a pod.
	apart bool
}

// open opens the file, limited to the size that it had. A file with size 0 is not limited,
// because it may still have content, as in /proc.
func (l *logFile) open() (io.ReadCloser, error) {
	l.tally.nuls = 0
	if l.content != nil {
		return lines(io.NopCloser(l.content()), l.size, &l.tally.nuls)
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, cause(err)
	}
	if l.size == 0 {
		return lines(f, maxBuffer, &l.tally.nuls)
	}
	return lines(joined{io.LimitReader(f, l.size), f}, l.size, &l.tally.nuls)
}

func (l *logFile) labels() matcher.Labels {
	labels := l.c.labels(l.labelled)
	if labels["filename"] == l.path {
		labels["filename"] = l.name
	}
	return l.complete(labels)
}

// complete returns labels with those added that depend on other files.
func (l *logFile) complete(labels matcher.Labels) matcher.Labels {
	if l.apart {
		labels[replay.FileLabel] = unrotated(l.name)
	}
	l.state.addImage(labels)
	return labels
}

// spool copies r into a file in the folder dir, and returns the path of the file.
func spool(r io.Reader, dir string) (path string, err error) {
	f, err := os.CreateTemp(dir, "input-*")
	if err != nil {
		return "", fmt.Errorf("copy it to read it twice: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("copy it to read it twice: %w", err)
	}
	return f.Name(), nil
}

// lines returns the lines of rc, and unpacks gzip. For other formats it returns an
// *unreadableError. size is the approximate number of bytes of rc. rc is closed when the result
// is closed, or if lines returns an error.
//
// The lines are UTF-8 without blocks of NUL bytes. The number of omitted bytes is added to
// nuls.
func lines(rc io.ReadCloser, size int64, nuls *int64) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, int(min(max(size, minBuffer), maxBuffer)))
	head, err := peek(br)
	if err != nil {
		return nil, errors.Join(cause(err), rc.Close())
	}
	if !bytes.HasPrefix(head, gzipMagic) {
		if k, bad := judge(head); bad {
			return nil, errors.Join(&unreadableError{k}, rc.Close())
		}
		return joined{envelope.NewText(br, head, nuls), rc}, nil
	}
	zr, err := gzip.NewReader(br)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack gzip: %w", err), rc.Close())
	}
	unpacked := bufio.NewReaderSize(zr, 64<<10)
	if head, err = peek(unpacked); err != nil && len(head) == 0 {
		return nil, errors.Join(fmt.Errorf("unpack gzip: %w", err), rc.Close())
	}
	if k, bad := judge(head); bad {
		return nil, errors.Join(&unreadableError{k}, rc.Close())
	}
	return joined{filling{envelope.NewText(unpacked, head, nuls)}, rc}, nil
}

// filling is a reader that fills the whole buffer in each call. A decompressor returns only
// some KiB at a time, and large blocks can be scanned while the next ones are decompressed.
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

// peek returns the first bytes, at most headSize, without consuming them.
func peek(br *bufio.Reader) ([]byte, error) {
	head, err := br.Peek(headSize)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, err
}

// joined reads from one object and closes another.
type joined struct {
	io.Reader
	io.Closer
}

// cause returns an error without its path, for messages that already name the path.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
