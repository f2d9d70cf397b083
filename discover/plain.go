package discover

import "strings"

// mostPrefixes is how many words may stand before a level: a time in up to three,
// a host, a unit, a container.
const mostPrefixes = 6

// leveled finds the level that a line without fields states, and returns what
// follows it:
//
//	2025/11/20 10:00:00 [ERROR] message
//	2025-11-20T10:00:00Z	ERROR	logger	file.go:12	message
//	2025-11-20 10:00:00.000 W | etcdserver: message
//	Error: message
func leveled(line string) (Level, string, bool) {
	line = withoutPrefix(line)
	rest := strings.TrimLeft(line, " \t")
	for n := 0; n < mostPrefixes && rest != ""; n++ {
		word := rest
		if k := strings.IndexAny(rest, " \t"); k >= 0 {
			word = rest[:k]
		}
		after := rest[len(word):]
		if l, ok := levelWord(word, after); ok {
			return l, afterLevel(strings.TrimLeft(after, " "), line), true
		}
		if n == 0 && len(word) > 1 && word[len(word)-1] == ':' {
			if l, ok := levelOf(word[:len(word)-1]); ok && len(word) > 2 {
				return l, line, true // "Error: x" is a message
			}
		}
		rest = strings.TrimLeft(after, " \t")
	}
	return LevelUnknown, "", false
}

// levelWord tells whether a word is a level: in brackets, in capitals, one letter
// before a bar, or zap's number of verbosity.
func levelWord(word, after string) (Level, bool) {
	bare, _, _ := strings.Cut(strings.Trim(word, "[]<>():|"), "][") // Calico: [ERROR][57]
	if strings.HasPrefix(bare, "lvl-") || strings.HasPrefix(bare, "Level(") {
		return LevelDebug, true
	}
	if len(bare) == 1 {
		if strings.HasPrefix(after, " | ") {
			return levelOf(bare)
		}
		return LevelUnknown, false
	}
	if word[0] != '[' && bare != strings.ToUpper(bare) {
		// "Warning  Reason" is an event as kubectl shows it.
		event := bare == "Warning" && strings.HasPrefix(after, "  ")
		kernel := strings.HasSuffix(word, ":") && strings.HasPrefix(after, " [")
		if !event && !kernel {
			return LevelUnknown, false
		}
	}
	return levelOf(bare)
}

// afterLevel returns the message behind a level. Where columns are parted by tabs,
// or by many spaces in their place, names of loggers and of files come first.
func afterLevel(rest, line string) string {
	part := "\t"
	if !strings.Contains(line, "\t") {
		part = "   "
	}
	rest = strings.Trim(rest, " \t|")
	for {
		head, more, ok := strings.Cut(rest, part)
		more = strings.TrimLeft(more, " \t")
		if !ok || more == "" || strings.Contains(strings.TrimSpace(head), " ") {
			break
		}
		rest = more
	}
	if word, more, ok := strings.Cut(rest, " "); ok {
		line, message, columns := strings.Cut(more, ": ")
		switch {
		case strings.Contains(word, ".go:"):
			rest = more
		case columns && strings.HasSuffix(word, ".go") && strings.Trim(line, "0123456789") == "":
			rest = message // Calico: felix/daemon.go 324: message
		}
	}
	return strings.TrimSpace(rest)
}

var months = map[string]bool{
	"Jan": true, "Feb": true, "Mar": true, "Apr": true, "May": true, "Jun": true,
	"Jul": true, "Aug": true, "Sep": true, "Oct": true, "Nov": true, "Dec": true,
}

// withoutStamp takes off a time at the start, and host and unit behind that of
// syslog.
func withoutStamp(line string) string {
	line = withoutPrefix(line)
	if len(line) > 16 && months[line[:3]] && line[3] == ' ' {
		if head, message, ok := strings.Cut(line, ": "); ok && strings.Count(head, " ") <= 5 {
			return message
		}
	}
	rest := strings.TrimLeft(line, " \t")
	for range 3 {
		word, more, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
		if !ok || !stampWord(word) {
			break
		}
		rest = more
	}
	return strings.TrimLeft(rest, " ")
}

// withoutPrefix takes off the name of a container that docker compose or kubectl
// logs --prefix puts before a line.
func withoutPrefix(line string) string {
	if name, rest, ok := strings.Cut(line, " | "); ok && strings.IndexByte(strings.TrimRight(name, " "), ' ') < 0 {
		line = strings.TrimLeft(rest, " \t")
	}
	if len(line) > 2 && line[0] == '[' && letter(line[1]) {
		if name, rest, ok := strings.Cut(line, "] "); ok && strings.IndexByte(name, ' ') < 0 {
			line = strings.TrimLeft(rest, " \t")
		}
	}
	return line
}

// stampWord tells whether a word is a part of a time.
func stampWord(word string) bool {
	word = strings.Trim(word, "[]")
	if len(word) < 5 || !digit(word[0]) {
		return false
	}
	marks := 0
	for i := range len(word) {
		switch c := word[i]; {
		case c == ':' || c == '-' || c == '/':
			marks++
		case digit(c) || c == 'T' || c == 'Z' || c == '.' || c == ',' || c == '+':
		default:
			return false
		}
	}
	return marks >= 2
}
