package prefilter

import (
	"bytes"

	"crowsnest/internal/literals"
)

// anchor is a byte by which a few short texts are found. Sampling would visit nearly every position of a line for such
// texts. Searching for a byte is faster, because the standard library compares 32 positions at once.
type anchor struct {
	b     byte
	texts []anchored
}

// anchored is a text that has the anchor's byte at offset.
type anchored struct{ text, offset int }

// maxAnchored is the maximum number of texts for which anchors are considered.
const maxAnchored = 32

func (f *Filter) appendAnchored(dst []FoundText, a *anchor, buf []byte) []FoundText {
	for at := 0; ; at++ {
		n := bytes.IndexByte(buf[at:], a.b)
		if n < 0 {
			return dst
		}
		at += n
		for _, t := range a.texts {
			text := &f.texts[t.text]
			start := at - t.offset
			end := start + len(text.Text)
			if start < 0 || end > len(buf) {
				continue
			}
			if string(buf[start:end]) == text.Text || text.Fold && literals.EqualFold(buf[start:end], text.Text) {
				dst = append(dst, FoundText{int32(t.text), start})
			}
		}
	}
}

// chooseAnchors chooses anchors for the texts that are shorter than below bytes. It also estimates the cost of the
// search, in the unit of builder.estimateCost.
func (b *builder) chooseAnchors(below int, probe []byte) (list []anchor, cost int) {
	var freq [256]int
	for _, c := range probe {
		freq[c]++
	}
	lines := 1 + freq['\n']
	alone := func(c byte) int { return len(probe)/24 + 6*(lines+freq[c]) } // a call costs as much as about 6 samples
	known := map[byte]int{}
	extra := func(c byte) int {
		n := 2 * freq[c] // cost of comparing one text
		if _, ok := known[c]; !ok {
			n += alone(c)
		}
		return n
	}
	for i, t := range b.texts {
		if len(t.Text) >= below {
			continue
		}
		offset, best := 0, -1
		for k := range len(t.Text) {
			n := 0
			for _, c := range caseVariants(t, k) {
				n += extra(c)
			}
			if best < 0 || n < best {
				offset, best = k, n
			}
		}
		cost += best
		for _, c := range caseVariants(t, offset) {
			at, ok := known[c]
			if !ok {
				at = len(list)
				known[c] = at
				list = append(list, anchor{b: c})
			}
			list[at].texts = append(list[at].texts, anchored{i, offset})
		}
	}
	return list, cost
}

// caseVariants returns the bytes that can occur at position i of a text.
func caseVariants(t literals.Text, i int) []byte {
	c := t.Text[i]
	if lower := c | 0x20; t.Fold && lower >= 'a' && lower <= 'z' {
		return []byte{lower, lower &^ 0x20}
	}
	return []byte{c}
}
