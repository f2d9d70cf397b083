package discover

import (
	"strings"
	"time"

	"crowsnest/matcher"
)

// Reading is what a line says: how serious it is, its message, and the error that
// it names, if that is a value of its own.
type Reading struct {
	Level   Level
	Message string
	Error   string
	// Named tells that the line itself calls the error one.
	Named bool
	// Times is how often an event says that it happened, and Over in how long; 0 of
	// other lines.
	Times int64
	Over  time.Duration
	// Opens tells that the error follows in the next lines, as klog writes a
	// text of several lines.
	Opens bool
}

// Bounds of what is looked at, in bytes.
const (
	maxHead    = 256 // of prefixes before what a program wrote
	maxMessage = 512
	maxError   = 1024
)

// Reader reads lines of any format. The zero value is ready. It is not safe for
// concurrent use.
type Reader struct {
	fields matcher.FieldReader
	line   []byte
}

// messageKeys and errorKeys are names under which loggers write what happened and
// why, the best first.
var (
	messageKeys = []string{"msg", "message", "log", "event"}
	errorKeys   = []string{"err", "error", "cause", "exception", "panic", "message", "reason"}
	levelKeys   = []string{"level", "lvl", "severity", "levelname", "log.level"}
)

// Read reads a line without its envelope.
func (r *Reader) Read(line string) Reading {
	return r.read(line, 2)
}

// read reads a line that may hold another one, as deep as that.
func (r *Reader) read(line string, depth int) Reading {
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = withoutColours(line)
	}
	line = strings.TrimRight(line, " \t\r\n")
	out := r.form(strings.TrimLeft(line, " \t"), line)
	// A program that writes the log of another one keeps its lines whole.
	if inner, ok := headerOf(out.Message); ok && depth > 0 && inner.end > 0 {
		in := r.read(out.Message, depth-1)
		if in.Error == "" {
			in.Error, in.Named = out.Error, out.Named
		}
		out = in
	}
	out.Message, out.Error = firstLine(out.Message, maxMessage), firstLine(out.Error, maxError)
	return out
}

// form tells the format by what only that format has.
func (r *Reader) form(line, whole string) Reading {
	if line == "" {
		return Reading{Level: LevelUnknown}
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
		out := Reading{Level: r.level(LevelUnknown), Message: msg}
		r.error(&out)
		return out
	}
	return r.plain(line, whole)
}

// reset takes another line for the fields.
func (r *Reader) reset(line string) {
	r.line = append(r.line[:0], line...)
	r.fields.Reset(r.line)
}

func (r *Reader) lookup(names []string) (string, bool) {
	for _, name := range names {
		if v, ok := r.fields.Lookup(name); ok && len(v) > 0 {
			return string(v), true
		}
	}
	return "", false
}

// partKeys are names of fields that tell the parts of a program apart.
var partKeys = []string{"controller", "logger", "component"}

// part returns which part of a program wrote a line: a controller, a logger or a
// file of its source; "" if the line does not say.
func (r *Reader) part(line string) string {
	r.reset(line)
	if v, ok := r.lookup(partKeys); ok {
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

// level returns the level that a field states.
func (r *Reader) level(otherwise Level) Level {
	if v, ok := r.lookup(levelKeys); ok {
		if l, ok := levelOf(v); ok {
			return l
		}
	}
	return otherwise
}

// namedKeys is how many of errorKeys are of errors and nothing else.
const namedKeys = 5

// error adds why it happened, which is not what happened.
func (r *Reader) error(out *Reading) {
	for i, name := range errorKeys {
		v, ok := r.fields.Lookup(name)
		if !ok || len(v) == 0 || string(v) == out.Message || string(v) == "<nil>" || string(v) == "nil" {
			continue
		}
		out.Error, out.Named = r.whole(string(v)), i < namedKeys
		break
	}
	if word, _, more := strings.Cut(out.Message, " "); !more && out.Error != "" && len(word) <= len(eventWarning) {
		// The recorder of events has the type as its message.
		out.Message, out.Error = out.Error, ""
		out.warn(word)
	}
	if kind, ok := r.fields.Lookup("type"); ok {
		out.warn(string(kind))
	}
	out.recorded()
}

// whole returns all of a value whose own quotes nobody escaped, as in lines that
// went through a shell: err="node "a" not found".
func (r *Reader) whole(value string) string {
	line := string(r.line)
	k := strings.Index(line, `="`+value+`"`)
	if k < 0 {
		return value
	}
	rest := line[k+2:]
	if len(rest) <= len(value)+1 || rest[len(value)+1] == ' ' || rest[len(value)+1] == ',' {
		return value
	}
	for end := len(value) + 1; end < len(rest); end++ {
		if rest[end] == '"' && (end == len(rest)-1 || fieldAt(rest[end+1:])) {
			return rest[:end]
		}
	}
	return value
}

// fieldAt tells whether a text goes on with a field: ` name="`.
func fieldAt(text string) bool {
	if text[0] != ' ' {
		return false
	}
	n := 1
	for n < len(text) && (letterOrDigit(text[n]) || text[n] == '_' || text[n] == '.') {
		n++
	}
	return n > 1 && n < len(text) && text[n] == '='
}

// object reads an object of JSON, if it is the line of a logger: it has a message.
func (r *Reader) object(line string) (Reading, bool) {
	r.reset(line)
	msg, ok := r.lookup(messageKeys)
	if !ok || !r.fields.JSON() {
		return Reading{}, false
	}
	out := Reading{Level: r.level(LevelUnknown), Message: msg}
	if out.Level == LevelUnknown {
		// klog has no level in JSON: informative lines have their verbosity.
		_, verbosity := r.fields.Lookup("v")
		_, stamp := r.fields.Lookup("ts")
		_, caller := r.fields.Lookup("caller")
		switch {
		case verbosity:
			out.Level = LevelInfo
		case stamp && caller:
			out.Level = LevelError
		}
	}
	r.error(&out)
	return out, true
}

// header is where the header of klog is in a line.
type header struct {
	start int // of the severity, or of the file's name where there is none
	end   int // behind the bracket; the message follows
	level Level
}

// headerOf finds the header of klog, which other programs put something before:
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
		h := header{start: i, end: k + 1, level: LevelUnknown}
		at := lastStamp(window[:i])
		if at < 0 {
			continue // no time before it
		}
		if h.start = at; at > 0 && klogLevel(window[at-1]) != LevelUnknown {
			h.start, h.level = at-1, klogLevel(window[at-1])
		}
		return h, true
	}
}

