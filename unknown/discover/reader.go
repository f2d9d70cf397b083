package discover

import (
	"bytes"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
)

// parsedLine is a parsed line with its level, its message, and its error if the error is a
// separate value.
type parsedLine struct {
	Level   Level
	Message string
	Error   string
	// Named reports that a field of the line is named like an error, such as err.
	Named bool
	// Opens reports that the error is on the next lines, which is how klog logs a text of
	// several lines.
	Opens bool
}

// Limits of the parser, in bytes.
const (
	maxHead    = 256 // largest length of the prefixes before the program's own text
	maxMessage = 512
	maxError   = 1024
)

// lineReader parses lines of any format. The zero value is ready. It is not safe for concurrent
// use.
type lineReader struct {
	// uncut makes the reader keep the whole message and the whole error, with all their lines.
	uncut  bool
	fields matcher.FieldReader
	line   []byte
	quoted []byte // reused buffer of whole
}

// messageKeys, errorKeys and levelKeys are the names that loggers give the message, the error
// and the level, the most reliable first.
var (
	messageKeys = []string{"msg", "message", "log", "event"}
	errorKeys   = []string{"err", "error", "cause", "exception", "panic", "message"}
	levelKeys   = []string{"level", "lvl", "severity", "levelname", "log.level"}
)

const typeKey = "type"

func (r *lineReader) readLine(line string) parsedLine {
	return r.read(line, 2)
}

// read parses a line that may contain another line, up to depth levels deep.
func (r *lineReader) read(line string, depth int) parsedLine {
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = color.ReplaceAllString(line, "")
	}
	line = strings.TrimRight(line, " \t\r\n")
	out := r.parse(strings.TrimLeft(line, " \t"), line)
	// A program that relays the output of another program logs whole lines of this output.
	if inner, ok := headerOf(out.Message); ok && depth > 0 && inner.end > 0 {
		in := r.read(out.Message, depth-1)
		if in.Error == "" {
			in.Error, in.Named = out.Error, out.Named
		}
		out = in
	}
	if !r.uncut {
		out.Message, out.Error = firstLine(out.Message, maxMessage), firstLine(out.Error, maxError)
	}
	return out
}

func (r *lineReader) parse(line, whole string) parsedLine {
	if line == "" {
		return parsedLine{Level: levelUnknown}
	}
	if line[0] == '{' {
		if out, ok := r.object(line); ok {
			return out
		}
	}
	if h, ok := headerOf(line); ok {
		return r.klog(line, h)
	}
	if k := strings.Index(line, `{"`); k > 0 && strings.HasSuffix(line, "}") {
		if out, ok := r.object(line[k:]); ok {
			return out
		}
		return r.console(line[:k], line[k:])
	}
	r.reset(line)
	if msg, ok := r.lookup(messageKeys); ok && strings.Contains(line, "=") {
		out := parsedLine{Level: r.level(levelUnknown), Message: msg}
		r.error(&out)
		return out
	}
	return r.plain(line, whole)
}

func (r *lineReader) reset(line string) {
	r.resetParts("", line)
}

// resetParts sets the line to read to two texts, one after the other.
func (r *lineReader) resetParts(start, end string) {
	r.line = append(append(r.line[:0], start...), end...)
	r.fields.Reset(r.line)
}

func (r *lineReader) lookup(names []string) (string, bool) {
	for _, name := range names {
		if v, ok := r.fields.Lookup(name); ok && len(v) > 0 {
			return string(v), true
		}
	}
	return "", false
}

var moduleKeys = []string{"controller", "logger", "component"}

// module returns the module that wrote a line, which is a controller, a logger or a source
// file. It returns "" if the line names none.
func (r *lineReader) module(line string) string {
	r.reset(line)
	if v, ok := r.lookup(moduleKeys); ok {
		return v
	}
	head := line[:min(len(line), maxHead)]
	end := strings.Index(head, ".go")
	if end <= 0 {
		return ""
	}
	start := end
	for start > 0 && (letterOrDigit(head[start-1]) || head[start-1] == '_' || head[start-1] == '-') {
		start--
	}
	return strings.Clone(head[start:end])
}

func (r *lineReader) level(otherwise Level) Level {
	if v, ok := r.lookup(levelKeys); ok {
		if l, ok := levelOf(v); ok {
			return l
		}
	}
	return otherwise
}

// namedKeys is the number of names at the start of errorKeys that are used only for errors.
const namedKeys = 5

// error sets the error of out, which must differ from the message.
func (r *lineReader) error(out *parsedLine) {
	for i, name := range errorKeys {
		v, ok := r.fields.Lookup(name)
		if !ok || len(v) == 0 || string(v) == out.Message || string(v) == "<nil>" || string(v) == "nil" {
			continue
		}
		out.Error, out.Named = r.whole(v), i < namedKeys
		break
	}
	if word, _, more := strings.Cut(out.Message, " "); !more && out.Error != "" && len(word) <= len(eventWarning) {
		// The event recorder logs the type of an event as the message.
		out.Message, out.Error = out.Error, ""
		out.warn(word)
	}
	if kind, ok := r.fields.Lookup(typeKey); ok {
		out.warn(string(kind))
	}
	out.unwrapEvent()
}

