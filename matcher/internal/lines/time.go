package lines

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// TextTime returns the time in the text of a line without an envelope. The time is in UTC unless the line has a zone.
// ok is false if the line has no time. TextTime does not allocate.
//
//	I1120 10:00:00.123456       1 file.go:12] ...   the year is that of now
//	2025-11-20T10:00:00.123Z ...   also with a space or slashes, or in brackets
//	Nov 20 10:00:00 host unit[1]: ...
//	{"ts":1763632800.123, ...      ts, time, timestamp or @timestamp
//	WARN[2025-11-20T10:00:00Z] ...   also [28/Apr/2026:09:14:22 +0000] anywhere
//	kern:    info: [2025-11-20T10:00:00Z]: ...   the kernel log of Talos, with the node before it
//	time="2025-11-20T10:00:00Z" ... or ts=, of logfmt
func TextTime(line []byte, now time.Time) (t time.Time, ok bool) {
	if len(line) == 0 {
		return t, false
	}
	switch c := line[0]; {
	case isDigit(c):
		t, ok = leadingStamp(line)
	case c == '[':
		t, ok = leadingStamp(line[1:])
	case c == '{' || isSpace(c):
		if t, ok = jsonTime(line); !ok {
			t, ok = leadingStamp(bytes.TrimLeft(line, " \t"))
		}
	case 'A' <= c && c <= 'Z':
		if t, ok = klogTime(line, now); !ok {
			t, ok = syslogTime(line, now)
		}
	}
	if ok {
		return t, true
	}
	if t, ok = bracketTime(line); ok {
		return t, true
	}
	return logfmtTime(line)
}

// bracketTime reads the first time in brackets that follows other text. This is a timestamp directly after the first
// word, as logrus writes it on a terminal, or after the facility and the priority, as Talos writes it, or the
// timestamp of an access log.
func bracketTime(line []byte) (time.Time, bool) {
	const form = "[28/Apr/2026:09:14:22 +0000]"
	for i := 0; ; i++ {
		k := bytes.IndexByte(line[i:], '[')
		if k < 0 {
			return time.Time{}, false
		}
		i += k
		rest := line[i:]
		if i > 0 && i < len("CRITICAL") && bytes.IndexByte(line[:i], ' ') < 0 || isTalosHead(line[:i]) {
			if n, _ := stampLen(rest[1:]); n > 0 && len(rest) > n+1 && rest[n+1] == ']' {
				return StampTime(rest[1 : n+1])
			}
		}
		if !likeForm(rest, "[00/") || len(rest) < len(form) || !likeForm(rest[7:], "/0000:00:00:00 ") {
			continue
		}
		zone := rest[len("[28/Apr/2026:09:14:22 "):]
		month := bytes.Index([]byte(months), rest[4:7])
		if month < 0 || month%3 != 0 || zoneLen(zone) != 5 || zone[5] != ']' {
			continue
		}
		t, ok := makeTime([3]int{readNumber(rest[8:12]), month/3 + 1, readNumber(rest[1:3])}, [3]int{readNumber(rest[13:15]), readNumber(rest[16:18]), readNumber(rest[19:21])}, 0)
		if !ok {
			continue
		}
		offset := time.Duration(readNumber(zone[1:3]))*time.Hour + time.Duration(readNumber(zone[3:5]))*time.Minute
		if zone[0] == '-' {
			offset = -offset
		}
		return t.Add(-offset), true
	}
}

// isTalosHead reports whether b is the text before the time of a line of Talos' kernel log. It is the facility and
// the priority ("kern:    info: "). talosctl writes the node before them.
func isTalosHead(b []byte) bool {
	words := 0
	for len(b) > 0 && words <= 3 {
		k := bytes.IndexByte(b, ' ')
		if k < 2 || b[k-1] != ':' {
			return false
		}
		words++
		b = bytes.TrimLeft(b[k:], " ")
	}
	return words == 2 || words == 3
}

// leadingStamp reads a timestamp at the start of a line. The timestamp must not be followed by a letter or digit.
func leadingStamp(line []byte) (time.Time, bool) {
	n, _ := stampLen(line)
	if n == 0 || n < len(line) && (isDigit(line[n]) || 'a' <= line[n]|0x20 && line[n]|0x20 <= 'z') {
		return time.Time{}, false
	}
	return StampTime(line[:n])
}

// klogTime reads a timestamp such as I1120 10:00:00.123456, with any number of fractional digits.
func klogTime(line []byte, now time.Time) (time.Time, bool) {
	const form = "I0000 00:00:00."
	if len(line) < len(form)+1 || bytes.IndexByte([]byte("IWEFD"), line[0]) < 0 || !likeForm(line[1:], form[1:]) {
		return time.Time{}, false
	}
	ns, _ := readFraction(line[len(form):], int(time.Second))
	clock := [3]int{readNumber(line[6:8]), readNumber(line[9:11]), readNumber(line[12:14])}
	return inYearOf(now, [2]int{readNumber(line[1:3]), readNumber(line[3:5])}, clock, ns)
}

