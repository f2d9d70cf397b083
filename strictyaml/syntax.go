package strictyaml

import (
	"bytes"
	"fmt"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
)

// mistake is what is wrong with a text that is not YAML.
type mistake struct {
	at       int // offset in the file
	msg, fix string
}

var (
	blockKey = lazyre.New(`^((?:"[^"]*"|'[^']*'|[^\s"'{}\[\],#&*!|>%@\x60:][^:#]*?)\s*:)(?:\s|$)`)
	noSpace  = lazyre.New(`^[A-Za-z_]+:\S`)
	header   = lazyre.New(`^[|>][-+0-9]{0,2}\s*(#.*)?$`)
)

// findMistake looks for the usual mistakes in the line that breaks the file, and in the
// bracketed or quoted value that begins there; nil if it has none of them.
func (s *source) findMistake(line int) *mistake {
	column := s.keyColumn(line)
	rest, at := s.line(line)[column:], s.starts[line-1]+column
	isKey := blockKey.FindStringSubmatch(rest)
	if isKey == nil {
		if noSpace.MatchString(rest) {
			colon := strings.IndexByte(rest, ':') + 1
			return &mistake{at + colon, "there is no space after the colon of a key", "write " + rest[:colon] + " " + shorten(rest[colon:])}
		}
		return s.findInValue(at)
	}
	value := strings.TrimLeft(rest[len(isKey[1]):], " ")
	if found := s.findInValue(at + len(rest) - len(value)); value != "" && found != nil {
		return found
	}
	return s.findIndent(line)
}

// findInValue looks for a mistake in the value that begins at an offset and is not in
// brackets.
func (s *source) findInValue(at int) *mistake {
	value := strings.TrimRight(s.lineFrom(at), " ")
	if value == "" {
		return nil
	}
	switch value[0] {
	case '"', '\'', '{', '[':
		sc := &valueScan{s: s}
		end := sc.skip(at)
		switch {
		case sc.found != nil:
			return sc.found
		case end < 0:
			return &mistake{at, fmt.Sprintf("the %c that opens here is not closed", value[0]), fmt.Sprintf("close it with %s, or quote the whole value if text is meant", closing(value[0]))}
		}
		if after := strings.TrimLeft(s.lineFrom(end), " "); after != "" && after[0] != '#' {
			return &mistake{s.skipSpaces(end), fmt.Sprintf("text follows the closing %s", closing(value[0])), "quote the whole value: " + Quote(value)}
		}
		return nil
	case '@', '`', '%':
		return &mistake{at, fmt.Sprintf("a value cannot start with %c", value[0]), "quote it: " + Quote(value)}
	case '*', '&', '!':
		return &mistake{at, fmt.Sprintf("a value that starts with %c is not text", value[0]), "quote it: " + Quote(value)}
	case '|', '>':
		if !header.MatchString(value) {
			return &mistake{at, fmt.Sprintf("text follows %c, after which a text begins on the next line", value[0]), "quote it: " + Quote(value)}
		}
		return nil
	case '-', '?':
		if len(value) > 1 && value[1] == ' ' {
			return &mistake{at, fmt.Sprintf("%c and a space begin an item of a list or a key", value[0]), "quote it, if text is meant: " + Quote(value) + "; a list begins on the next line"}
		}
	}
	return s.findColon(at, value)
}

// findColon looks for a colon that makes a key of text that is not quoted.
func (s *source) findColon(at int, value string) *mistake {
	value, _, _ = strings.Cut(value, " #")
	colon := strings.Index(value, ": ")
	if colon < 0 && strings.HasSuffix(value, ":") {
		colon = len(value) - 1
	}
	if colon < 0 {
		return nil
	}
	return &mistake{at + colon, "a colon and a space in text that is not quoted make it a key", "quote it: " + Quote(strings.TrimRight(value, " "))}
}

// findIndent compares the indentation of a line that is a key and a value with that of the
// lines before it.
func (s *source) findIndent(line int) *mistake {
	is := s.indent(line)
	for before := line - 1; before > 0; before-- {
		other := s.line(before)
		bare := strings.TrimLeft(other, " ")
		if bare == "" || bare[0] == '#' {
			continue
		}
		column := s.keyColumn(before)
		bare = other[column:]
		if column == is || !blockKey.MatchString(bare) {
			return nil
		}
		key := blockKey.FindStringSubmatch(bare)[1]
		return &mistake{s.starts[line-1] + is, fmt.Sprintf("the indentation of %s fits no line before", text.Plural(is, "space")),
			fmt.Sprintf("indent it by %s, as %s on line %d", text.Plural(column, "space"), shorten(key), before)}
	}
	return nil
}

// valueScan walks a quoted or bracketed value, which may span lines.
type valueScan struct {
	s     *source
	found *mistake
}

// skip returns the offset after the value that begins at an offset, -1 if it does not end or
// has a mistake.
func (v *valueScan) skip(at int) int {
	switch data := v.s.data; data[at] {
	case '"':
		return v.doubleQuoted(at)
	case '\'':
		for i := at + 1; i < len(data); i++ {
			if data[i] != '\'' {
				continue
			}
			if i+1 == len(data) || data[i+1] != '\'' {
				return i + 1
			}
			i++
		}
		return -1
	default:
		return v.bracketed(at)
	}
}

