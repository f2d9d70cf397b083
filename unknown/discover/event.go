package discover

import (
	"strings"

	"crowsnest/internal/lazyre"
)

// eventWarning is the type of the events that may indicate a failure. Event recorders log all
// events at level info, whatever their type.
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
