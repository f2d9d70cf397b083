package discover

import (
	"strconv"
	"strings"
	"time"
)

// eventWarning is the type of events that may indicate a failure. Event recorders
// log all events at info, whatever their type.
const eventWarning = "Warning"

// warn raises the level if an event of this type is a warning.
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

// maxColumnsBefore is the number of columns allowed before the type of an event: a
// namespace and an age.
const maxColumnsBefore = 2

// kubectlEvent parses an event as printed by kubectl describe, or by kubectl get,
// which orders age and object differently:
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
		if n == maxColumnsBefore || rest == "" || strings.Contains(column, " ") && !out.parseAge(column) {
			return parsedLine{}, false
		}
		out.parseAge(column)
	}
	out.warn(column)
	reason, rest := nextColumn(rest)
	column, more := nextColumn(rest)
	if out.parseAge(column) {
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

// parseAge reports whether a column is the age of an event. If the column also
// states a count and a period, "9m20s (x15 over 11m)", parseAge records them.
func (r *parsedLine) parseAge(column string) bool {
	last, often, more := strings.Cut(column, " (x")
	if _, ok := ageOf(last); !ok {
		return false
	}
	if !more {
		return true
	}
	times, over, _ := strings.Cut(strings.TrimSuffix(often, ")"), " over ")
	n, err := strconv.ParseInt(times, 10, 32)
	if err != nil {
		return false
	}
	r.Times = n
	r.Over, _ = ageOf(over)
	return true
}

// ageOf parses an age as kubectl prints it: 9m20s, 2d3h.
func ageOf(text string) (time.Duration, bool) {
	if text == "<unknown>" {
		return 0, true
	}
	var sum time.Duration
	for text != "" {
		number := len(text) - len(strings.TrimLeft(text, "0123456789"))
		n, err := strconv.ParseInt(text[:number], 10, 16)
		if err != nil || number == len(text) {
			return 0, false
		}
		unit, ok := ageUnits[text[number]]
		if !ok {
			return 0, false
		}
		sum += time.Duration(n) * unit
		text = text[number+1:]
	}
	return sum, sum > 0
}

var ageUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'y': 365 * 24 * time.Hour}
