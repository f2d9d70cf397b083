package inputs

import (
	"bytes"
	"time"

	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
)

// LabelsOf returns the labels of a log that is followed: those of its path and of the
// options.
func LabelsOf(path string, opt Options) matcher.Labels {
	return (&collector{opt: opt}).labels(path)
}

// Problem returns why a file of this name and with this beginning cannot be followed, "" if
// it consists of lines of text.
func Problem(name string, head []byte) string {
	if isYAML(name) {
		return "is YAML, not a log"
	}
	if bytes.HasPrefix(head, gzipMagic) {
		return "is packed with gzip; scan it without --follow"
	}
	if envelope.IsWide(head[:min(len(head), headSize)]) {
		return "is UTF-16 text; scan it without --follow"
	}
	if k, bad := judge(head[:min(len(head), headSize)]); bad {
		return (&unreadableError{k}).Error()
	}
	return ""
}

// Unwrapper takes the envelope off the lines of a log that is followed. It is not safe for
// concurrent use.
type Unwrapper struct {
	decoder *envelope.Decoder
	write   writer
	out     []Unwrapped
}

// Unwrapped are lines of one place, in the form of a CRI runtime if their time is known.
type Unwrapped struct {
	Place *envelope.Place
	Lines []byte
}

// NewUnwrapper returns an unwrapper for one log. now supplies the year of times without one.
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
	to.Lines = u.write.line(to.Lines, l)
}

// Lines returns the next lines of the log, whose last one is complete. The caller owns them.
func (u *Unwrapper) Lines(block []byte) []Unwrapped {
	u.out = nil
	u.decoder.Write(block)
	return u.out
}

// End returns what waited for more lines. No lines may follow.
func (u *Unwrapper) End() []Unwrapped {
	u.out = nil
	u.decoder.Close()
	return u.out
}

// SetPlace adds the labels of a place to those of a log. name identifies a place that is no
// pod.
func SetPlace(labels matcher.Labels, p *envelope.Place, name string) { setPlace(labels, *p, name) }

// NameOf returns a short name of a place, "" for an unknown one.
func NameOf(p *envelope.Place) string { return nameOf(*p) }