// whole returns the full value of a field that contains unescaped quotes, as in err="node "a"
// not found". A line loses its escapes if it passes through a shell.
func (r *lineReader) whole(value []byte) string {
	r.quoted = append(append(append(r.quoted[:0], `="`...), value...), '"')
	k := bytes.Index(r.line, r.quoted)
	if k < 0 {
		return string(value)
	}
	n := k + len(r.quoted) // offset after the closing quote
	if n == len(r.line) || r.line[n] == ' ' || r.line[n] == ',' {
		return string(value)
	}
	rest := string(r.line[k+2:])
	for end := len(value) + 1; end < len(rest); end++ {
		if rest[end] == '"' && (end == len(rest)-1 || startsField(rest[end+1:])) {
			return rest[:end]
		}
	}
	return string(value)
}

// startsField reports whether a text starts with another field, such as ` name="`.
func startsField(text string) bool {
	if text[0] != ' ' {
		return false
	}
	n := 1
	for n < len(text) && (letterOrDigit(text[n]) || text[n] == '_' || text[n] == '.') {
		n++
	}
	return n > 1 && n < len(text) && text[n] == '='
}

// object parses a JSON object. It returns false if the object has no message, because such an
// object is not a log line.
func (r *lineReader) object(line string) (parsedLine, bool) {
	r.reset(line)
	msg, ok := r.lookup(messageKeys)
	if !ok || !r.fields.IsJSON() {
		return parsedLine{}, false
	}
	out := parsedLine{Level: r.level(levelUnknown), Message: msg}
	if out.Level == levelUnknown {
		// JSON written by klog has no level. Only its info lines have a verbosity.
		_, verbosity := r.fields.Lookup("v")
		_, stamp := r.fields.Lookup("ts")
		_, caller := r.fields.Lookup("caller")
		switch {
		case verbosity:
			out.Level = levelInfo
		case stamp && caller:
			out.Level = levelError
		}
	}
	r.error(&out)
	return out, true
}

// header is the position of a klog header in a line.
type header struct {
	start int // offset of the severity, or of the time if there is no severity
	end   int // offset after the closing bracket, where the message starts
	level Level
}

// headerOf finds the klog header, which may follow a prefix written by another program:
//
//	E1120 10:00:00.000000       1 controller.go:316] message
func headerOf(line string) (header, bool) {
	window := line[:min(len(line), maxHead)]
	for from := 0; ; {
		k := strings.IndexByte(window[from:], ']')
		if k < 0 {
			return header{}, false
		}
		k += from
		from = k + 1
		i := k
		for i > 0 && digit(window[i-1]) {
			i--
		}
		if i == k || i < 2 || window[i-1] != ':' || !letterOrDigit(window[i-2]) || k+1 < len(line) && line[k+1] != ' ' {
			continue
		}
		for i > 0 && window[i-1] != ' ' {
			i--
		}
		h := header{start: i, end: k + 1, level: levelUnknown}
		at := lastTimestamp(window[:i])
		if at < 0 {
			continue // there is no timestamp before the bracket
		}
		if h.start = at; at > 0 && klogLevel(window[at-1]) != levelUnknown {
			h.start, h.level = at-1, klogLevel(window[at-1])
		}
		return h, true
	}
}

// lastTimestamp returns the offset of the last timestamp of the form "0102 10:00:00" in a text,
// or -1 if there is none.
func lastTimestamp(text string) int {
	const parse = "0000 00:00:00"
	for i := len(text) - len(parse); i >= 0; i-- {
		if text[i+4] != ' ' || text[i+7] != ':' || text[i+10] != ':' {
			continue
		}
		ok := true
		for k := range len(parse) {
			ok = ok && (parse[k] != '0' || digit(text[i+k]))
		}
		if ok {
			return i
		}
	}
	return -1
}

// klog parses the text after a klog header. It is a quoted message with fields, or a line of
// klogr with a logger and "msg"=, or plain text.
func (r *lineReader) klog(line string, h header) parsedLine {
	out := parsedLine{Level: h.level}
	rest := strings.TrimLeft(line[h.end:], " ")
	if k := strings.Index(rest, "\t{\""); k > 0 && rest[len(rest)-1] == '}' {
		rest = rest[:k] // the fields after it belong to the program that relayed this line
	}
	r.resetParts("x.go:1] ", rest)
	msg, ok := r.lookup(messageKeys[:1])
	if !ok {
		out.Message = rest
		out.unwrapEvent()
		return out
	}
	out.Message = msg
	r.error(&out)
	out.Opens = strings.HasSuffix(rest, "=<")
	return out
}

// console parses a line of zap's console encoder. The message is followed by the fields as a
// JSON object.
func (r *lineReader) console(head, object string) parsedLine {
	out := r.plain(strings.TrimRight(head, " \t"), "")
	r.reset(object)
	r.error(&out)
	return out
}

