package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/klauspost/compress/gzip"

	"crowsnest/lab/inputs/envelope"
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
	name           string // name to show
	size           int64
	// content reads a log that is in memory; nil means that it is a file.
	content func() *bytes.Reader
	state   *state // state of the argument that names the file
	tally   tally
	// apart means that the log has no pod, and that others have none either.
	apart bool
}

// open opens the file, limited to the size that it had. One with size 0 may still have
// content, as in /proc.
func (l *logFile) open() (io.ReadCloser, error) {
	l.tally = tally{}
	if l.content != nil {
		return lines(io.NopCloser(l.content()), headSize, l.size, &l.tally)
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, cause(err)
	}
	if l.size == 0 {
		return lines(f, headSize, maxBuffer, &l.tally)
	}
	return lines(joined{io.LimitReader(f, l.size), f}, headSize, l.size, &l.tally)
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

// once returns a function that opens an input that can be read only once.
func once(open openFunc, t *tally) openFunc {
	return func() (io.ReadCloser, error) {
		rc, err := open()
		if err != nil {
			return nil, err
		}
		return lines(rc, 1, maxBuffer, t)
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
//
// The lines are UTF-8 without blocks of NUL bytes. t, if not nil, counts what they look like.
func lines(rc io.ReadCloser, wait int, size int64, t *tally) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, int(min(max(size, minBuffer), maxBuffer)))
	head, err := peek(br, wait)
	if err != nil {
		return nil, errors.Join(cause(err), rc.Close())
	}
	if !bytes.HasPrefix(head, gzipMagic) {
		if k, bad := judge(head); bad {
			return nil, errors.Join(&unreadableError{k}, rc.Close())
		}
		return joined{plain(br, head, t), rc}, nil
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
		return joined{plain(unpacked, head, t), rc}, nil
	}
	return joined{filling{plain(unpacked, head, t)}, rc}, nil
}

// plain returns the text of r as UTF-8, which t counts.
func plain(r io.Reader, head []byte, t *tally) io.Reader {
	text := envelope.NewText(r, head)
	if t == nil {
		return text
	}
	return &watched{text: text, tally: t, whole: true}
}

// watched counts the lines that are read.
type watched struct {
	text  *envelope.Text
	tally *tally
	read  int64
	whole bool // the next byte begins a line
	known bool // the line before was understood
}

// Of a block, so many lines are looked at; of the beginning of an input, all.
const (
	watchedLines = 64
	watchedBytes = 256 << 10
)

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.text.Read(p)
	b := p[:n]
	w.tally.nuls = uint32(min(w.text.NULs(), math.MaxUint32))
	if w.read += int64(n); n > 0 {
		w.look(b)
		w.whole = b[n-1] == '\n'
	}
	return n, err
}

func (w *watched) look(b []byte) {
	if !w.whole {
		k := bytes.IndexByte(b, '\n')
		if k < 0 {
			return
		}
		b = b[k+1:]
	}
	seen := 0
	for line := range bytes.Lines(b) {
		if seen++; seen > watchedLines && w.read > watchedBytes {
			return
		}
		w.known = envelope.Understood(line, w.known)
		w.tally.lines++
		if w.known {
			w.tally.understood++
		}
	}
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
