package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"crowsnest/internal/lazyre"
)

// Limits of a file.
const (
	DefaultMaxBytes = 1 << 20
	maxDepth        = 64
	// MaxValues is the maximum number of values in a file. Each value needs hundreds of bytes of memory.
	MaxValues = 200_000
	// maxAliased is the maximum number of values to which the aliases in a file may expand.
	maxAliased = 100_000
	// maxProblems is the maximum number of problems that are reported for a file.
	maxProblems = 1000
	// maxConstruct is the assumed maximum number of lines of a bracketed list or a quoted text. The search for the
	// position of a syntax error uses it.
	maxConstruct = 15
	// maxSearched is the maximum number of bytes that the search for the position of a syntax error parses.
	maxSearched = 4 << 20
)

const (
	secondDocument    = "a second YAML document starts here and would be ignored"
	secondDocumentFix = "put it into a file of its own"
)

var (
	bom      = []byte("\xEF\xBB\xBF")
	lineRef  = lazyre.New(`^line (\d+): `)
	okIndent = lazyre.New(`^[ ]*\t`)
)

// Options configure decoding. The zero value suits most files.
type Options struct {
	// MaxBytes is the maximum size of a file in bytes. Zero means DefaultMaxBytes.
	MaxBytes int
	// AllowEmpty makes a file without content an empty mapping instead of an error.
	AllowEmpty bool
}

// Decode decodes a YAML document into the struct to which into points. It returns all problems in the order of their
// positions. Keys with problems have zero values. into is complete if there are no errors. It may share memory with
// data, which must not change afterwards.
//
// The yaml tag of a struct field is its key. `yaml:"-"` omits the field, and `yaml:",inline"` promotes the fields of an
// embedded struct. The tag `strict:"required"` requires the key, `strict:"anchors"` allows anchors and aliases inside
// the value, and `bounds:"min,max"` limits the value to a Range.
func Decode(file string, data []byte, into any, opt Options) Problems {
	doc, problems := Parse(file, data, opt)
	if doc == nil {
		return problems
	}
	return append(problems, doc.Decode(into)...)
}

// Document is a file that was parsed but not yet decoded.
type Document struct {
	src  *source
	root *yaml.Node // root node; nil for an empty file with AllowEmpty
}

// Parse parses one YAML document, whose root is a mapping. The result is nil if there are problems.
func Parse(file string, data []byte, opt Options) (*Document, Problems) {
	limit := opt.MaxBytes
	if limit == 0 {
		limit = DefaultMaxBytes
	}
	whole := Pos{src: &source{name: file}}
	if logLine.Match(data) {
		p := whole.Problem(Error, "yaml-syntax", "this is a log and not YAML", "name a YAML file here; logs are arguments of crowsnest scan")
		p.Line, p.Column = 1, 1
		return nil, Problems{p}
	}
	if len(data) > limit {
		return nil, Problems{whole.Problem(Error, "too-large", fmt.Sprintf("the file has %d bytes, more than %d", len(data), limit), "split it")}
	}
	src := whole.src
	src.indexLines(data)
	if ps := src.checkBytes(); ps != nil {
		return nil, ps
	}
	if at := TooManyAt(data); at >= 0 {
		return nil, Problems{src.posOf(at).Problem(Error, "too-large", fmt.Sprintf("the file has more than %d values", MaxValues), "split it")}
	}
	root, ps := src.parse()
	if ps != nil {
		return nil, ps
	}
	if root == nil {
		if opt.AllowEmpty {
			return &Document{src: src}, nil
		}
		return nil, Problems{whole.Problem(Error, "empty-file", "the file has no content", "remove it, or write it again if it was truncated")}
	}
	if root.Kind != yaml.MappingNode {
		d := &decoder{src: src}
		n := &Node{d: d, n: root, pos: d.nodePos(root), name: "the file"}
		n.Error("wrong-type", "the file is "+kindName(root)+", but must be a mapping of keys to values", "start it with a key, such as `pack:`")
		return nil, d.problems
	}
	return &Document{src: src, root: root}, nil
}

// Has reports whether the root mapping has the key.
func (d *Document) Has(name string) bool { return d.findKey(name) != nil }

// KeyPos returns the position of a key of the root mapping, or Start if the key is absent.
func (d *Document) KeyPos(name string) Pos {
	if k := d.findKey(name); k != nil {
		return d.src.yamlPos(k.Line, k.Column)
	}
	return d.Start()
}

// Start returns the position at which the content of the file starts.
func (d *Document) Start() Pos {
	if d.root == nil {
		return d.src.posOf(0)
	}
	return d.src.yamlPos(d.root.Line, d.root.Column)
}

func (d *Document) findKey(name string) *yaml.Node {
	if d.root == nil {
		return nil
	}
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		if d.root.Content[i].Value == name {
			return d.root.Content[i]
		}
	}
	return nil
}

// Decode decodes the document into the struct that into points to.
func (d *Document) Decode(into any) Problems {
	dec := &decoder{src: d.src, shapes: map[reflect.Type]*shape{}}
	if d.root != nil {
		n := &Node{d: dec, n: d.root, pos: d.Start(), name: "the file"}
		n.Decode(into)
	}
	dec.problems.Sort()
	return dec.problems
}

