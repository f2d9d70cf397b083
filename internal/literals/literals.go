// Package literals derives the required literals of regular expressions: the texts that
// every match must contain, and their order. They alone decide many expressions.
//
// It knows regular expression syntax. It does not know rules or log lines.
package literals

import (
	"bytes"
	"regexp/syntax"
	"slices"
)

// Text is a literal. With Fold it is lower case and ASCII letters match either
// case; other bytes are compared as they are.
type Text struct {
	Text string
	Fold bool
}

type op int

const (
	opText op = iota
	opSeq     // all of subs, each after the one before
	opOr      // one of subs
)

// Cond is a condition that every match of an expression fulfils. It is
// immutable and safe for concurrent use. A nil Cond demands nothing.
type Cond struct {
	op     op
	text   Text
	lit    []byte
	needle Needle // needle of lit
	subs   []*Cond
	exact  bool // fulfilling it is a match
	gaps   bool // exact only in texts without a newline, which `.` does not match

	escapable bool // reports whether JSON may escape a part of the literal, as in Pieces
}

// Of returns the condition of an expression in Go's syntax, or nil if it has
// none.
func Of(expr string) (*Cond, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return of(re), nil
}

func of(re *syntax.Regexp) *Cond {
	c := condOf(re)
	if c != nil && asserts(re) {
		c.exact = false
	}
	return c
}

// OfText returns the condition that a text is contained.
func OfText(text string) *Cond {
	if text == "" {
		return nil
	}
	return leaf(Text{Text: text})
}

func leaf(t Text) *Cond {
	return &Cond{op: opText, text: t, lit: []byte(t.Text), needle: NewNeedle(t), exact: true}
}

// AnyOf returns texts each of which alone is a match, if the condition consists of
// nothing else; else nil. Choose returns the same texts.
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

// Match reports whether line fulfils the condition, and whether that decides that the
// expression matches. If the condition is not met, the expression does not match.
func (c *Cond) Match(line []byte) (met, decided bool) {
	if c == nil {
		return true, false
	}
	if c.find(line) < 0 {
		return false, true
	}
	return true, c.exact && (!c.gaps || bytes.IndexByte(line, '\n') < 0)
}

// find returns the smallest end of a match of the condition, or -1. In a sequence, each
// member is searched after the smallest end of the one before.
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
				line = line[:k] // another one matters if it ends before
			}
		}
		return best
	}
	k := c.needle.Index(line)
	if k < 0 {
		return -1
	}
	return k + len(c.lit)
}

// Choice is a set of texts of which every match contains at least one.
type Choice struct {
	Texts []Text
	Cost  float64 // the sum of the costs of the texts
	// Escapable is set if some are of Pieces: a format may write them with escapes.
	Escapable bool
}

// Choose returns the set with the lowest cost. For a nil condition it has no texts.
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

// Longest returns the set whose shortest text is as long as possible, and the length of
// that text: nil and 0 for a nil condition.
func (c *Cond) Longest() (texts []Text, minLength int) {
	if c == nil {
		return nil, 0
	}
	if c.op == opText {
		return []Text{c.text}, len(c.lit)
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

// AllOf returns the condition that all of conds are fulfilled, in any order. Only
// choices can be made of the result. Nil conditions demand nothing.
func AllOf(conds ...*Cond) *Cond {
	conds = slices.DeleteFunc(conds, func(c *Cond) bool { return c == nil })
	if len(conds) == 0 {
		return nil
	}
	return &Cond{op: opSeq, subs: conds}
}

// OneOf returns the condition that one of conds is fulfilled, or nil if one of them is
// nil. Only choices can be made of the result.
func OneOf(conds ...*Cond) *Cond {
	if len(conds) == 0 || slices.Contains(conds, nil) {
		return nil
	}
	return &Cond{op: opOr, subs: conds}
}

// Pieces returns a weaker condition whose texts consist of safe bytes only, or nil.
// Only choices can be made of the result.
func (c *Cond) Pieces(safe func(byte) bool) *Cond {
	if c == nil {
		return nil
	}
	var subs []*Cond
	if c.op == opText {
		for _, piece := range bytes.FieldsFunc(c.lit, func(r rune) bool { return r > 0x7f || !safe(byte(r)) }) {
			sub := leaf(Text{string(piece), c.text.Fold})
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

// asserts reports whether re contains an anchor or a word boundary. Texts cannot decide
// those.
func asserts(re *syntax.Regexp) bool { return zeroWidth(re) || slices.ContainsFunc(re.Sub, asserts) }

func zeroWidth(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return false
}

// EqualFold reports whether b equals lower, ignoring the case of ASCII letters. lower is
// in lower case.
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