// plain parses a line without fields. It drops times and names before a level from the message.
func (r *lineReader) plain(line, whole string) parsedLine {
	if out, ok := kubectlEvent(line); ok {
		return out
	}
	out := parsedLine{Level: levelUnknown, Message: line}
	if l, rest, ok := findLevel(line); ok {
		out.Level, out.Message = l, rest
	} else {
		out.Message = trimTimestamp(line)
	}
	if whole == "" {
		return out
	}
	// clusterctl and other programs log: Message key="value" cause="...".
	r.reset(line)
	if cause, ok := r.lookup(errorKeys[:3]); ok {
		if k := strings.IndexByte(out.Message, '='); k > 0 {
			if space := strings.LastIndexByte(out.Message[:k], ' '); space > 0 {
				out.Error, out.Named = unquotedCause(out.Message[space:], cause), true
				out.Message = out.Message[:space]
			}
		}
	}
	return out
}

// unquotedCause returns the full text of a cause that contains spaces and is not quoted, as in
// error=network is down interface="eth0".
func unquotedCause(fields, cause string) string {
	for _, name := range errorKeys[:3] {
		_, value, ok := strings.Cut(fields, " "+name+"="+cause)
		if !ok {
			continue
		}
		for end := range value {
			if startsField(value[end:]) {
				value = value[:end]
				break
			}
		}
		return cause + value
	}
	return cause
}

// firstLine returns the first non-empty line, truncated to n bytes. It appends the second line
// if the first line only introduces it, such as "2 errors occurred:".
func firstLine(text string, n int) string {
	text = strings.TrimLeft(text, " \t\n")
	if k := strings.IndexByte(text, '\n'); k >= 0 {
		next := strings.TrimLeft(text[k:], " \t\n*-")
		if text = text[:k]; strings.HasSuffix(text, ":") && next != "" {
			next, _, _ = strings.Cut(next, "\n")
			text += " " + next
		}
	}
	return text[:min(len(text), n)]
}

// color matches a color code of a terminal.
var color = lazyre.New(`\x1b\[[0-9;]*[A-Za-z]?`)

// eventWarning is the type of the events that may indicate a failure. Event recorders log
// events of every type at level info.
const eventWarning = "Warning"

// warn raises the level to warning if kind is the type of a warning event.
func (r *parsedLine) warn(kind string) {
	if kind == eventWarning {
		r.Level = max(r.Level, levelWarning)
	}
}

// unwrapEvent parses an event as client-go logs it:
//
//	Event(v1.ObjectReference{Kind:"Pod", ...}): type: 'Warning' reason: 'Failed' message
func (r *parsedLine) unwrapEvent() {
	if !strings.HasPrefix(r.Message, "Event(") {
		return
	}
	_, rest, _ := strings.Cut(r.Message, "}): type: '")
	kind, rest, _ := strings.Cut(rest, "' reason: '")
	if reason, message, ok := strings.Cut(rest, "' "); ok {
		r.Message = reason + ": " + message
		r.warn(kind)
	}
}

// maxColumnsBefore is the number of columns that may precede the type of an event. They are a
// namespace and an age.
const maxColumnsBefore = 2

// kubectlEvent parses an event as printed by kubectl describe, or by kubectl get, where the
// order of age and object is different:
//
//	Warning  Failed  9m20s (x15 over 11m)  kubelet  message
//	5m   Warning   Failed   pod/web   message
func kubectlEvent(line string) (parsedLine, bool) {
	out := parsedLine{Level: levelInfo}
	rest := strings.TrimLeft(line, " \t")
	var column string
	for n := 0; ; n++ {
		if column, rest = nextColumn(rest); column == eventWarning || column == "Normal" {
			break
		}
		if n == maxColumnsBefore || rest == "" || strings.Contains(column, " ") && !age.MatchString(column) {
			return parsedLine{}, false
		}
	}
	out.warn(column)
	reason, rest := nextColumn(rest)
	column, more := nextColumn(rest)
	if age.MatchString(column) {
		column, more = nextColumn(more)
	}
	if reason == "" || more == "" || strings.Contains(reason, " ") || strings.Contains(column, " ") {
		return parsedLine{}, false
	}
	out.Message = reason + ": " + more
	return out, true
}

// nextColumn splits a text at the first tab or pair of spaces.
func nextColumn(text string) (column, rest string) {
	k := strings.Index(text, "  ")
	if tab := strings.IndexByte(text, '\t'); tab >= 0 && (k < 0 || tab < k) {
		k = tab
	}
	if k < 0 {
		return text, ""
	}
	return text[:k], strings.TrimLeft(text[k:], " \t")
}

// age matches the age of an event as kubectl prints it, and the count that may follow: 9m20s (x15 over 11m).
var age = lazyre.New(`^(<unknown>|([0-9]{1,5}[smhdy])+)( \(x[0-9]+ over .*\))?$`)
