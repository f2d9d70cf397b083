package traffic

import (
	"strconv"
	"strings"
	"time"
)

// layout is the log format of a program.
type layout int

const (
	klogText layout = iota
	klogJSON
	zapJSON
	zapConsole
	logrus
)

// layouts are the formats and their share, in percent.
var (
	mixed      = [5]int{60, 15, 10, 10, 5}
	mostlyJSON = [5]int{5, 46, 45, 2, 2}
)

func (d dice) layout(shares [5]int) layout {
	x := d.IntN(100)
	for l, share := range shares {
		if x < share {
			return layout(l)
		}
		x -= share
	}
	return logrus
}

// entry is one line before formatting. Its texts contain nothing that a format
// would have to escape.
type entry struct {
	level  byte // I, W, E
	file   string
	msg    []byte
	fields []byte // key, 0, value, 0, ...
}

func (e *entry) reset(level byte, file, msg string) {
	e.level, e.file, e.msg, e.fields = level, file, append(e.msg[:0], msg...), e.fields[:0]
}

func (e *entry) add(key, value string) {
	e.fields = append(append(append(append(e.fields, key...), 0), value...), 0)
}

// begin starts a field whose value the caller appends and ends with a 0.
func (e *entry) begin(key string) []byte { return append(append(e.fields, key...), 0) }

// each calls f for every field.
func (e *entry) each(f func(key, value []byte)) {
	for b := e.fields; len(b) > 0; {
		var kv [2][]byte
		for i := range kv {
			n := 0
			for b[n] != 0 {
				n++
			}
			kv[i], b = b[:n], b[n+1:]
		}
		f(kv[0], kv[1])
	}
}

// reconciling adds the fields that controller-runtime adds to each line.
func (e *entry) reconciling(d dice) {
	kind := d.one(kinds)
	ns := d.one(namespaces)
	name := string(d.name(nil))
	e.add("controller", strings.ToLower(kind))
	e.add("controllerKind", kind)
	e.add(kind, ns+"/"+name)
	e.add("namespace", ns)
	e.add("name", name)
	e.fields = append(d.uuid(e.begin("reconcileID")), 0)
}

// render appends the formatted line without its line break.
func (e *entry) render(b []byte, l layout, now time.Time) []byte {
	switch l {
	case klogText:
		b = now.AppendFormat(append(b, e.level), "0102 15:04:05.000000")
		b = append(append(b, "       1 "...), e.file...)
		b = strconv.AppendInt(append(b, ".go:"...), int64(40+len(e.file)*17), 10)
		b = append(append(append(b, `] "`...), e.msg...), '"')
		return e.keyValues(b)
	case logrus:
		b = now.AppendFormat(append(b, `time="`...), "2006-01-02T15:04:05Z")
		b = append(append(b, `" level=`...), levelName(e.level)...)
		b = append(append(append(b, ` msg="`...), e.msg...), '"')
		return e.keyValues(b)
	case klogJSON:
		b = strconv.AppendInt(append(b, `{"ts":`...), now.UnixMilli(), 10)
		b = append(append(b, `.1031,"caller":"`...), e.file...)
		b = append(append(append(b, `.go:118","msg":"`...), e.msg...), `","v":0`...)
		return append(e.members(b), '}')
	case zapJSON:
		b = append(append(b, `{"level":"`...), levelName(e.level)...)
		b = now.AppendFormat(append(b, `","ts":"`...), "2006-01-02T15:04:05.000Z")
		b = append(append(b, `","logger":"controllers.`...), e.file...)
		b = append(append(append(b, `","msg":"`...), e.msg...), '"')
		return append(e.members(b), '}')
	}
	b = now.AppendFormat(b, "2006-01-02T15:04:05.000Z\t")
	b = append(append(b, strings.ToUpper(levelName(e.level))...), "\tcontrollers."...)
	b = append(append(append(b, e.file...), '\t'), e.msg...)
	b = append(b, "\t{\"v\":0"...)
	return append(e.members(b), '}')
}

func (e *entry) keyValues(b []byte) []byte {
	e.each(func(k, v []byte) { b = append(append(append(append(append(b, ' '), k...), `="`...), v...), '"') })
	return b
}

func (e *entry) members(b []byte) []byte {
	e.each(func(k, v []byte) { b = append(append(append(append(append(b, `,"`...), k...), `":"`...), v...), '"') })
	return b
}

func levelName(level byte) string {
	switch level {
	case 'E':
		return "error"
	case 'W':
		return "warning"
	}
	return "info"
}