// lastStamp finds the last "0102 10:00:00" in a text, -1 if there is none.
func lastStamp(text string) int {
	const form = "0000 00:00:00"
	for i := len(text) - len(form); i >= 0; i-- {
		if text[i+4] != ' ' || text[i+7] != ':' || text[i+10] != ':' {
			continue
		}
		ok := true
		for k := range len(form) {
			ok = ok && (form[k] != '0' || digit(text[i+k]))
		}
		if ok {
			return i
		}
	}
	return -1
}

// klog reads what follows the header: a quoted message and fields, the form of
// klogr with a logger and "msg"=, or a text.
func (r *Reader) klog(line string, h header) Reading {
	out := Reading{Level: h.level}
	rest := strings.TrimLeft(line[h.end:], " ")
	if k := strings.Index(rest, "\t{\""); k > 0 && rest[len(rest)-1] == '}' {
		rest = rest[:k] // fields of the program that wrote the log of this one
	}
	r.reset("x.go:1] " + rest)
	msg, ok := r.lookup(messageKeys[:1])
	if !ok {
		out.Message = rest
		out.recorded()
		return out
	}
	out.Message = msg
	r.error(&out)
	out.Opens = strings.HasSuffix(rest, "=<")
	return out
}

// console reads a line of zap's console encoder, whose fields are an object at the
// end. The message is what stands before them.
func (r *Reader) console(head, object string) Reading {
	out := r.plain(strings.TrimRight(head, " \t"), "")
	r.reset(object)
	r.error(&out)
	return out
}

// plain reads a line without fields: times and names before a level are no part
// of the message.
func (r *Reader) plain(line, whole string) Reading {
	if out, ok := listed(line); ok {
		return out
	}
	out := Reading{Level: LevelUnknown, Message: line}
	if l, rest, ok := leveled(line); ok {
		out.Level, out.Message = l, rest
	} else {
		out.Message = withoutStamp(line)
	}
	if whole == "" {
		return out
	}
	// clusterctl and others: Message key="value" cause="...".
	r.reset(line)
	if cause, ok := r.lookup(errorKeys[:3]); ok {
		if k := strings.IndexByte(out.Message, '='); k > 0 {
			if space := strings.LastIndexByte(out.Message[:k], ' '); space > 0 {
				out.Error, out.Named = bareCause(out.Message[space:], cause), true
				out.Message = out.Message[:space]
			}
		}
	}
	return out
}

// bareCause returns all of a cause that was written without quotes, in spite of its
// spaces: error=network is down interface="eth0".
func bareCause(fields, cause string) string {
	for _, name := range errorKeys[:3] {
		_, value, ok := strings.Cut(fields, " "+name+"="+cause)
		if !ok {
			continue
		}
		for end := range value {
			if fieldAt(value[end:]) {
				value = value[:end]
				break
			}
		}
		return cause + value
	}
	return cause
}

// firstLine returns the first line that is not empty, at most n bytes of it, and
// the next one if it only announces that: "2 errors occurred:".
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

// withoutColours takes out the sequences that colour a terminal.
func withoutColours(line string) string {
	var b strings.Builder
	for len(line) > 0 {
		k := strings.Index(line, "\x1b[")
		if k < 0 {
			break
		}
		b.WriteString(line[:k])
		line = line[k+2:]
		for len(line) > 0 && (digit(line[0]) || line[0] == ';') {
			line = line[1:]
		}
		if len(line) > 0 && letter(line[0]) {
			line = line[1:]
		}
	}
	b.WriteString(line)
	return b.String()
}
