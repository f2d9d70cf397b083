package victorialogs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"crowsnest/sources/internal/rangeread"
)

// record is a row without its time and stream.
type record struct {
	at      time.Time
	message []byte
	fields  []rangeread.Pair // sorted by name
}

// removeLabels removes the fields that repeat labels of the stream.
func (r *record) removeLabels(labels []rangeread.Pair) {
	r.fields = slices.DeleteFunc(r.fields, func(p rangeread.Pair) bool {
		return slices.ContainsFunc(labels, func(l rangeread.Pair) bool { return string(l.Name) == string(p.Name) })
	})
}

// lineWriter writes the text of a line. If an agent has parsed the line into fields, lineWriter writes the line again
// from these fields.
type lineWriter struct {
	fields []string          // Config.Fields
	labels map[string]string // Config.Labels
}

// line returns the text of a row, and removes from the record the fields that are part of the text.
func (w lineWriter) line(r *record) []byte {
	if bytes.HasPrefix(r.message, []byte("{")) {
		return r.message // the agent has not parsed the line
	}
	var parsed []field
	r.fields = slices.DeleteFunc(r.fields, func(p rangeread.Pair) bool {
		name, ok := w.nameInLine(string(p.Name))
		if ok {
			parsed = append(parsed, field{name, p.Value})
		}
		return ok
	})
	if len(parsed) == 0 {
		return r.message
	}
	if !bytes.HasPrefix(r.message, []byte("missing _msg field; see ")) {
		parsed = append(parsed, field{"msg", r.message})
	}
	kind := ""
	if i := slices.IndexFunc(parsed, func(f field) bool { return f.name == "controllerKind" }); i >= 0 {
		kind = string(parsed[i].value)
	}
	slices.SortStableFunc(parsed, func(a, b field) int { return orderOf(a.name, kind) - orderOf(b.name, kind) })
	if line, ok := klogLine(r.at, slices.Clone(parsed)); ok {
		return line
	}
	return appendObject(nil, parsed)
}

// nameInLine returns the name that a field has in the line. ok is false if the field is not part of the line.
func (w lineWriter) nameInLine(name string) (inLine string, ok bool) {
	if _, renamed := w.labels[name]; renamed {
		return "", false
	}
	for _, f := range w.fields {
		pattern, excluded := strings.CutPrefix(f, "!")
		prefix, many := strings.CutSuffix(pattern, "*")
		switch {
		case many && strings.HasPrefix(name, prefix):
			return name[len(prefix):], !excluded
		case name == pattern:
			return name, !excluded
		}
	}
	return "", false
}

type field struct {
	name  string
	value []byte
}

// usualOrder is the order of the fields of zap, logr and klog. "kind" stands for the object of a
// controller, and "" for all other fields.
var usualOrder = []string{
	"level", "severity", "ts", "time", "timestamp", "logger", "caller", "msg", "message", "err", "controller", "controllerGroup",
	"controllerKind", "kind", "", "namespace", "name", "reconcileID", "error",
}

// orderOf returns the place of a field in a line. kind is the kind of the object that the line is about, or "".
func orderOf(name, kind string) int {
	switch outer, _, _ := strings.Cut(name, "."); {
	case outer == kind && kind != "":
		name = "kind"
	case name == "kind" || !slices.Contains(usualOrder, name):
		name = ""
	}
	return slices.Index(usualOrder, name)
}

// appendObject appends fields as a JSON object. VictoriaLogs has joined the names of nested objects with dots.
func appendObject(b []byte, fields []field) []byte {
	b = append(b, '{')
	for i := 0; i < len(fields); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		outer, _, nested := strings.Cut(fields[i].name, ".")
		if !nested {
			b = append(appendString(b, fields[i].name), ':')
			b = appendValue(b, fields[i].value)
			continue
		}
		var inner []field
		for ; i < len(fields) && strings.HasPrefix(fields[i].name, outer+"."); i++ {
			inner = append(inner, field{fields[i].name[len(outer)+1:], fields[i].value})
		}
		i--
		b = append(appendString(b, outer), ':')
		b = appendObject(b, inner)
	}
	return append(b, '}')
}

// appendValue appends the value of a field. VictoriaLogs stores numbers, booleans and arrays as text.
func appendValue(b, value []byte) []byte {
	if len(value) > 0 && value[0] != '"' && value[0] != '{' && json.Valid(value) {
		return append(b, value...)
	}
	return appendString(b, string(value))
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // ignore the error, because invalid UTF-8 is replaced
	return b
}

// klogLine returns the line of fields into which vlagent parses a line of klog. ok is false if the
// line was not one of klog.
func klogLine(at time.Time, fields []field) (line []byte, ok bool) {
	take := func(name string) (value []byte) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i >= 0 {
			value = fields[i].value
			fields = slices.Delete(fields, i, i+1)
		}
		return value
	}
	level, thread, source := take("level"), take("thread_id"), take("source_line")
	if len(level) == 0 || thread == nil || source == nil {
		return nil, false
	}
	message := string(take("msg"))
	if len(fields) > 0 {
		message = strconv.Quote(message)
	}
	line = fmt.Appendf(nil, "%s%s %7s %s] %s", bytes.ToUpper(level[:1]), at.UTC().Format("0102 15:04:05.000000"), thread, source, message)
	for _, f := range fields {
		line = fmt.Appendf(line, " %s=%q", f.name, f.value)
	}
	return line, true
}
