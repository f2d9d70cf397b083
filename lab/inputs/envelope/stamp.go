package envelope

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// stamps reads times in the forms that tools write. It remembers the layout that fitted last.
type stamps struct {
	now    time.Time
	last   int
	second [19]byte
	start  time.Time
}

// layouts are forms of times beside RFC 3339 and its relatives, which stampLen finds. A stamp
// with a layout that has no year is in the year before now.
var layouts = []string{
	"Jan _2, 2006 @ 15:04:05", "Jan _2, 2006, 15:04:05", "Jan _2, 2006 15:04:05", "Jan _2, 2006, 3:04:05 PM", "Jan _2, 2006 3:04:05 PM", "Mon, Jan _2 2006 3:04:05 pm",
	"02/Jan/2006:15:04:05 -0700", "2/Jan/2006 15:04:05", "Mon Jan _2 15:04:05 2006", "Mon Jan _2 15:04:05 MST 2006", "Mon, 02 Jan 2006 15:04:05 MST", "Mon, 02 Jan 2006 15:04:05 -0700",
	"Mon 2006-01-02 15:04:05 MST", "1/2/2006 15:04:05", "1/2/2006, 15:04:05", "1/2/2006 3:04:05 PM", "1/2/2006, 3:04:05 PM", "2.1.2006 15:04:05", "2 Jan 2006 15:04:05", "2 Jan 2006, 15:04:05",
	"20060102T150405Z", "20060102T150405", "2006-01-02 3:04:05 PM", "Jan _2 15:04:05", "01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "02-Jan-2006 15:04:05", "Jan 02 2006 15:04:05",
}

// parse returns the time that a text states in UTC, and how exactly, as the unit of its last
// digit. A time without a zone is in UTC.
func (s *stamps) parse(b []byte) (t time.Time, unit time.Duration, ok bool) {
	b = bytes.TrimSpace(b)
	if n, _ := stampLen(b); n > 0 {
		if rest := b[n:]; len(rest) > 0 && !bytes.HasPrefix(rest, []byte(" UTC")) && !bytes.HasPrefix(rest, []byte(" +")) && !bytes.HasPrefix(rest, []byte(" -")) && !bytes.HasPrefix(rest, []byte(" Z")) {
			return t, 0, false
		}
		return s.stamp(b[:n], b[n:])
	}
	if len(b) == 0 || len(b) > 48 {
		return t, 0, false
	}
	if t, unit, ok = epoch(b); ok {
		return t, unit, true
	}
	return s.layout(string(b))
}

// stamp reads what stampLen found. zone is what follows it: a zone after a space, or nothing.
func (s *stamps) stamp(b, zone []byte) (t time.Time, unit time.Duration, ok bool) {
	if s.start.IsZero() || string(s.second[:]) != string(b[:19]) {
		date := time.Date(digits(b[0:4]), time.Month(digits(b[5:7])), digits(b[8:10]), digits(b[11:13]), digits(b[14:16]), digits(b[17:19]), 0, time.UTC)
		if date.Day() != digits(b[8:10]) || int(date.Month()) != digits(b[5:7]) || digits(b[11:13]) > 23 || digits(b[14:16]) > 59 {
			return t, 0, false
		}
		copy(s.second[:], b)
		s.start = date
	}
	t = s.start
	unit = time.Second
	i := 19
	if i < len(b) && (b[i] == '.' || b[i] == ',') {
		ns := 0
		for i++; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
			unit /= 10
			ns += int(b[i]-'0') * int(unit)
		}
		unit = max(unit, 1)
		t = t.Add(time.Duration(ns))
	}
	at := b[i:]
	if len(at) == 0 {
		at, _, _ = bytes.Cut(bytes.TrimLeft(zone, " "), []byte(" "))
	}
	if len(at) >= 3 && (at[0] == '+' || at[0] == '-') {
		minutes := digits(at[1:3]) * 60
		if len(at) >= 5 {
			minutes += digits(at[len(at)-2:])
		}
		if at[0] == '+' {
			minutes = -minutes
		}
		t = t.Add(time.Duration(minutes) * time.Minute)
	}
	return t, unit, true
}

