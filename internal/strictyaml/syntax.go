package strictyaml

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
)

// mistake is a mistake in a text that is not valid YAML, with its fix.
type mistake struct {
	at       int // offset in the file
	msg, fix string
}

var (
	blockKey = lazyre.New(`^((?:"[^"]*"|'[^']*'|[^\s"'{}\[\],#&*!|>%@\x60:][^:#]*?)\s*:)(?:\s|$)`)
	noSpace  = lazyre.New(`^[A-Za-z_]+:\S`)
	// badEscape matches a text in double quotes up to the first invalid escape.
	badEscape = lazyre.New(`"(?:[^"\\]|\\[0abt\tnvfre "/\\N_LPxuU])*\\[^0abt\tnvfre "/\\N_LPxuU]`)
	quoted    = lazyre.New(`^"((?:[^"\\]|\\.)*)"`)
)

// closing maps a character that opens a value to the character that closes it.
var closing = map[byte]string{'"': `"`, '\'': "'", '{': "}", '[': "]"}

// findMistake looks for a common mistake in the line at which parsing fails.
func (s *source) findMistake(line int) *mistake {
	column := s.keyColumn(line)
	rest, at := strings.TrimRight(s.line(line)[column:], " "), s.starts[line-1]+column
	for n := line; ; n++ { // also reads the following lines of a list or mapping in brackets
		if found := s.findEscape(n); found != nil {
			return found
		}
		if n == len(s.starts) || n == line+maxConstruct || !isContinued(s.line(n)) {
			break
		}
	}
	value, isKey := rest, blockKey.FindStringSubmatch(rest)
	switch {
	case isKey != nil:
		value = strings.TrimLeft(rest[len(isKey[1]):], " ")
	case noSpace.MatchString(rest):
		colon := strings.IndexByte(rest, ':') + 1
		return &mistake{at + colon, "there is no space after the colon of a key", "write " + rest[:colon] + " " + shorten(rest[colon:])}
	}
	if found := s.findInValue(at+len(rest)-len(value), value); found != nil || isKey == nil {
		return found
	}
	return s.findIndent(line)
}

func (s *source) findEscape(line int) *mistake {
	text := s.line(line)
	bad := badEscape.FindStringIndex(text)
	if bad == nil {
		return nil
	}
	whole := quoted.FindStringSubmatch(text[bad[0]:])
	if whole == nil {
		return nil
	}
	inner := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(whole[1])
	escape := strings.LastIndexByte(text[:bad[1]], '\\')
	return &mistake{s.starts[line-1] + escape, text[escape:bad[1]] + " is not an escape in double quotes", "use single quotes: " + Quote(inner)}
}

// isContinued reports whether a list or mapping in brackets continues after the line.
func isContinued(line string) bool {
	line = strings.TrimRight(line, " ")
	return line != "" && strings.IndexByte(",{[", line[len(line)-1]) >= 0
}

// findInValue looks for a mistake in a value on one line. The value begins at offset i.
func (s *source) findInValue(i int, value string) *mistake {
	if value == "" {
		return nil
	}
	end, brackets := closing[value[0]], (value[0] == '{' || value[0] == '[') && !strings.HasPrefix(value, "{{")
	bare, comment, commented := strings.Cut(value, " #")
	switch {
	case brackets && commented && strings.Contains(comment, end) && !strings.Contains(bare, end):
		begin := strings.LastIndexAny(bare, ":,[{") + 1
		hidden, _, _ := strings.Cut(value[begin:], end)
		return &mistake{i + len(bare) + 1, "a comment begins here, and the closing bracket is part of it", "quote it, if it is text: " + Quote(strings.TrimSpace(hidden))}
	case brackets && isContinued(bare):
		return nil // the mistake is in a later line
	case end != "" && !strings.Contains(bare[1:], end), brackets && strings.Count(bare, value[:1]) > strings.Count(bare, end):
		return &mistake{i, fmt.Sprintf("the %c that opens here is not closed", value[0]), fmt.Sprintf("close it with %s, or quote the whole value if text is meant", end)}
	case brackets && strings.HasSuffix(bare, end):
		return nil // the mistake is inside the brackets
	}
	bare = strings.TrimRight(bare, " ")
	if _, _, err := readDocuments(slices.Concat(s.data[:i], []byte(Quote(bare)+"\n"))); err != nil {
		return nil
	}
	return &mistake{i, "this text needs quotes", "quote it: " + Quote(bare)}
}

// findIndent compares the indentation of a line that has a key with the lines above it.
func (s *source) findIndent(line int) *mistake {
	is := len(s.line(line)) - len(strings.TrimLeft(s.line(line), " "))
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
		return &mistake{
			s.starts[line-1] + is, fmt.Sprintf("the indentation of %s matches no earlier line", text.Plural(is, "space")),
			fmt.Sprintf("indent it by %s, as %s on line %d", text.Plural(column, "space"), shorten(key), before),
		}
	}
	return nil
}

// keyColumn returns the number of spaces and list dashes at the start of a line.
func (s *source) keyColumn(line int) int {
	text := s.lineBytes(line)
	rest := bytes.TrimLeft(text, " ")
	for bytes.HasPrefix(rest, []byte("- ")) {
		rest = bytes.TrimLeft(rest[2:], " ")
	}
	return len(text) - len(rest)
}

// Quote returns a text in YAML's single quotes. If the text is already in quotes, these are replaced.
func Quote(text string) string {
	if n := len(text); n > 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	if len(text) > maxQuoted {
		return "'...', with every ' in it written twice"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// maxQuoted is the maximum length of a text that a fix repeats.
const maxQuoted = 120

func shorten(text string) string {
	if len(text) > 40 {
		return text[:strings.LastIndexByte(text[:40]+" ", ' ')] + "..."
	}
	return text
}
