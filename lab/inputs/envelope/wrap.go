package envelope

import (
	"bytes"
	"unicode/utf8"
)

// widthOf returns the number of characters at which a terminal has cut the lines of a sample, zero if it
// did not: a line goes on behind each that is as long, and hardly anywhere else.
func widthOf(sample [][]byte) int {
	width := 0
	for _, l := range sample {
		width = max(width, utf8.RuneCount(bytes.TrimRight(l, "\r\n")))
	}
	if width < 40 || width > 500 || headerOf(sample[0]) <= word {
		return 0
	}
	joined, wrong := 0, 0
	for i := 1; i < len(sample); i++ {
		switch {
		case headerOf(sample[i]) > word:
		case utf8.RuneCount(bytes.TrimRight(sample[i-1], "\r\n")) == width:
			joined++
		default:
			wrong++
		}
	}
	if joined < 2 || wrong*5 > joined {
		return 0
	}
	return width
}

// join returns the line that a terminal has cut, nil if more of it follows.
func (d *Decoder) join(line, rest []byte) []byte {
	more := utf8.RuneCount(line) == d.width && len(rest) > 0 && headerOf(rest) <= word
	if len(d.cut) == 0 && !more {
		return line
	}
	if d.cut = append(d.cut, line...); more && len(d.cut) < maxLine {
		return nil
	}
	line, d.cut, d.changed = d.cut, d.cut[:0], true
	return line
}
