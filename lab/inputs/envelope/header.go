package envelope

import (
	"bytes"
	"regexp"
)

// header is how a line of a log begins.
type header uint8

const (
	none   header = iota
	word          // a level, or the first line of a panic
	stamp         // a time
	klog          // I1120 10:00:00.000000
	object        // JSON
	logfmt        // time=, level=
	cri           // the envelope of a container runtime
	syslog        // Nov 20 10:00:00
)

// own reports whether a program begins its lines so; a time may also be of an envelope.
func (h header) own() bool { return h == klog || h == object || h == logfmt || h == cri }

// headerOf returns how a line begins.
func headerOf(b []byte) header {
	if len(b) < 4 {
		return none
	}
	switch c := b[0]; {
	case c == '{':
		if c := b[skipSpace(b, 1)%len(b)]; c == '"' {
			return object
		}
	case '0' <= c && c <= '9' || c == '[':
		if c == '[' {
			if next := b[skipSpace(b, 1)%len(b)]; next == '{' || next == '[' && skipSpace(b, 1) > 0 && b[1] != ' ' || next == '"' {
				return object
			}
			b = b[1:]
		}
		n, _ := stampLen(b)
		switch {
		case n == 0:
			if c == '[' && levelLen(b) > 0 {
				return word
			}
			if at := bytes.IndexByte(b, ' '); c != '[' && at >= 10 && at < 32 {
				if _, _, ok := epoch(b[:at]); ok {
					return stamp
				}
			}
			return none
		case isCRI(b[n:]):
			return cri
		}
		return stamp
	case 'A' <= c && c <= 'Z':
		switch {
		case isKlog(b):
			return klog
		case len(b) > 15 && b[3] == ' ' && b[6] == ' ' && b[9] == ':' && b[12] == ':' && isMonth(b[:3]):
			return syslog
		case levelLen(b) > 0:
			return word
		}
	case c == 't' || c == 'l' || c == 'm':
		for _, p := range []string{"time=", "ts=", "level=", "lvl=", "t=", "msg="} {
			if bytes.HasPrefix(b, []byte(p)) {
				return logfmt
			}
		}
	}
	if bytes.HasPrefix(b, []byte("panic: ")) || bytes.HasPrefix(b, []byte("goroutine ")) || bytes.HasPrefix(b, []byte("fatal error: ")) || levelLen(b) > 0 {
		return word
	}
	return none
}

// isKlog reports whether a line begins as klog writes it.
func isKlog(b []byte) bool {
	return len(b) > 15 && bytes.IndexByte([]byte("IWEFD"), b[0]) >= 0 && isDigits(b[1:5]) && b[5] == ' ' && b[8] == ':' && b[11] == ':' && isDigits(b[6:8]) && isDigits(b[12:14]) && (b[14] == '.' || b[14] == ' ')
}

// isCRI reports whether this follows the stamp of a line as CRI runtimes write it.
func isCRI(b []byte) bool {
	return len(b) >= 9 && (bytes.HasPrefix(b, []byte(" stdout ")) || bytes.HasPrefix(b, []byte(" stderr "))) && (b[8] == 'F' || b[8] == 'P') && (len(b) == 9 || b[9] == ' ' || b[9] == ':')
}

var months = []byte("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")

func isMonth(b []byte) bool {
	k := bytes.Index(months, b)
	return k >= 0 && k%4 == 0
}

var levels = []string{"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "ERRO", "FATAL", "FATA", "PANIC", "CRITICAL", "TRACE", "NOTICE", "DEBU", "TRAC", "SEVERE", "error", "warning", "warn", "info", "debug", "fatal"}

// levelLen returns the length of the level at the start of a line, 0 if there is none.
func levelLen(b []byte) int {
	for _, l := range levels {
		if len(b) > len(l) && string(b[:len(l)]) == l {
			switch c := b[len(l)]; {
			case l[0] >= 'a' && c != ':' && c != ']' && c != '\t':
			case c == ' ' || c == ':' || c == ']' || c == '[' || c == '\t' || c == '|':
				return len(l)
			}
		}
	}
	return 0
}

// hasLevel reports whether a text has a level as one of its words.
func hasLevel(b []byte) bool {
	for len(b) > 0 {
		if levelLen(b) > 0 {
			return true
		}
		k := bytes.IndexAny(b, " \t[|(")
		if k < 0 {
			return false
		}
		b = b[k+1:]
	}
	return false
}

// inner begins the JSON of a log library, also in a string.
var inner = regexp.MustCompile(`^\{[\\"]{1,2}(?:ts|time|level|timestamp|@timestamp)[\\"]{1,2}:`)

// isOpaque reports whether a line has the line of another log in it, which was not taken out of it, or is
// encoded.
func isOpaque(b []byte) bool {
	if n, _ := stampLen(b); n > 0 && isCRI(b[n:]) {
		b = b[min(n+len(" stdout F "), len(b)):]
	}
	for i := 20; i < min(len(b), 400); i++ {
		if 'D' <= b[i] && b[i] <= 'W' && isKlog(b[i:]) || b[i] == '{' && inner.Match(b[i:min(len(b), i+20)]) {
			return true
		}
	}
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
	return len(b) >= 40 && len(bytes.TrimLeft(b, base64)) == 0
}

// Understood reports whether a line begins as lines of logs do, or continues one, as the
// lines of a stack do, and is no line with another in it. prev is the answer for the line before.
func Understood(line []byte, prev bool) bool {
	line = bytes.TrimRight(line, "\r\n")
	return !isOpaque(line) && isContinued(line, prev)
}

func isContinued(line []byte, prev bool) bool {
	if len(line) == 0 || headerOf(line) != none {
		return true
	}
	switch line[0] {
	case ' ', '\t':
		trimmed := bytes.TrimLeft(line, " \t")
		return prev || headerOf(trimmed) != none
	case '}', ']', ')', '.':
		return prev
	}
	if bytes.Contains(line, []byte(" time=")) || bytes.Contains(line, []byte(" ts=")) || accessTime(line) {
		return true
	}
	for _, p := range []string{"Caused by: ", "created by ", "runtime stack:", "exit status ", "Traceback (", "Common labels: ", "Line limit: ", "Total bytes processed: ", "```", "{noformat", "{code", "==> "} {
		if bytes.HasPrefix(line, []byte(p)) {
			return true
		}
	}
	open := bytes.IndexByte(line, '(')
	return prev && open > 0 && line[len(line)-1] == ')' && bytes.IndexByte(line[:open], ' ') < 0 && bytes.IndexByte(line[:open], '.') > 0
}

// accessTime reports whether a line has a time such as [28/Apr/2026:09:14:22 +0000].
func accessTime(b []byte) bool {
	const form = "[28/Apr/2026:09:14:22"
	for {
		k := bytes.IndexByte(b, '[')
		if k < 0 || len(b)-k < len(form) {
			return false
		}
		b = b[k:]
		if b[3] == '/' && b[7] == '/' && b[12] == ':' && b[15] == ':' && isMonth(b[4:7]) {
			return true
		}
		b = b[1:]
	}
}

// IsRuntime reports whether a line is as a container runtime writes it: CRI, or Docker's
// json-file.
func IsRuntime(line []byte) bool {
	if n, _ := stampLen(line); n > 0 {
		return isCRI(line[n:])
	}
	line = bytes.TrimRight(line, "\r\n")
	return bytes.HasPrefix(line, []byte(`{"log":"`)) && new(Decoder).isDocker(line)
}
