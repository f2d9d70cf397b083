package strictyaml

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxSnippet is the maximum length of a snippet in bytes.
const maxSnippet = 400

// source is the text of one file. It is immutable and safe for concurrent use.
type source struct {
	name string
	// load sets the other fields when they are first needed. It is nil if they are set.
	load func()
	data []byte
	// starts are the offsets of the lines as editors count them. Each \n ends a line.
	starts []int
	// breaks are the lines as YAML counts them. In YAML, a \r without \n and three rare characters also end a line.
	breaks []yamlLine
	last   int // number of the last line that is not blank
}

// yamlLine is the start of a line. characters holds the offsets of all characters and of the end of the line. It is set
// only if the line contains multi-byte characters.
type yamlLine struct {
	start      int
	characters []int
}

// text returns s after it has read the file if that was still necessary.
func (s *source) text() *source {
	if s.load != nil {
		s.load()
	}
	return s
}

func (s *source) indexLines(data []byte) {
	lines := bytes.Count(data, []byte("\n")) + 1
	s.data, s.starts, s.breaks = data, make([]int, 1, lines), make([]yamlLine, 0, lines)
	begin := len(data) - len(bytes.TrimPrefix(data, bom))
	for i := 0; i < len(data); i++ {
		width := breakWidth(data[i:])
		if width == 0 {
			continue
		}
		if data[i+width-1] == '\n' {
			s.starts = append(s.starts, i+width)
		}
		s.breaks = append(s.breaks, newYAMLLine(data, begin, i))
		begin = i + width
		i += width - 1
	}
	s.breaks = append(s.breaks, newYAMLLine(data, begin, len(data)))
	s.last = max(1, sort.SearchInts(s.starts, len(bytes.TrimRightFunc(data, unicode.IsSpace))))
}

func newYAMLLine(data []byte, start, end int) yamlLine {
	l := yamlLine{start: start}
	if slices.ContainsFunc(data[start:end], func(c byte) bool { return c >= utf8.RuneSelf }) {
		for i := range string(data[start:end]) {
			l.characters = append(l.characters, start+i)
		}
		l.characters = append(l.characters, end)
	}
	return l
}

// breakWidth returns the length of the line break at the start of b, or 0 if there is none.
func breakWidth(b []byte) int {
	switch b[0] {
	case '\n':
		return 1
	case '\r':
		if len(b) > 1 && b[1] == '\n' {
			return 2
		}
		return 1
	case 0xC2:
		if len(b) > 1 && b[1] == 0x85 {
			return 2
		}
	case 0xE2:
		if len(b) > 2 && b[1] == 0x80 && (b[2] == 0xA8 || b[2] == 0xA9) {
			return 3
		}
	}
	return 0
}

// yamlPos converts a position of the YAML library, in lines and characters as YAML counts them, to a position in lines
// and bytes as editors count them. All numbers count from 1.
func (s *source) yamlPos(line, column int) Pos {
	if line < 1 || line > len(s.breaks) {
		return Pos{src: s, Line: len(s.starts), Column: 1}
	}
	l := s.breaks[line-1]
	column = max(column-1, 0)
	at := l.start + column
	if last := len(l.characters) - 1; column <= last {
		at = l.characters[column]
	} else if last >= 0 {
		at = l.characters[last] + column - last
	}
	return s.posOf(min(at, len(s.data)))
}

func (s *source) posOf(pos int) Pos {
	i := sort.SearchInts(s.starts, pos+1) - 1
	return Pos{src: s, Line: i + 1, Column: pos - s.starts[i] + 1}
}

// line returns line n, counted from 1, without its end.
func (s *source) line(n int) string { return string(s.lineBytes(n)) }

func (s *source) lineBytes(n int) []byte {
	s.text()
	if n < 1 || n > len(s.starts) {
		return nil
	}
	end := len(s.data)
	if n < len(s.starts) {
		end = s.starts[n]
	}
	return bytes.TrimRight(s.data[s.starts[n-1]:end], "\r\n")
}

// Text is a file for which positions can be created before the file is read.
type Text struct{ src *source }