// likeForm reports whether b starts with form, in which 0 stands for any digit.
func likeForm(b []byte, form string) bool {
	if len(b) < len(form) {
		return false
	}
	for i := range form {
		if form[i] == '0' && !isDigit(b[i]) || form[i] != '0' && form[i] != b[i] {
			return false
		}
	}
	return true
}

// inYearOf adds the missing year to a timestamp. It chooses the latest year in which the time is at most a day after
// now.
func inYearOf(now time.Time, day [2]int, clock [3]int, ns int) (time.Time, bool) {
	limit := now.Add(24 * time.Hour)
	// The last 29 February can be up to eight years ago.
	for year := limit.UTC().Year(); year > limit.UTC().Year()-9; year-- {
		if t, ok := makeTime([3]int{year, day[0], day[1]}, clock, ns); ok && !t.After(limit) {
			return t, true
		}
	}
	return time.Time{}, false
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// syslogTime reads a timestamp such as Nov 20 10:00:00. A day below ten may have an additional space before it.
func syslogTime(line []byte, now time.Time) (time.Time, bool) {
	const form = "Nov 20 10:00:00 "
	if len(line) < len(form) || line[3] != ' ' || !isDigit(line[4]) && line[4] != ' ' || !isDigit(line[5]) || !likeForm(line[6:], " 00:00:00") {
		return time.Time{}, false
	}
	month := bytes.Index([]byte(months), line[:3])
	if month < 0 || month%3 != 0 {
		return time.Time{}, false
	}
	day := int(line[5] - '0')
	if isDigit(line[4]) {
		day += 10 * int(line[4]-'0')
	}
	return inYearOf(now, [2]int{month/3 + 1, day}, [3]int{readNumber(line[7:9]), readNumber(line[10:12]), readNumber(line[13:15])}, 0)
}

// jsonTime returns the first timestamp among the fields of the outermost JSON object.
func jsonTime(line []byte) (time.Time, bool) {
	r := jsonReader{b: line}
	if r.skipSpace(); r.currentByte() != '{' {
		return time.Time{}, false
	}
	for {
		r.i++
		if r.skipSpace(); r.currentByte() != '"' {
			return time.Time{}, false
		}
		m, ok := r.readMember(-1)
		if !ok {
			return time.Time{}, false
		}
		switch string(m.key) {
		case "ts", "time", "timestamp", "@timestamp":
			if t, ok := anyTime(m.val); ok && !m.escapes {
				return t, true
			}
		}
		if m.kind == jsonOpen {
			r.i-- // moves back to the closing brace
			if !r.skipNested() {
				return time.Time{}, false
			}
		}
		if r.skipSpace(); r.currentByte() != ',' {
			return time.Time{}, false
		}
	}
}

// logfmtTime returns the time of the first time= or ts= in a text line.
func logfmtTime(line []byte) (time.Time, bool) {
	if !bytes.Contains(line, []byte("time=")) && !bytes.Contains(line, []byte("ts=")) {
		return time.Time{}, false
	}
	r := textReader{b: line}
	for r.nextToken() {
		start := r.i
		if r.b[start] == '"' {
			if _, ok := r.readQuoted(); ok {
				continue
			}
			r.i++
		}
		r.skipWord()
		if r.currentByte() != '=' {
			continue
		}
		key := r.b[start:r.i]
		val, _, _ := r.readValue()
		if string(key) == "time" || string(key) == "ts" {
			if t, ok := anyTime(val); ok {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// anyTime reads a timestamp or a number since 1970. The size of the number decides whether its unit is seconds,
// milliseconds, microseconds or nanoseconds.
func anyTime(b []byte) (time.Time, bool) {
	if n, _ := stampLen(b); n > 0 {
		return parseStamp(b)
	}
	if len(b) == 0 || len(b) > 32 || !isDigit(b[0]) {
		return time.Time{}, false
	}
	whole, rest := b, []byte(nil)
	if k := bytes.IndexByte(b, '.'); k >= 0 {
		whole, rest = b[:k], b[k+1:]
	}
	for _, c := range b {
		if !isDigit(c) && c != '.' {
			return floatTime(b)
		}
	}
	if len(whole) > 19 || bytes.IndexByte(rest, '.') >= 0 {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	unit := timestampUnit(float64(n))
	ns, _ := readFraction(rest, int(unit))
	per := int64(time.Second / unit)
	return time.Unix(n/per, n%per*int64(unit)+int64(ns)).UTC(), n > 0
}

// floatTime reads a number of seconds since 1970 that has an exponent.
func floatTime(b []byte) (time.Time, bool) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v < 1 || v > math.MaxInt64 {
		return time.Time{}, false
	}
	sec, frac := math.Modf(v * timestampUnit(v).Seconds())
	return time.Unix(int64(sec), int64(frac*1e9)).UTC(), true
}

func timestampUnit(v float64) time.Duration {
	switch {
	case v < 1e11:
		return time.Second
	case v < 1e14:
		return time.Millisecond
	case v < 1e17:
		return time.Microsecond
	}
	return time.Nanosecond
}

// stampLen returns the length of the timestamp at the start of b, or 0 if there is none. It accepts RFC 3339 and these
// variants: a space instead of the T, slashes in the date, a comma before the fraction, a zone without a colon, and no
// zone. It does not check whether the day exists; parseStamp does.
func stampLen(b []byte) (n int, zoned bool) {
	const form = "0000-00-00T00:00:00"
	if len(b) < len(form) {
		return 0, false
	}
	for i := range form {
		c := b[i]
		switch form[i] {
		case '0':
			if !isDigit(c) {
				return 0, false
			}
		case '-':
			if c != '-' && c != '/' {
				return 0, false
			}
		case 'T':
			if c != 'T' && c != ' ' {
				return 0, false
			}
		default:
			if c != ':' {
				return 0, false
			}
		}
	}
	n = len(form)
	if n+1 < len(b) && (b[n] == '.' || b[n] == ',') && isDigit(b[n+1]) {
		for n++; n < len(b) && isDigit(b[n]); n++ {
		}
	}
	if z := zoneLen(b[n:]); z > 0 {
		return n + z, true
	}
	return n, false
}

// zoneLen returns the length of a zone at the start of b, such as Z, +00:00 or +0000. It returns 0 if there is none.
func zoneLen(b []byte) int {
	switch {
	case len(b) > 0 && b[0] == 'Z':
		return 1
	case len(b) < 5 || b[0] != '+' && b[0] != '-' || !isDigit(b[1]) || !isDigit(b[2]):
		return 0
	case len(b) >= 6 && b[3] == ':' && isDigit(b[4]) && isDigit(b[5]):
		return 6
	case isDigit(b[3]) && isDigit(b[4]):
		return 5
	}
	return 0
}

// parseStamp is StampTime for any text. ok is also false if the text does not look like a timestamp.
func parseStamp(b []byte) (t time.Time, ok bool) {
	if n, _ := stampLen(b); n == 0 || n != len(b) {
		return t, false
	}
	return StampTime(b)
}

// StampTime returns the time of a text that looks like a timestamp, in UTC. A timestamp without
// a zone is read as UTC. ok is false if there is no such day or time of day.
func StampTime(b []byte) (t time.Time, ok bool) {
	n := len(b)
	date := [3]int{readNumber(b[0:4]), readNumber(b[5:7]), readNumber(b[8:10])}
	clock := [3]int{readNumber(b[11:13]), readNumber(b[14:16]), readNumber(b[17:19])}
	i, ns := 19, 0
	if i < n && (b[i] == '.' || b[i] == ',') {
		value, digits := readFraction(b[i+1:], int(time.Second))
		i, ns = i+1+digits, value
	}
	t, ok = makeTime(date, clock, ns)
	if !ok || n-i < 2 { // the zone is Z or missing
		return t, ok
	}
	hours, minutes := readNumber(b[i+1:i+3]), readNumber(b[n-2:n])
	if hours > 24 || minutes > 59 {
		return time.Time{}, false
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if b[i] == '-' {
		offset = -offset
	}
	return t.Add(-offset), true
}

// Stamps parses timestamps of the usual form, such as 2025-11-20T10:00:00.123456789Z. It caches the newest second,
// because consecutive timestamps are usually in the same second. The zero value is ready.
type Stamps struct {
	second [len("0000-00-00T00:00:00")]byte
	start  time.Time
}

// Time is StampTime with the cache.
func (s *Stamps) Time(b []byte) (t time.Time, ok bool) {
	const (
		from = len(s.second) + len(".")
		to   = from + len("000000000")
	)
	if len(b) != to+len("Z") || b[from-1] != '.' || b[to] != 'Z' {
		return StampTime(b)
	}
	ns, digits := readFraction(b[from:to], int(time.Second))
	if digits != to-from {
		return StampTime(b)
	}
	if string(s.second[:]) != string(b[:len(s.second)]) {
		start, ok := StampTime(b[:len(s.second)])
		if !ok {
			return t, false
		}
		copy(s.second[:], b)
		s.start = start
	}
	return s.start.Add(time.Duration(ns)), true
}

// makeTime returns the time in UTC. It returns false if the day or the time of day does not exist. A leap second
// becomes the start of the next minute.
func makeTime(date, clock [3]int, ns int) (time.Time, bool) {
	year, month, day := date[0], time.Month(date[1]), date[2]
	if month < time.January || month > time.December || day < 1 || day > daysIn(year, month) {
		return time.Time{}, false
	}
	if clock[0] > 23 || clock[1] > 59 || clock[2] > 60 {
		return time.Time{}, false
	}
	return time.Date(year, month, day, clock[0], clock[1], clock[2], ns, time.UTC), true
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// readFraction reads the decimal digits after a decimal point. It returns the fraction as a multiple of 1/unit, and the
// number of digits.
func readFraction(b []byte, unit int) (value, n int) {
	for n < len(b) && isDigit(b[n]) {
		unit /= 10
		value += int(b[n]-'0') * unit
		n++
	}
	return value, n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func readNumber(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}
