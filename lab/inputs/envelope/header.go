package envelope

import (
	"bytes"

	"crowsnest/internal/lazyre"
)

type header uint8

const (
	none   header = iota
	word          // a log level, or the first line of a panic
	stamp         // a time
	klog          // klog header such as I1120 10:00:00.000000
	object        // JSON
	logfmt        // pairs such as time=... or level=...
	cri           // envelope of a container runtime
	syslog        // syslog header such as Nov 20 10:00:00
)

// own reports whether only programs write this kind of header. A time, for example, may also begin an envelope.
func (h header) own() bool { return h == klog || h == object || h == logfmt || h == cri }

func headerOf(b []byte) header {
	if len(b) < 4 {
		return none
	}
	switch c := b[0]; {
	case c == '{':
		if b[skipSpace(b, 1)%len(b)] == '"' {
			return object
		}
	case c == '[':
		if next := b[skipSpace(b, 1)%len(b)]; next == '{' || next == '"' || next == '[' && b[1] != ' ' {
			return object
		}
		if h := headerOfTime(b[1:]); h != none {
			return h
		}
		if levelLen(b[1:]) > 0 {
			return word
		}
	case c-'0' <= 9:
		if h := headerOfTime(b); h != none {
			return h
		}
		if at := bytes.IndexByte(b[:min(len(b), 32)], ' '); at >= 10 {
			if _, _, ok := parseEpoch(b[:at]); ok {
				return stamp
			}
		}
	case isKlog(b):
		return klog
	case len(b) > 15 && b[3] == ' ' && b[6] == ' ' && b[9] == ':' && b[12] == ':' && isMonth(b[:3]):
		return syslog
	case hasPrefix(b, "time=", "ts=", "level=", "lvl=", "t=", "msg="):
		return logfmt
	case levelLen(b) > 0, hasPrefix(b, "panic: ", "goroutine ", "fatal error: "):
		return word
	}
	return none
}

// headerOfTime returns the kind of a header that begins with an RFC 3339 time or a similar one.
func headerOfTime(b []byte) header {
	switch n, _ := stampLen(b); {
	case n == 0:
		return none
	case isCRI(b[n:]):
		return cri
	}
	return stamp
}

func hasPrefix(b []byte, prefixes ...string) bool {
	for _, p := range prefixes {
		if len(b) >= len(p) && string(b[:len(p)]) == p {
			return true
		}
	}
	return false
}

func contains(b []byte, parts ...string) bool {
	for _, p := range parts {
		if bytes.Contains(b, []byte(p)) {
			return true
		}
	}
	return false
}

func isKlog(b []byte) bool {
	return len(b) > 15 && bytes.IndexByte([]byte("IWEFD"), b[0]) >= 0 && isDigits(b[1:5]) && b[5] == ' ' && b[8] == ':' && b[11] == ':' && isDigits(b[6:8]) && isDigits(b[12:14]) && (b[14] == '.' || b[14] == ' ')
}

// isCRI reports whether b, the text after a time, continues the header of the CRI log format.
func isCRI(b []byte) bool {
	return len(b) >= 9 && hasPrefix(b, " stdout ", " stderr ") && (b[8] == 'F' || b[8] == 'P') && (len(b) == 9 || b[9] == ' ' || b[9] == ':')
}

var months = []byte("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")

func isMonth(b []byte) bool { return bytes.Index(months, b)%4 == 0 }

var levels = []string{"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "ERRO", "FATAL", "FATA", "PANIC", "CRITICAL", "TRACE", "NOTICE", "DEBU", "TRAC", "SEVERE", "error", "warning", "warn", "info", "debug", "fatal"}

// levelLen returns the length of the log level at the start of a line. It returns zero if there is none.
func levelLen(b []byte) int {
	for _, l := range levels {
		if len(b) <= len(l) || string(b[:len(l)]) != l {
			continue
		}
		switch b[len(l)] {
		case ':', ']', '\t':
			return len(l)
		case ' ', '[', '|':
			if l[0] < 'a' {
				return len(l)
			}
		}
	}
	return 0
}

func hasLevel(b []byte) bool {
	for levelLen(b) == 0 {
		k := bytes.IndexAny(b, " \t[|(")
		if k < 0 {
			return false
		}
		b = b[k+1:]
	}
	return true
}

// innerJSON matches the beginning of JSON that a log library wrote, which may be escaped in a string.
var innerJSON = lazyre.New(`^\{[\\"]{1,2}(?:ts|time|level|timestamp|@timestamp)[\\"]{1,2}:`)

// isOpaque reports whether a line is encoded, or contains a log line that was not extracted.
func isOpaque(b []byte) bool {
	if n, _ := stampLen(b); n > 0 && isCRI(b[n:]) {
		b = b[min(n+len(" stdout F "), len(b)):]
	}
	for i := 20; i < min(len(b), 400); i++ {
		// k0s writes the lines of other programs in this form: msg="E0101 ..."
		quoted := b[i-1] == '"' && b[i-2] == '='
		if 'D' <= b[i] && b[i] <= 'W' && !quoted && isKlog(b[i:]) || b[i] == '{' && innerJSON.Match(b[i:min(len(b), i+20)]) {
			return true
		}
	}
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
	return len(b) >= 40 && len(bytes.TrimLeft(b, base64)) == 0
}

// isOrdinary reports whether a line begins like a log line, or continues one, such as a line of a stack trace. prev is
// the result for the previous line.
func isOrdinary(line []byte, prev bool) bool {
	if len(line) == 0 || headerOf(line) != none {
		return true
	}
	switch line[0] {
	case ' ', '\t':
		return prev || headerOf(bytes.TrimLeft(line, " \t")) != none
	case '}', ']', ')', '.':
		return prev
	}
	if contains(line, " time=", " ts=") || accessTime.Match(line) || talosTime.Match(line) ||
		hasPrefix(line, "Caused by: ", "created by ", "runtime stack:", "exit status ", "Traceback (", "Common labels: ", "Line limit: ", "Total bytes processed: ", "```", "{noformat", "{code", "==> ") {
		return true
	}
	call, _, found := bytes.Cut(line, []byte("("))
	return prev && found && line[len(line)-1] == ')' && bytes.IndexByte(call, ' ') < 0 && bytes.IndexByte(call, '.') > 0
}

// accessTime matches the time of a web server's access log.
var accessTime = lazyre.New(`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:`)

// talosTime matches the beginning of a line in the kernel log of Talos. In the output of talosctl, the node precedes
// it.
var talosTime = lazyre.New(`^(?:\S+: )?[a-z]\w*: +[a-z]+: \[\d{4}-\d\d-\d\dT`)

// IsRuntime reports whether a line is in a format of a container runtime, which is CRI or Docker's json-file.
func IsRuntime(line []byte) bool {
	if n, _ := stampLen(line); n > 0 {
		return isCRI(line[n:])
	}
	return new(Decoder).isDocker(bytes.TrimRight(line, "\r\n"))
}