// checkBytes reports bytes that YAML does not allow, and signs of a damaged file.
func (s *source) checkBytes() Problems {
	if i := bytes.IndexByte(s.data, 0); i >= 0 {
		return Problems{s.posOf(i).Problem(Error, "encoding", "the file has a NUL byte: it was half written, or is not text", "write it again")}
	}
	if bytes.HasPrefix(s.data, []byte{0xFF, 0xFE}) || bytes.HasPrefix(s.data, []byte{0xFE, 0xFF}) {
		return Problems{Pos{src: s}.Problem(Error, "encoding", "the file is UTF-16", "save it as UTF-8")}
	}
	if utf8.Valid(s.data) {
		return nil
	}
	for i, r := range string(s.data) {
		if r == utf8.RuneError && !bytes.HasPrefix(s.data[i:], []byte("\uFFFD")) {
			return Problems{s.posOf(i).Problem(Error, "encoding", fmt.Sprintf("byte 0x%02x is not UTF-8", s.data[i]), "save the file as UTF-8")}
		}
	}
	return nil
}

// TooManyAt returns the offset at which data exceeds MaxValues values, or -1 if data does not exceed them. It does not
// parse data. It counts the characters that begin and separate values, also inside texts.
func TooManyAt(data []byte) int {
	if len(data) <= MaxValues {
		return -1
	}
	n := 0
	for i, c := range data {
		switch c {
		case ',', '[', '{':
			n++
		case ':', '-', '?':
			if i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\n' || data[i+1] == '\r' {
				n++
			}
		default:
			continue
		}
		if n > MaxValues {
			return i
		}
	}
	return -1
}

// parse returns the root of the only document, or nil if there is no document.
func (s *source) parse() (*yaml.Node, Problems) {
	first, second, err := readDocuments(s.data)
	if err != nil {
		return nil, Problems{s.syntaxProblem(err)}
	}
	if second != nil {
		return nil, Problems{s.yamlPos(second.Line, second.Column).Problem(Error, "second-document", secondDocument, secondDocumentFix)}
	}
	if first == nil || len(first.Content) == 0 {
		return nil, nil
	}
	root := first.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Value == "" {
		return nil, nil
	}
	return root, nil
}

// readDocuments parses the first two documents of a file. A document that does not exist is nil.
func readDocuments(data []byte) (first, second *yaml.Node, err error) {
	// The library panics on some damaged input.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	docs := [2]*yaml.Node{}
	for i := range docs {
		n := new(yaml.Node)
		err := dec.Decode(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		docs[i] = n
	}
	return docs[0], docs[1], nil
}

// logLine matches the beginning of a log: klog, timestamp, syslog, logfmt or JSON.
var logLine = lazyre.New(`^(?:[IWEF]\d{4} \d\d:\d\d|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |(?:ts|time|level)=|\{ *"(?:ts|time|timestamp|@timestamp|level|msg|log)" *:)`)

// syntaxProblem returns the problem for a syntax error, with its position. The library only reports the line of the
// surrounding construct, which is often off by one.
func (s *source) syntaxProblem(err error) Problem {
	msg := lineRef.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
	n := s.firstBadLine()
	if stated := lineRef.FindStringSubmatch(strings.TrimPrefix(err.Error(), "yaml: ")); n == 0 && stated != nil {
		n, _ = strconv.Atoi(stated[1])
	}
	n = min(max(n, 1), len(s.starts))
	text := s.line(n)
	column := len(text) - len(strings.TrimLeft(text, " ")) + 1
	p := Pos{src: s, Line: n, Column: column}
	fix := "check indentation, quotes and brackets here and on the line before"
	found := s.findMistake(n)
	if found != nil {
		p = s.posOf(found.at)
	}
	switch {
	case okIndent.MatchString(text):
		p.Column = column
		msg, fix = "a tab indents this line", "indent with spaces"
	case strings.Contains(msg, "<document start>"):
		return p.Problem(Error, "second-document", secondDocument, secondDocumentFix)
	case strings.Contains(msg, "unknown anchor"):
		return p.Problem(Error, "anchor", "alias of an "+msg, "quote it if text is meant; or define the anchor (&name) before its alias, in the tests of the same file")
	case found != nil:
		msg, fix = found.msg, found.fix
	case n == len(s.starts) || s.restIsBlank(n):
		fix = "the file ends here: it was cut off, or a bracket or quote is not closed"
	}
	return p.Problem(Error, "yaml-syntax", "this is not YAML: "+msg, fix)
}

func (s *source) restIsBlank(line int) bool {
	return line < len(s.starts) && len(bytes.TrimSpace(s.data[s.starts[line]:])) == 0
}

// firstBadLine returns the first line after which the file cannot be parsed any more, however much of the rest is read.
// Either this line is wrong, or it opens a construct that is never closed. The result is 0 if the file is too large to
// search.
func (s *source) firstBadLine() int {
	searched := 0
	parses := func(lines int) bool {
		searched += s.starts[lines]
		_, _, err := readDocuments(s.data[:s.starts[lines]])
		return err == nil
	}
	good, bad := 0, len(s.starts) // numbers of lines: the first good lines can be parsed, the first bad lines cannot
	for bad-good > 1 {
		if searched > maxSearched {
			return 0
		}
		mid := (good + bad) / 2
		// A construct of several lines can be parsed only as a whole.
		ok := -1
		for n := min(bad-1, mid+maxConstruct); n >= mid && ok < 0; n-- {
			if parses(n) {
				ok = n
			}
		}
		if ok >= 0 {
			good = ok
		} else {
			bad = mid
		}
	}
	return min(good+1, len(s.starts))
}
