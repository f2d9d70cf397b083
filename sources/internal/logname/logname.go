// Package logname orders the files of one log by their names, as the kubelet,
// logrotate and loggers of programs give them.
package logname

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Order places a file within its stream.
type Order struct {
	Instance int    // restart of the container; 0 for plain logs
	Rotated  string // ascends with age's end; "" is the file that is written to
	GZ       bool
}

// Before orders by name only. The times in the files may know better.
func (o Order) Before(p Order) bool {
	if o.Instance != p.Instance {
		return o.Instance < p.Instance
	}
	if (o.Rotated == "") != (p.Rotated == "") {
		return p.Rotated == ""
	}
	return o.Rotated < p.Rotated
}

// Kubelet reads names as the kubelet gives them: N.log, N.log.TIME and
// N.log.TIME.gz, where TIME is the node's local time.
func Kubelet(name string) (Order, bool) {
	num, rest, ok := strings.Cut(name, ".log")
	if !ok || num == "" || len(num) > 9 || !digits(num) {
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

// PlainBase splits the name of a log that logrotate or a logger of its own
// rotates: app.log, app.log.1, app.log.2.gz, app.log-20240131,
// app.log.2024-01-31T10-00-00.gz belong to app.log.
func PlainBase(name string) (base string, o Order) {
	stem, gz := strings.CutSuffix(name, ".gz")
	i := strings.LastIndexAny(stem, ".-")
	for ; i > 0; i = strings.LastIndexAny(stem[:i], ".-") {
		suffix := stem[i+1:]
		if suffix == "" || suffix[0] < '0' || suffix[0] > '9' {
			break
		}
		// The longest suffix that is a rotation's wins: it may contain dashes.
		rotated, ok := plainSuffix(suffix)
		if !ok || followsDigit(stem, i) {
			continue
		}
		// A fraction of a second, or a counter behind a date.
		if b, o := PlainBase(stem[:i]); o.Rotated != "" && o.Rotated[0] != '#' && !o.GZ {
			return b, Order{Rotated: o.Rotated + stem[i:], GZ: gz}
		}
		return stem[:i], Order{Rotated: rotated, GZ: gz}
	}
	return name, Order{GZ: gz}
}

// Plain returns the order of the files that belong to base.
func Plain(base string) func(name string) (Order, bool) {
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

// followsDigit reports whether the suffix at i may go on to the left: in
// app.log-2024-01-31 the last part alone is no rotation.
func followsDigit(s string, i int) bool {
	j := strings.LastIndexAny(s[:i], ".-")
	return j > 0 && digits(s[j+1:i]) && s[i] == '-'
}

func plainSuffix(s string) (string, bool) {
	if digits(s) && len(s) <= 4 {
		n, err := strconv.Atoi(s)
		// The higher the number, the older. Numbers sort before dates: who
		// changes from one to the other has the numbered ones left over.
		return fmt.Sprintf("#%05d", math.MaxUint16-n), err == nil
	}
	return s, stampLike(s) && len(s) >= 8
}

// stampLike reports whether s is made of digits and what separates them in a time.
func stampLike(s string) bool {
	return s != "" && digits(s[:1]) && strings.Trim(s, "0123456789-_:.TZ") == ""
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