// epoch reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970, by
// its size; of the years from 2001 to 2286.
func epoch(b []byte) (t time.Time, unit time.Duration, ok bool) {
	whole, rest := b, []byte(nil)
	if k := bytes.IndexByte(b, '.'); k >= 0 {
		whole, rest = b[:k], b[k+1:]
	}
	if !isDigits(whole) || len(rest) > 0 && !isDigits(rest) {
		if len(b) < 32 && bytes.ContainsAny(b, "eE") {
			if v, err := strconv.ParseFloat(string(b), 64); err == nil && v > 1e9 && v < 1e10 {
				return time.Unix(0, int64(v*1e9)).UTC().Round(time.Microsecond), time.Microsecond, true
			}
		}
		return t, 0, false
	}
	switch len(whole) {
	case 10:
		unit = time.Second
	case 13:
		unit = time.Millisecond
	case 16:
		unit = time.Microsecond
	case 19:
		unit = time.Nanosecond
	default:
		return t, 0, false
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || whole[0] == '0' {
		return t, 0, false
	}
	per := int64(time.Second / unit)
	ns := n % per * int64(unit)
	for _, c := range rest {
		if unit == 1 {
			break
		}
		unit /= 10
		ns += int64(c-'0') * int64(unit)
	}
	return time.Unix(n/per, ns).UTC(), max(unit, 1), true
}

// layout reads the forms of layouts, with a fraction of a second and without.
func (s *stamps) layout(text string) (t time.Time, unit time.Duration, ok bool) {
	if c := text[0]; !('0' <= c && c <= '9') && !('A' <= c && c <= 'Z') {
		return t, 0, false
	}
	for k := range layouts {
		i := (s.last + k) % len(layouts)
		t, err := time.Parse(layouts[i], text)
		if err != nil {
			continue
		}
		s.last = i
		if !strings.Contains(layouts[i], "2006") {
			if t, ok = s.year(t); !ok {
				return t, 0, false
			}
		}
		unit = time.Second
		if k := strings.LastIndexAny(text, ".,"); k > 0 {
			n := 0
			for k+1+n < len(text) && '0' <= text[k+1+n] && text[k+1+n] <= '9' {
				n++
			}
			for range min(n, 9) {
				unit /= 10
			}
		}
		return t.UTC(), max(unit, 1), true
	}
	return t, 0, false
}

// year adds the latest year that makes a time no more than a day later than now.
func (s *stamps) year(t time.Time) (time.Time, bool) {
	for year := s.now.Year() + 1; year > s.now.Year()-9; year-- {
		full := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		if full.Day() == t.Day() && full.Before(s.now.Add(24*time.Hour)) {
			return full, true
		}
	}
	return t, false
}

// stampLen returns the length of the stamp of RFC 3339 or a relative at the start of b, and
// the digits of its fraction; 0 if there is none.
func stampLen(b []byte) (n, fraction int) {
	if len(b) < 19 || b[4] != '-' && b[4] != '/' && b[4] != '.' || b[13] != ':' || b[16] != ':' || b[7] != b[4] || b[10] != 'T' && b[10] != ' ' && b[10] != '_' {
		return 0, 0
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18} {
		if b[i]-'0' > 9 {
			return 0, 0
		}
	}
	n = 19
	if n+1 < len(b) && (b[n] == '.' || b[n] == ',') && b[n+1]-'0' <= 9 {
		for n++; n < len(b) && b[n]-'0' <= 9; n++ {
			fraction++
		}
	}
	switch rest := b[n:]; {
	case len(rest) > 0 && rest[0] == 'Z':
		n++
	case len(rest) >= 3 && (rest[0] == '+' || rest[0] == '-') && isDigits(rest[1:3]):
		switch {
		case len(rest) >= 6 && rest[3] == ':' && isDigits(rest[4:6]):
			n += 6
		case len(rest) >= 5 && isDigits(rest[3:5]):
			n += 5
		default:
			n += 3
		}
	}
	return n, fraction
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}

func digits(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}
