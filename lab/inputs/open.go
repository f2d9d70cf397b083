package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/lab/internal/unpack"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// Limits of the size of the read buffer for one file.
const (
	minBuffer = 1 << 10 // detectKind needs half of this size
	maxBuffer = 64 << 10
)

var gzipMagic = []byte{0x1f, 0x8b}

type logFile struct {
	c *collector
	// path is the path of the file. labelled is the path that implies the labels.
	path, labelled string
	name           string // name for people
	size           int64
	// content returns a reader for a log in memory. It is nil if the log is a file.
	content func() *bytes.Reader
	state   *state // data from the documents of the argument that contains the file
	tally   tally
	// apart reports whether the pod of the log and the pods of other logs are unknown, so that the logs need distinct
	// labels.
	apart bool
}

// open opens the file. Reading ends at the size that the file had when it was found. A file with size 0 is read to its
// end, because it may have content, as in /proc.
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

func (l *logFile) complete(labels matcher.Labels) matcher.Labels {
	if l.apart {
		labels[replay.FileLabel] = unrotated(l.name)
	}
	l.state.addImage(labels)
	return labels
}

func spool(r io.Reader, dir string) (path string, err error) {
	f, err := os.CreateTemp(dir, "input-*")
	if err != nil {
		return "", fmt.Errorf("copy the input, which must be read twice: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("copy the input, which must be read twice: %w", err)
	}
	return f.Name(), nil
}

// lines returns a reader for the lines of rc. It decompresses gzip. For other formats, it returns an *unreadableError.
// size is the approximate size of rc in bytes. lines closes rc if it returns an error; otherwise closing the result
// closes rc.
//
// The lines are UTF-8 without blocks of NUL bytes. The number of omitted bytes is added to nuls.
func lines(rc io.ReadCloser, size int64, nuls *int64) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(rc, int(min(max(size, minBuffer), maxBuffer)))
	head, err := peek(br)
	if err != nil {
		return nil, errors.Join(cause(err), rc.Close())
	}
	if !bytes.HasPrefix(head, gzipMagic) {
		if k, bad := detectKind(head); bad {
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
	if k, bad := detectKind(head); bad {
		return nil, errors.Join(&unreadableError{k}, rc.Close())
	}
	return joined{fullReader{envelope.NewText(unpacked, head, nuls)}, rc}, nil
}

// fullReader is a reader that fills the buffer in each call if possible. A decompressor returns only a few KiB at a
// time. Large blocks are better, because a block can be scanned while the next one is decompressed.
type fullReader struct{ io.Reader }

func (f fullReader) Read(p []byte) (n int, err error) {
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

type joined struct {
	io.Reader
	io.Closer
}

// cause returns an error without its path. It is for messages that already contain the path.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

const minBlock = 8

// headSize is the number of bytes that detectKind examines. It equals the size of a tar header.
const headSize = 512

// kind is a file format that does not consist of lines of text.
type kind struct {
	name string
	fix  string // what the user can do to read the file
	// alien reports whether files of this kind never contain logs, so that they are skipped in folders.
	alien bool
}

var (
	documentKind = kind{name: "a JSON document in which no field has lines of a log", fix: "export the lines as they were logged", alien: true}
	packedKind   = kind{name: "an archive or packed", fix: "unpack it and scan the folder"}
	journalKind  = kind{name: "a systemd journal", fix: "pass it as a file that is not packed"}
	rulePack     = kind{name: "a pack of rules", fix: "pass it with --rules", alien: true}
	binary       = kind{name: "not text", fix: "unpack or decrypt it, and pass the logs as text"}
	noLog        = kind{name: "a program, a picture or a document", alien: true}
)

var programs = []string{"\x7fELF", "MZ", "\xca\xfe\xba\xbe", "\xcf\xfa\xed\xfe", "\x00asm", "\xed\xab\xee\xdb"}

var packHead = lazyre.New(`\A(?:#[^\n]*\n|---[^\n]*\n|\s*\n)*pack: *(?:\{ *(?:name|version):|\r?\n +(?:name|version):)`)

// detectKind returns the kind of an input from its first bytes. It returns false for lines of text.
func detectKind(head []byte) (kind, bool) {
	media, _, _ := strings.Cut(http.DetectContentType(head), "/")
	foreign := slices.Contains([]string{"image", "audio", "video", "font"}, media) ||
		slices.ContainsFunc(programs, func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) })
	isText := envelope.IsWide(head) || !isBinary(head)
	switch {
	case unpack.MayBe(head):
		return packedKind, true
	case bytes.HasPrefix(head, []byte(journalMagic)):
		return journalKind, true
	case packHead.Match(head):
		return rulePack, true
	case foreign && (!isText || head[0] >= 0x7f || head[0] == 0), bytes.HasPrefix(head, []byte("%PDF-")): // the text of a log may also begin with MZ
		return noLog, true
	}
	return binary, !isText
}

var withoutSpace = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "")

// isDocument reports whether head is the beginning of a single JSON value, such as an array of objects, an object over
// several lines, or Loki's response to a query. It returns false for JSON with one value on each line.
func isDocument(head []byte) bool {
	first, rest, more := bytes.Cut(head, []byte("\n"))
	first = bytes.TrimRight(first, " \t\r")
	compact := withoutSpace.Replace(string(head))
	switch {
	case more && (string(first) == "{" || string(first) == "["):
		rest = bytes.TrimSpace(rest)
		return len(rest) > 0 && strings.ContainsRune("\"{[", rune(rest[0]))
	case strings.HasPrefix(compact, `[{"`), strings.HasPrefix(compact, `{"events":[{`), strings.HasPrefix(compact, `{"status":"success","data":{`):
		return true
	}
	return false
}

// isBinary reports whether head contains bytes that do not occur in text. It ignores blocks of NUL bytes, because a
// power failure can leave them. It also ignores a few bytes of another character set.
func isBinary(head []byte) bool {
	head = bytes.Trim(head, "\x00")
	for part := range bytes.SplitSeq(head, make([]byte, minBlock)) {
		if bytes.IndexByte(bytes.Trim(part, "\x00"), 0) >= 0 {
			return true
		}
	}
	head = bytes.ReplaceAll(head, []byte{0}, nil)
	foreign := 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		broken := r == utf8.RuneError && size == 1 && (utf8.FullRune(rest) || len(rest) >= utf8.UTFMax)
		if broken || r < ' ' && !bytes.ContainsRune([]byte("\t\n\r\v\f\b\x1b"), r) {
			foreign++
		}
		rest = rest[size:]
	}
	return foreign > len(head)*3/10
}

type unreadableError struct{ kind kind }

func (e *unreadableError) Error() string {
	if e.kind.fix == "" {
		return "is " + e.kind.name + ", not a log"
	}
	return fmt.Sprintf("is %s, not log lines; %s", e.kind.name, e.kind.fix)
}
