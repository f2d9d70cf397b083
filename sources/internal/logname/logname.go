// Package logname orders the files of one log by their names. It knows the names that the
// kubelet, logrotate and the loggers of programs use.
package logname

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Order is the position of a file among the files of its log.
type Order struct {
	Instance int    // restart count of the container; zero for logs of other programs
	Rotated  string // key that sorts rotated files from old to new; "" for the file that is being written to
	GZ       bool
}

// Before reports whether o is older than p by name. The times in the files may show another order.
func (o Order) Before(p Order) bool {
	if o.Instance != p.Instance {
		return o.Instance < p.Instance
	}
	if (o.Rotated == "") != (p.Rotated == "") {
		return p.Rotated == ""
	}
	return o.Rotated < p.Rotated
}

// ParseKubeletName reads the names that the kubelet gives, which are N.log, N.log.TIME and
// N.log.TIME.gz. N is the restart count. TIME is in the node's local time.
func ParseKubeletName(name string) (Order, bool) {
	num, rest, ok := strings.Cut(name, ".log")
	if !ok || num == "" || len(num) > 9 || !isDigits(num) {
		return Order{}, false
	}
	n, err := strconv.Atoi(num)
	if err != nil || rest != "" && rest[0] != '.' {
		return Order{}, false
	}
	if rest == "" {
		return Order{Instance: n}, true
	}
	stamp, gz := strings.CutSuffix(rest[1:], ".gz")
	if !stampLike(stamp) {
		return Order{}, false
	}
	return Order{Instance: n, Rotated: stamp, GZ: gz}, true
}

// PlainBase splits the name of a log that is rotated by logrotate or by its own logger into the
// base name and the order. The names app.log, app.log.1, app.log.2.gz, app.log-20240131 and
// app.log.2024-01-31T10-00-00.gz belong to app.log.
func PlainBase(name string) (base string, o Order) {
	stem, gz := strings.CutSuffix(name, ".gz")
	i := strings.LastIndexAny(stem, ".-")
	for ; i > 0; i = strings.LastIndexAny(stem[:i], ".-") {
		suffix := stem[i+1:]
		if suffix == "" || suffix[0] < '0' || suffix[0] > '9' {
			break
		}
		// The longest suffix with the form of a rotation is used, because a date may contain dashes.
		rotated, ok := plainSuffix(suffix)
		if !ok || followsDigit(stem, i) {
			continue
		}
		// The suffix is a fraction of a second, or a counter after a date.
		if b, o := PlainBase(stem[:i]); o.Rotated != "" && o.Rotated[0] != '#' && !o.GZ {
			return b, Order{Rotated: o.Rotated + stem[i:], GZ: gz}
		}
		return stem[:i], Order{Rotated: rotated, GZ: gz}
	}
	return name, Order{GZ: gz}
}

// OrderByBase returns a function that returns the order of a file that belongs to base.
func OrderByBase(base string) func(name string) (Order, bool) {
	return func(name string) (Order, bool) {
		if !strings.HasPrefix(name, base) {
			return Order{}, false
		}
		b, o := PlainBase(name)
		if name == base {
			return Order{GZ: strings.HasSuffix(name, ".gz")}, true
		}
		return o, b == base
	}
}

// followsDigit reports whether a digit precedes the separator at i, so the suffix may begin earlier. In
// app.log-2024-01-31, the last part alone is not a rotation.
func followsDigit(s string, i int) bool {
	j := strings.LastIndexAny(s[:i], ".-")
	return j > 0 && isDigits(s[j+1:i]) && s[i] == '-'
}

func plainSuffix(s string) (string, bool) {
	if isDigits(s) && len(s) <= 4 {
		n, err := strconv.Atoi(s)
		// A higher number means an older file. Numbers sort before dates, because a user who
		// changes from numbers to dates keeps old numbered files.
		return fmt.Sprintf("#%05d", math.MaxUint16-n), err == nil
	}
	return s, stampLike(s) && len(s) >= 8
}

// stampLike reports whether s consists of digits and the separators of a time.
func stampLike(s string) bool {
	return s != "" && isDigits(s[:1]) && strings.Trim(s, "0123456789-_:.TZ") == ""
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