// NewText returns the Text of a file. read is called at most once, when a line of the file is first needed. The bytes
// that it returns must not change.
func NewText(name string, read func() []byte) *Text {
	s := &source{name: name}
	s.load = sync.OnceFunc(func() { s.indexLines(read()) })
	return &Text{s}
}

// Pos returns the position of a line and of a byte in the line, both counted from 1.
func (t *Text) Pos(line, column int) Pos { return Pos{src: t.src, Line: line, Column: column} }

// Pos is a position in a file. The zero value means no position.
type Pos struct {
	src    *source
	Line   int // line number, counted from 1
	Column int // number of the byte in the line, counted from 1
}

// IsZero reports whether p is the zero value.
func (p Pos) IsZero() bool { return p.Line == 0 }

// File returns the name of the file, or "" for the zero value.
func (p Pos) File() string {
	if p.src == nil {
		return ""
	}
	return p.src.name
}

// String returns "file:line".
func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File(), p.Line) }

// Within returns the position of an offset in a scalar that starts at p and has this value. It returns p if the value
// does not occur verbatim on one line of the file.
func (p Pos) Within(value string, offset int) Pos {
	text := p.restOfLine()
	if len(text) == 0 || offset <= 0 || offset > len(value) {
		return p
	}
	quote := 0
	if text[0] == '"' || text[0] == '\'' {
		quote = 1
	}
	if !bytes.HasPrefix(text[quote:], []byte(value[:offset])) {
		return p
	}
	p.Column += quote + offset
	return p
}

// Problem returns a problem at this position. Its snippet is the text of the line.
func (p Pos) Problem(level Level, check, message, fix string) Problem {
	out := Problem{
		File: p.File(), Line: p.Line, Column: p.Column,
		Level: level, Check: check, Message: message, Fix: fix,
	}
	if p.src != nil {
		out.Snippet = safeSnippet(p.src.lineBytes(p.Line), p.Column)
	}
	return out
}

// LineText returns line n of the file, counted from 1, without its line end.
func (p Pos) LineText(n int) string {
	if p.src == nil {
		return ""
	}
	return p.src.line(n)
}

// Until returns the text from p to q if both are on the same line, otherwise the text from p to the end of the line.
func (p Pos) Until(q Pos) string {
	text := p.restOfLine()
	if q.Line == p.Line {
		text = text[:max(0, min(len(text), q.Column-p.Column))]
	}
	return string(text)
}

func (p Pos) restOfLine() []byte {
	if p.src == nil {
		return nil
	}
	text := p.src.lineBytes(p.Line)
	return text[min(max(p.Column-1, 0), len(text)):]
}

// TextAfter returns the rest of the line after text, truncated to 200 bytes. ok is false unless text occurs verbatim
// and unquoted at p.
func (p Pos) TextAfter(text string) (rest string, ok bool) {
	line, ok := bytes.CutPrefix(p.restOfLine(), []byte(text))
	if !ok || p.IsZero() {
		return "", false
	}
	return string(line[:min(len(line), 200)]), true
}

// End returns the position of the last byte of the file that is not white space.
func (p Pos) End() Pos {
	if p.src == nil {
		return p
	}
	return p.src.posOf(max(0, len(bytes.TrimRight(p.src.text().data, " \t\r\n"))-1))
}

// LastLine returns the number of the last line that is not blank.
func (p Pos) LastLine() int {
	if p.src == nil {
		return 0
	}
	return p.src.text().last
}

// safeSnippet makes a line safe for a terminal, because files are not trusted. It keeps byte offsets, so that a caret
// can mark the column.
func safeSnippet(line []byte, column int) string {
	if column > maxSnippet {
		return ""
	}
	b := bytes.Clone(line[:min(len(line), maxSnippet)])
	for i := 0; i < len(b); {
		r, width := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && width == 1 || r < ' ' && r != '\t' || r >= 0x7F && r < 0xA0 || isUnprintable(r) {
			for j := range width {
				b[i+j] = '?'
			}
		}
		i += width
	}
	return string(b)
}

// isUnprintable reports whether r is invisible or affects how adjacent characters are displayed.
func isUnprintable(r rune) bool {
	return r >= 0x200B && r <= 0x200F || r >= 0x2028 && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0xFEFF
}
