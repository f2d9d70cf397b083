package lines

import "time"

// stampLen returns how many bytes of b look like a time stamp in RFC 3339, or
// in one of its relatives: a space instead of the T, slashes in the date, a
// comma before the fraction, a zone without colon or none at all. It returns 0
// if there is none. parseStamp checks whether such a day exists.
func stampLen(b []byte) (n int, zoned bool) {
	const form = "0000-00-00T00:00:00"
	if len(b) < len(form) {
		return 0, false
	}
	for i := range form {
		c := b[i]
		switch form[i] {
		case '0':
			if !digit(c) {
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
	if n+1 < len(b) && (b[n] == '.' || b[n] == ',') && digit(b[n+1]) {
		for n++; n < len(b) && digit(b[n]); n++ {
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
	case len(b) < 5 || b[0] != '+' && b[0] != '-' || !digit(b[1]) || !digit(b[2]):
		return 0
	case len(b) >= 6 && b[3] == ':' && digit(b[4]) && digit(b[5]):
		return 6
	case digit(b[3]) && digit(b[4]):
		return 5
	}
	return 0
}

// parseStamp is StampTime of any text. ok is also false if it is not a stamp.
func parseStamp(b []byte) (t time.Time, ok bool) {
	if n, _ := stampLen(b); n == 0 || n != len(b) {
		return t, false
	}
	return StampTime(b)
}

// StampTime is the time of what looks like a stamp, in UTC. A stamp without a zone is
// taken for UTC. ok is false if there is no such day or time of day.
func StampTime(b []byte) (t time.Time, ok bool) {
	n := len(b)
	date := [3]int{number(b[0:4]), number(b[5:7]), number(b[8:10])}
	clock := [3]int{number(b[11:13]), number(b[14:16]), number(b[17:19])}
	i, ns := 19, 0
	if i < n && (b[i] == '.' || b[i] == ',') {
		value, digits := fraction(b[i+1:], int(time.Second))
		i, ns = i+1+digits, value
	}
	t, ok = makeTime(date, clock, ns)
	if !ok || n-i < 2 { // Z or none
		return t, ok
	}
	hours, minutes := number(b[i+1:i+3]), number(b[n-2:n])
	if hours > 24 || minutes > 59 {
		return time.Time{}, false
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if b[i] == '-' {
		offset = -offset
	}
	return t.Add(-offset), true
}

// Stamps reads stamps of the usual form, such as 2025-11-20T10:00:00.123456789Z. Those of one
// second mostly follow each other, so it remembers the newest second. The zero value is ready.
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
	ns, digits := fraction(b[from:to], int(time.Second))
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

// makeTime returns the time in UTC if there is such a day and time of day. A
// leap second is the start of the next minute.
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

// fraction returns the value of the decimal digits at the start of b, which follow a
// decimal point, and their number. unit is the value of 1.
func fraction(b []byte, unit int) (value, n int) {
	for n < len(b) && digit(b[n]) {
		unit /= 10
		value += int(b[n]-'0') * unit
		n++
	}
	return value, n
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number returns the value of decimal digits.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}