func (v *valueScan) doubleQuoted(at int) int {
	data := v.s.data
	bad := -1
	for i := at + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			if i++; i < len(data) && bad < 0 && !bytes.ContainsRune([]byte("0abt\tnvfre \"/\\N_LPxuU\n\r"), rune(data[i])) {
				bad = i - 1
			}
		case '"':
			if bad < 0 {
				return i + 1
			}
			inner := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(string(data[at+1 : i]))
			v.found = &mistake{bad, fmt.Sprintf("%s is no escape in double quotes", data[bad:bad+2]), "use single quotes: " + Quote(inner)}
			return -1
		}
	}
	return -1
}

// bracketed skips a list or mapping in brackets.
func (v *valueScan) bracketed(at int) int {
	data := v.s.data
	var open []byte
	begins := true // a value may begin here
	first := v.s.pos(at).Line
	for i := at; i < len(data) && v.found == nil; i++ {
		switch c := data[i]; {
		case c == '{' || c == '[':
			open, begins = append(open, c), true
			continue
		case c == '}' || c == ']':
			if string(closing(open[len(open)-1])) != string(c) {
				v.found = &mistake{i, fmt.Sprintf("%c closes %c", c, open[len(open)-1]), "write " + closing(open[len(open)-1]) + ", or quote text that has brackets"}
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1
			}
			begins = false
			continue
		case c == ',' || c == ':':
			begins = true
			continue
		case c == ' ' || c == '\n' || c == '\r':
			continue
		case !begins:
			if c == '#' {
				i += len(v.s.lineFrom(i)) - 1
				continue
			}
			p := v.s.pos(i)
			if before := p.LineText(p.Line)[:p.Column-1]; p.Line > first && strings.TrimLeft(before, " ") == "" && len(before) <= v.s.keyColumn(first) {
				return -1 // a line of the mapping around it
			}
			v.found = &mistake{i, "text follows a value in brackets", "put a comma between values, or quote the whole value if it is one text"}
		case c == '"' || c == '\'':
			end := v.skip(i)
			if end < 0 {
				if v.found == nil {
					v.found = &mistake{i, fmt.Sprintf("the %c that opens here is not closed", c), fmt.Sprintf("close it with %s", closing(c))}
				}
				return -1
			}
			i = end - 1
		default:
			i = v.plain(i) - 1
		}
		begins = false
	}
	return -1
}

// plain skips text without quotes in brackets.
func (v *valueScan) plain(at int) int {
	end := at + 1
	for data := v.s.data; end < len(data) && bytes.IndexByte([]byte(",[]{}\n"), data[end]) < 0; end++ {
		if data[end] == ':' && end+1 < len(data) && data[end+1] == ' ' {
			return end // the colon ends a key
		}
	}
	if cut := bytes.Index(v.s.data[at:end], []byte(" #")); cut >= 0 && strings.ContainsAny(v.s.lineFrom(at+cut), "]}") {
		v.found = &mistake{at + cut + 1, "a comment begins here, and hides the bracket that closes", "quote it, if it is text: " + Quote(string(bytes.TrimSpace(v.s.data[at:end])))}
		return end
	}
	if text := v.s.data[at:end]; bytes.IndexByte([]byte("@`%|>"), text[0]) >= 0 {
		v.found = &mistake{at, fmt.Sprintf("a value cannot start with %c", text[0]), "quote it: " + Quote(string(bytes.TrimSpace(text)))}
	}
	return end
}

// indent returns how many spaces begin a line.
func (s *source) indent(line int) int {
	text := s.lineBytes(line)
	return len(text) - len(bytes.TrimLeft(text, " "))
}

// keyColumn returns how many spaces and dashes of lists begin a line.
func (s *source) keyColumn(line int) int {
	text := s.lineBytes(line)
	rest := bytes.TrimLeft(text, " ")
	for bytes.HasPrefix(rest, []byte("- ")) {
		rest = bytes.TrimLeft(rest[2:], " ")
	}
	return len(text) - len(rest)
}

// lineFrom returns the text from an offset to the end of its line.
func (s *source) lineFrom(at int) string {
	text := s.data[at:]
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	return strings.TrimRight(string(text), "\r")
}

func (s *source) skipSpaces(at int) int {
	for at < len(s.data) && s.data[at] == ' ' {
		at++
	}
	return at
}

func closing(c byte) string {
	switch c {
	case '{':
		return "}"
	case '[':
		return "]"
	}
	return string(c)
}

// Quote returns a text in YAML's single quotes, for the fix of a problem. Quotes around the
// whole text are replaced.
func Quote(text string) string {
	if n := len(text); n > 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	if len(text) > maxQuoted {
		return "'...', with every ' in it written twice"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// maxQuoted is how long a text may be that a fix repeats.
const maxQuoted = 120

func shorten(text string) string {
	if len(text) > 40 {
		return text[:strings.LastIndexByte(text[:40]+" ", ' ')] + "..."
	}
	return text
}
