package inputs

import (
	"time"

	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
)

// LabelsOf returns the labels of a log that is followed: those of its path and those of the
// options.
func LabelsOf(path string, opt Options) matcher.Labels {
	return (&collector{opt: opt}).labels(path)
}

// Problem returns the reason why a file cannot be followed; "" if it consists of lines of text.
// head are the first bytes of the file.
func Problem(name string, head []byte) string {
	if isYAML(name) {
		return "is YAML, not a log"
	}
	if envelope.IsWide(head[:min(len(head), headSize)]) {
		return "is UTF-16 text; scan it without --follow"
	}
	if k, bad := judge(head[:min(len(head), headSize)]); bad {
		return (&unreadableError{k}).Error()
	}
	return ""
}

// Unwrapper removes the envelope from the lines of a log that is followed. It is not safe for
// concurrent use.
type Unwrapper struct {
	decoder *envelope.Decoder
	out     []Unwrapped
}

// Unwrapped are lines from one place. They are in the CRI format if their time is known.
type Unwrapped struct {
	Place *envelope.Place
	Lines []byte
}

// NewUnwrapper returns an unwrapper for one log. now determines the year of times without a
// year.
func NewUnwrapper(now time.Time) *Unwrapper {
	u := &Unwrapper{}
	u.decoder = envelope.New(now, u.add)
	return u
}

func (u *Unwrapper) add(l envelope.Line) {
	if k := len(u.out) - 1; k < 0 || u.out[k].Place != l.Place {
		u.out = append(u.out, Unwrapped{Place: l.Place})
	}
	to := &u.out[len(u.out)-1]
	to.Lines = appendLine(to.Lines, l)
}

// Lines returns the next lines of the log. The last line of block must be complete. The caller
// owns the result.
func (u *Unwrapper) Lines(block []byte) []Unwrapped {
	u.out = nil
	u.decoder.Write(block)
	return u.out
}

// End returns the lines that were kept until more lines arrive. Lines must not be called after
// it.
func (u *Unwrapper) End() []Unwrapped {
	u.out = nil
	u.decoder.Close()
	return u.out
}
