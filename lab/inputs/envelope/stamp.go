package envelope

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// clock parses times in the forms that tools write.
type clock struct {
	now  time.Time // current time, which determines the year of times without a year
	last int       // index of the layout that matched the previous time
}

// layouts contains the formats of times that differ from RFC 3339, because stampLen recognizes only RFC 3339 and
// similar formats.
var layouts = []string{
	"Jan _2, 2006 @ 15:04:05", "Jan _2, 2006, 15:04:05", "Jan _2, 2006 15:04:05", "Jan _2, 2006, 3:04:05 PM", "Jan _2, 2006 3:04:05 PM", "Mon, Jan _2 2006 3:04:05 pm",
	"02/Jan/2006:15:04:05 -0700", "2/Jan/2006 15:04:05", "Mon Jan _2 15:04:05 2006", "Mon Jan _2 15:04:05 MST 2006", "Mon, 02 Jan 2006 15:04:05 MST", "Mon, 02 Jan 2006 15:04:05 -0700",
	"Mon 2006-01-02 15:04:05 MST", "1/2/2006 15:04:05", "1/2/2006, 15:04:05", "1/2/2006 3:04:05 PM", "1/2/2006, 3:04:05 PM", "2.1.2006 15:04:05", "2 Jan 2006 15:04:05", "2 Jan 2006, 15:04:05",
	"20060102T150405Z", "20060102T150405", "2006-01-02 3:04:05 PM", "Jan _2 15:04:05", "01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "02-Jan-2006 15:04:05", "Jan 02 2006 15:04:05",
}

// parse returns the time in b in UTC, and the unit of its last digit. A time without a zone is assumed to be in UTC. A
// time without a year gets the latest year in which it is at most one day after now.
func (c *clock) parse(b []byte) (t time.Time, unit time.Duration, ok bool) {
	b = bytes.TrimSpace(b)
	if n, digits := stampLen(b); n > 0 {
		if zone := b[n:]; len(zone) > 0 && (len(zone) == 1 || zone[0] != ' ' || bytes.IndexByte([]byte("U+-Z"), zone[1]) < 0) {
			return t, 0, false
		}
		return parseStamp(b, digits)
	}
	if len(b) == 0 || len(b) > 48 {
		return t, 0, false
	}
	if t, unit, ok = parseEpoch(b); ok {
		return t, unit, true
	}
	return c.parseLayout(string(b))
}

// parseStamp parses a time that stampLen has found. A space may precede its zone.
func parseStamp(b []byte, digits int) (t time.Time, unit time.Duration, ok bool) {
	text := bytes.Clone(b[:19])
	text[4], text[7], text[10] = '-', '-', 'T'
	t, err := time.Parse("2006-01-02T15:04:05", string(text))
	if err != nil {
		return t, 0, false
	}
	end := 19
	var part time.Duration
	if unit = time.Second; digits > 0 {
		end += 1 + digits
		part, unit = parseFraction(b[20:end], time.Second)
	}
	zone, _, _ := strings.Cut(strings.TrimLeft(string(b[end:]), " "), " ")
	if zone = strings.ReplaceAll(zone, ":", "") + "00"; len(zone) >= 5 {
		if z, err := time.Parse("-0700", zone[:5]); err == nil {
			_, offset := z.Zone()
			part -= time.Duration(offset) * time.Second
		}
	}
	return t.Add(part), unit, true
}

// parseFraction returns the value of digits after a number of unit, and the last digit's unit.
func parseFraction(digits []byte, unit time.Duration) (value, last time.Duration) {
	for _, c := range digits {
		if unit /= 10; unit == 0 {
			break
		}
		value += time.Duration(c-'0') * unit
	}
	return value, max(unit, 1)
}

var epochUnits = map[int]time.Duration{10: time.Second, 13: time.Millisecond, 16: time.Microsecond, 19: time.Nanosecond}

// parseEpoch parses a number of seconds, milliseconds, microseconds or nanoseconds since 1970.
// The year must be from 2001 to 2286.
func parseEpoch(b []byte) (t time.Time, unit time.Duration, ok bool) {
	whole, rest, _ := bytes.Cut(b, []byte("."))
	unit, ok = epochUnits[len(whole)]
	if !ok || !isDigits(whole) || whole[0] == '0' || len(rest) > 0 && !isDigits(rest) {
		return t, 0, false
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
		return t, 0, false
	}
	per := int64(time.Second / unit)
	part, last := parseFraction(rest, unit)
	return time.Unix(n/per, n%per*int64(unit)+int64(part)).UTC(), last, true
}

func (c *clock) parseLayout(text string) (t time.Time, unit time.Duration, ok bool) {
	if !isAlphanumeric(text[0]) || 'a' <= text[0] {
		return t, 0, false
	}
	for k := range layouts {
		i := (c.last + k) % len(layouts)
		t, err := time.Parse(layouts[i], text)
		if err != nil {
			continue
		}
		if c.last = i; !strings.Contains(layouts[i], "2006") {
			if t, ok = c.addYear(t); !ok {
				return t, 0, false
			}
		}
		unit = time.Second
		if k := strings.LastIndexAny(text, ".,"); k > 0 {
			digits := text[k+1:]
			digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
			_, unit = parseFraction([]byte(digits), unit)
		}
		return t.UTC(), unit, true
	}
	return t, 0, false
}

// addYear sets the latest year in which t is at most one day after now.
func (c *clock) addYear(t time.Time) (time.Time, bool) {
	for year := c.now.Year() + 1; year > c.now.Year()-9; year-- {
		full := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		if full.Day() == t.Day() && full.Before(c.now.Add(24*time.Hour)) {
			return full, true
		}
	}
	return t, false
}

// stampLen returns the length of the time at the start of b, and the number of digits in its
// fraction. The time must be in RFC 3339 or a similar form. The length is zero if there is
// none.
func stampLen(b []byte) (n, fraction int) {
	const form = "0000-00-00T00:00:00"
	if len(b) < len(form) || b[7] != b[4] || b[4] != '-' && b[4] != '/' && b[4] != '.' || b[10] != 'T' && b[10] != ' ' && b[10] != '_' {
		return 0, 0
	}
	for i := range len(form) {
		if form[i] == '0' && b[i]-'0' > 9 || form[i] == ':' && b[i] != ':' {
			return 0, 0
		}
	}
	rest := b[len(form):]
	if len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
		if fraction = len(rest) - 1 - len(bytes.TrimLeft(rest[1:], "0123456789")); fraction > 0 {
			rest = rest[1+fraction:]
		}
	}
	switch {
	case hasPrefix(rest, "Z"):
		rest = rest[1:]
	case len(rest) >= 3 && (rest[0] == '+' || rest[0] == '-') && isDigits(rest[1:3]):
		rest = rest[3:]
		if minutes := bytes.TrimPrefix(rest, []byte(":")); len(minutes) >= 2 && isDigits(minutes[:2]) {
			rest = minutes[2:]
		}
	}
	return len(b) - len(rest), fraction
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}

func isAlphanumeric(c byte) bool { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' }
