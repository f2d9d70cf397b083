package lines

import "time"

// stampLen returns the length of the timestamp at the start of b, or 0 if there is none. It
// accepts RFC 3339 and its variants: a space instead of the T, slashes in the date, a comma
// before the fraction, a zone without a colon or no zone. parseStamp checks whether the day
// exists.
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

// zoneLen returns the length of Z, +00:00 or +0000 at the start of b, or 0.
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

// parseStamp is StampTime for any text. ok is also false if the text is not a timestamp.
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

// Stamps reads timestamps of the usual form, such as 2025-11-20T10:00:00.123456789Z. It
// remembers the newest second, because consecutive timestamps usually are in the same one. The
// zero value is ready.
type Stamps struct {
	second [len("0000-00-00T00:00:00")]byte
	start  time.Time
}

// Time is StampTime.
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

// makeTime returns the time in UTC, if the day and the time of day exist. A leap second counts
// as the start of the next minute.
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

// readFraction reads the decimal digits at the start of b, which follow a decimal point. It
// returns their value and their number. unit is the value of 1.
func readFraction(b []byte, unit int) (value, n int) {
	for n < len(b) && isDigit(b[n]) {
		unit /= 10
		value += int(b[n]-'0') * unit
		n++
	}
	return value, n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// readNumber returns the value of decimal digits.
func readNumber(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}
