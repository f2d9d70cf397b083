// Package literals derives the required literals of regular expressions. These are the texts that every match must
// contain, and the order in which they occur. For many expressions, the required literals alone decide whether there is
// a match.
//
// The package handles the syntax of regular expressions. It does not depend on rules or log lines.
package literals

import (
	"bytes"
	"regexp/syntax"
	"slices"
)

// Text is a literal. If Fold is set, the text is in lower case and its ASCII letters match both cases. Other bytes are
// compared exactly.
type Text struct {
	Text string
	Fold bool
}

type op int

const (
	opText op = iota
	opSeq     // all of subs must be found, in this order
	opOr      // one of subs must be found
)

// Cond is a condition that every match of an expression satisfies. It is immutable and safe for concurrent use. A nil
// Cond is always satisfied.
type Cond struct {
	op     op
	text   Text
	needle Needle // needle that searches for text
	subs   []*Cond
	exact  bool // whether every line that satisfies the condition is a match
	gaps   bool // whether exact holds only for texts without a newline, because `.` does not match a newline

	escapable bool // whether the literal comes from Pieces, so that a format may write it with escapes
}

func parseCond(re *syntax.Regexp) *Cond {
	c := deriveCond(re)
	if c != nil && hasAssertion(re) {
		c.exact = false
	}
	return c
}

// OfText returns the condition that a line contains a text.
func OfText(text string) *Cond {
	if text == "" {
		return nil
	}
	return newLeaf(Text{Text: text})
}

func newLeaf(t Text) *Cond {
	return &Cond{op: opText, text: t, needle: NewNeedle(t), exact: true}
}

// AnyOf returns texts of which one suffices. A line that contains any of them satisfies the condition. It returns nil
// if the condition does not consist of such texts. Choose returns the same texts.
func (c *Cond) AnyOf() []Text {
	if c == nil || !c.exact || c.gaps {
		return nil
	}
	switch c.op {
	case opText:
		return []Text{c.text}
	case opOr:
		var all []Text
		for _, s := range c.subs {
			if s.op != opText {
				return nil
			}
			all = append(all, s.text)
		}
		return all
	}
	return nil
}

// Match returns the smallest offset at which the texts of the condition end in line. It returns a negative offset if the
// line does not satisfy the condition, and then the expression does not match. decided reports whether the texts prove
// that the expression matches line[:end]. A nil condition is satisfied by every line.
func (c *Cond) Match(line []byte) (end int, decided bool) {
	if c == nil {
		return 0, false
	}
	end = c.find(line)
	return end, end < 0 || c.exact && (!c.gaps || bytes.IndexByte(line, '\n') < 0)
}

// find returns the smallest offset at which a match of the condition ends, or -1 if there is none. In a sequence, the
// search for each member starts at the smallest end of the previous member.
func (c *Cond) find(line []byte) int {
	switch c.op {
	case opSeq:
		at := 0
		for _, s := range c.subs {
			k := s.find(line[at:])
			if k < 0 {
				return -1
			}
			at += k
		}
		return at
	case opOr:
		best := -1
		for _, s := range c.subs {
			if k := s.find(line); k >= 0 && (best < 0 || k < best) {
				best = k
				line = line[:k] // another alternative matters only if its match ends earlier
			}
		}
		return best
	}
	k := c.needle.Index(line)
	if k < 0 {
		return -1
	}
	return k + len(c.needle.text)
}

// Choice is a set of texts. Every match contains at least one of them.
type Choice struct {
	Texts []Text
	Cost  float64 // sum of the costs of the texts
	// Escapable is set if some texts were made by Pieces. A log format may write such texts with escapes.
	Escapable bool
}

// Choose returns the choice with the lowest cost. For a nil condition the choice has no texts.
func (c *Cond) Choose(cost func(Text) float64) (out Choice) {
	if c == nil {
		return out
	}
	switch c.op {
	case opSeq:
		for i, s := range c.subs {
			if o := s.Choose(cost); i == 0 || o.Cost < out.Cost {
				out = o
			}
		}
	case opOr:
		for _, s := range c.subs {
			o := s.Choose(cost)
			out = Choice{append(out.Texts, o.Texts...), out.Cost + o.Cost, out.Escapable || o.Escapable}
		}
	default:
		return Choice{[]Text{c.text}, cost(c.text), c.escapable}
	}
	return out
}

// Longest returns the choice whose shortest text is as long as possible, and the length of that
// text. It returns nil and 0 for a nil condition.
func (c *Cond) Longest() (texts []Text, minLength int) {
	if c == nil {
		return nil, 0
	}
	if c.op == opText {
		return []Text{c.text}, len(c.needle.text)
	}
	for i, s := range c.subs {
		set, n := s.Longest()
		switch {
		case c.op == opOr && i > 0:
			texts, minLength = append(texts, set...), min(minLength, n)
		case n > minLength:
			texts, minLength = set, n
		}
	}
	return texts, minLength
}

// AllOf returns the condition that all of conds hold, in any order. The result can be used for choices but not for
// matching. Nil conditions are ignored.
func AllOf(conds ...*Cond) *Cond {
	conds = slices.DeleteFunc(conds, func(c *Cond) bool { return c == nil })
	if len(conds) == 0 {
		return nil
	}
	return &Cond{op: opSeq, subs: conds}
}

// OneOf returns the condition that at least one of conds holds. It returns nil if one of conds is nil. The result can
// be used for choices but not for matching.
func OneOf(conds ...*Cond) *Cond {
	if len(conds) == 0 || slices.Contains(conds, nil) {
		return nil
	}
	return &Cond{op: opOr, subs: conds}
}

// Pieces returns a weaker condition whose texts consist only of bytes for which safe returns true. It returns nil if
// there is none. The result can be used for choices but not for matching.
func (c *Cond) Pieces(safe func(byte) bool) *Cond {
	if c == nil {
		return nil
	}
	var subs []*Cond
	if c.op == opText {
		for _, piece := range bytes.FieldsFunc(c.needle.text, func(r rune) bool { return r > 0x7f || !safe(byte(r)) }) {
			sub := newLeaf(Text{string(piece), c.text.Fold})
			sub.escapable = true
			subs = append(subs, sub)
		}
	}
	for _, s := range c.subs {
		subs = append(subs, s.Pieces(safe))
	}
	if c.op == opOr {
		return OneOf(subs...)
	}
	return AllOf(subs...)
}

// hasAssertion reports whether re contains an anchor or a word boundary. Literals cannot decide whether such an
// assertion holds.
func hasAssertion(re *syntax.Regexp) bool {
	return zeroWidth(re) || slices.ContainsFunc(re.Sub, hasAssertion)
}

func zeroWidth(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return false
}

// EqualFold reports whether b equals lower if the case of ASCII letters is ignored. lower must
// be in lower case.
func EqualFold[T []byte | string](b []byte, lower T) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
