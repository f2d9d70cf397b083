package discover

import (
	"strconv"
	"strings"
	"time"
)

// eventWarning is the type of events that are worth a look. Who records an event
// writes it to the log at info, whatever its type.
const eventWarning = "Warning"

// warn takes the type of an event.
func (r *Reading) warn(kind string) {
	if kind == eventWarning {
		r.Level = max(r.Level, LevelWarning)
	}
}

// recorded reads an event as client-go logs it:
//
//	Event(v1.ObjectReference{Kind:"Pod", ...}): type: 'Warning' reason: 'Failed' message
func (r *Reading) recorded() {
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

// mostBefore is how many columns may stand before the type of an event: a
// namespace and an age.
const mostBefore = 2

// listed reads an event as kubectl describe and kubectl get list it, the second
// with age and object in other columns:
//
//	Warning  Failed  9m20s (x15 over 11m)  kubelet  message
//	5m   Warning   Failed   pod/web   message
func listed(line string) (Reading, bool) {
	out := Reading{Level: LevelInfo}
	rest := strings.TrimLeft(line, " \t")
	var column string
	for n := 0; ; n++ {
		if column, rest = nextColumn(rest); column == eventWarning || column == "Normal" {
			break
		}
		if n == mostBefore || rest == "" || strings.Contains(column, " ") && !out.age(column) {
			return Reading{}, false
		}
		out.age(column)
	}
	out.warn(column)
	reason, rest := nextColumn(rest)
	column, more := nextColumn(rest)
	if out.age(column) {
		column, more = nextColumn(more)
	}
	if reason == "" || more == "" || strings.Contains(reason, " ") || strings.Contains(column, " ") {
		return Reading{}, false
	}
	out.Message = reason + ": " + more
	return out, true
}

// nextColumn cuts a text where a tab or two spaces are.
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

// age tells whether a column is that of an event's age, and takes how often it
// happened in how long: "9m20s (x15 over 11m)".
func (r *Reading) age(column string) bool {
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

// ageOf reads an age as kubectl writes it: 9m20s, 2d3h.
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
