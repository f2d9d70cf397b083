package discover

import "strings"

// maxPrefixes is the number of words that may precede a level. These words are a time (up to
// three words), a host, a unit and a container.
const maxPrefixes = 6

// findLevel finds the level in a line without fields, and returns the text after
// it:
//
//	2025/11/20 10:00:00 [ERROR] message
//	2025-11-20T10:00:00Z	ERROR	logger	file.go:12	message
//	2025-11-20 10:00:00.000 W | etcdserver: message
//	Error: message
func findLevel(line string) (Level, string, bool) {
	line = trimPrefix(line)
	rest := strings.TrimLeft(line, " \t")
	for n := 0; n < maxPrefixes && rest != ""; n++ {
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
				return l, line, true // in "Error: x", "Error" is a part of the message
			}
		}
		rest = strings.TrimLeft(after, " \t")
	}
	return levelUnknown, "", false
}

// levelWord reports whether a word is a level. A level is a word in brackets or capitals, one
// letter before a bar, or a numeric verbosity of zap.
func levelWord(word, after string) (Level, bool) {
	bare, _, _ := strings.Cut(strings.Trim(word, "[]<>():|"), "][") // Calico writes [ERROR][57]
	if strings.HasPrefix(bare, "lvl-") || strings.HasPrefix(bare, "Level(") {
		return levelDebug, true
	}
	if len(bare) == 1 {
		if strings.HasPrefix(after, " | ") {
			return levelOf(bare)
		}
		return levelUnknown, false
	}
	if word[0] != '[' && bare != strings.ToUpper(bare) {
		// "Warning  Reason" is part of an event as kubectl prints it.
		event := bare == "Warning" && strings.HasPrefix(after, "  ")
		kernel := strings.HasSuffix(word, ":") && strings.HasPrefix(after, " [")
		if !event && !kernel {
			return levelUnknown, false
		}
	}
	return levelOf(bare)
}

// afterLevel returns the message that follows a level. If tabs or runs of spaces separate
// columns, it skips the columns with names of loggers and files.
func afterLevel(rest, line string) string {
	sep := "\t"
	if !strings.Contains(line, "\t") {
		sep = "   "
	}
	rest = strings.Trim(rest, " \t|")
	for {
		head, more, ok := strings.Cut(rest, sep)
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
			rest = message // Calico writes felix/daemon.go 324: message
		}
	}
	return strings.TrimSpace(rest)
}

var months = map[string]bool{
	"Jan": true, "Feb": true, "Mar": true, "Apr": true, "May": true, "Jun": true,
	"Jul": true, "Aug": true, "Sep": true, "Oct": true, "Nov": true, "Dec": true,
}

// trimTimestamp removes a timestamp at the start of a line. In a line of syslog, it also
// removes the host and the unit.
func trimTimestamp(line string) string {
	line = trimPrefix(line)
	if len(line) > 16 && months[line[:3]] && line[3] == ' ' {
		if head, message, ok := strings.Cut(line, ": "); ok && strings.Count(head, " ") <= 5 {
			return message
		}
	}
	rest := strings.TrimLeft(line, " \t")
	for range 3 {
		word, more, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
		if !ok || !timestampPart(word) {
			break
		}
		rest = more
	}
	return strings.TrimLeft(rest, " ")
}

// SyslogIdentifier returns the name of the program in a line of syslog or journalctl, such as
// "Feb 12 08:15:05 worker-3 kubelet[4711]: message". It returns "" for other lines.
func SyslogIdentifier(line string) string {
	if len(line) <= 16 || !months[line[:3]] || line[3] != ' ' {
		return ""
	}
	head, _, ok := strings.Cut(line, ": ")
	fields := strings.Fields(head)
	if !ok || len(fields) != 5 { // the five words are month, day, time, host and program
		return ""
	}
	name, pid, ok := strings.Cut(strings.TrimSuffix(fields[4], "]"), "[")
	if ok && !allIn(pid, "0123456789") || !oneName.MatchString(name) {
		return ""
	}
	return name
}

// trimPrefix removes the container name that docker compose or kubectl logs
// --prefix adds to a line.
func trimPrefix(line string) string {
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

func timestampPart(word string) bool {
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
