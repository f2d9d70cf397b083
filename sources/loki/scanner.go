package loki

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a response.
const maxDepth = 500

// scanner parses JSON without building a tree. It unescapes strings in place: they
// share the memory of the input.
type scanner struct {
	b     []byte
	i     int
	depth int
}

func (s *scanner) wrong(format string, args ...any) error {
	return fmt.Errorf("the response is not what Loki sends: %s (byte %d)", fmt.Sprintf(format, args...), s.i)
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) want(c byte) error {
	if s.peek() != c || s.i >= len(s.b) {
		return s.unexpected(string(rune(c)))
	}
	s.i++
	return nil
}

func (s *scanner) unexpected(want string) error {
	if s.i >= len(s.b) {
		return s.wrong("it ends early")
	}
	return s.wrong("there is %q where %s should be", s.b[s.i], want)
}

// end requires that only white space follows.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.unexpected("the end")
	}
	return nil
}

// optional calls read if the next value starts with c, and skips the value otherwise.
func (s *scanner) optional(c byte, read func() error) error {
	if s.peek() == c {
		return read()
	}
	return s.skip()
}

// object calls field for each name; field must consume the value. A name is valid
// until then.
func (s *scanner) object(field func(name []byte) error) error {
	return s.list('{', '}', func() error {
		if s.peek() != '"' {
			return s.unexpected("a name")
		}
		name, err := s.quoted()
		if err != nil {
			return err
		}
		if err := s.want(':'); err != nil {
			return err
		}
		return field(name)
	})
}

// array calls element for each element; it must consume it.
func (s *scanner) array(element func() error) error { return s.list('[', ']', element) }

func (s *scanner) list(open, end byte, member func() error) error {
	if err := s.want(open); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return s.wrong("it nests too deep")
	}
	defer func() { s.depth-- }()
	if s.peek() == end && s.i < len(s.b) {
		s.i++
		return nil
	}
	for {
		if err := member(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case end:
			s.i++
			return nil
		default:
			return s.unexpected(", or " + string(rune(end)))
		}
	}
}

// text consumes a value and returns it if it is a string.
func (s *scanner) text() (text []byte, ok bool, err error) {
	if s.peek() != '"' {
		return nil, false, s.skip()
	}
	text, err = s.quoted()
	return text, err == nil, err
}

// skip consumes a value of any kind.
func (s *scanner) skip() error {
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip() })
	case '[':
		return s.array(s.skip)
	case '"':
		_, err := s.quoted()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.unexpected(word)
	}
	s.i += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if s.digits() == 0 {
		return s.unexpected("a value")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	return nil
}

func (s *scanner) digits() int {
	n := 0
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
		n++
	}
	return n
}

// quoted consumes a string in quotes.
func (s *scanner) quoted() ([]byte, error) {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], nil
		case c == '\\':
			return s.unescaped(start)
		case c < ' ':
			return nil, s.unexpected("a character of a text")
		}
		s.i++
	}
	return nil, s.unexpected("a quote")
}

// unescaped continues at the first backslash. Unescaped text never needs more room
// than the escaped one.
func (s *scanner) unescaped(start int) ([]byte, error) {
	out := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return s.b[start:out], nil
		case c < ' ':
			return nil, s.unexpected("a character of a text")
		case c != '\\':
			s.b[out] = c
			out++
			s.i++
		default:
			n, err := s.escape(s.b[out:out:len(s.b)])
			if err != nil {
				return nil, err
			}
			out += n
		}
	}
	return nil, s.unexpected("a quote")
}

// escapes maps the letters after a backslash that stand for one byte.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape writes the unescaped text over the escape or before it.
func (s *scanner) escape(dst []byte) (n int, err error) {
	if s.i+1 >= len(s.b) {
		s.i = len(s.b)
		return 0, s.unexpected("an escape")
	}
	letter := s.b[s.i+1]
	if c := escapes[letter]; c != 0 {
		s.i += 2
		return len(append(dst, c)), nil
	}
	r, ok := s.hex(s.i)
	if !ok {
		return 0, s.unexpected("an escape")
	}
	s.i += 6
	if utf16.IsSurrogate(r) {
		low, _ := s.hex(s.i)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			s.i += 6
		}
	}
	return len(utf8.AppendRune(dst, r)), nil
}

// hex parses \u and four digits at i.
func (s *scanner) hex(i int) (r rune, ok bool) {
	if i+6 > len(s.b) || s.b[i] != '\\' || s.b[i+1] != 'u' {
		return 0, false
	}
	for _, c := range s.b[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
