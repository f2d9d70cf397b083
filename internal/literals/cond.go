package literals

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// condOf derives the condition of re. Its exactness ignores assertions: Of checks those
// for the whole expression.
func condOf(re *syntax.Regexp) *Cond {
	if l, ok := langOf(re); ok {
		return fromLang(l)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return longest(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture:
		return condOf(re.Sub[0])
	case syntax.OpPlus:
		return inexact(condOf(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return inexact(condOf(re.Sub[0]))
		}
	case syntax.OpAlternate:
		return condOfAlternate(re)
	case syntax.OpConcat:
		s := sequence{exact: true, run: empty}
		for _, sub := range re.Sub {
			s.add(sub)
		}
		return s.cond()
	}
	return nil
}

func condOfAlternate(re *syntax.Regexp) *Cond {
	out := &Cond{op: opOr, exact: true}
	for _, sub := range re.Sub {
		s := condOf(sub)
		if s == nil {
			return nil
		}
		out.exact = out.exact && s.exact
		out.gaps = out.gaps || s.gaps
		out.subs = append(out.subs, s)
	}
	return out
}

// sequence collects the members of a concatenation. Neighbours that together
// match few texts become one text each. The condition stays exact while nothing
// but gaps lies between its members.
type sequence struct {
	conds    []*Cond
	exact    bool
	gaps     bool
	run      lang // texts of the neighbours at the end
	open     bool // something is in run
	adjacent bool // something other than a gap ends where the next member starts
}

func (s *sequence) add(re *syntax.Regexp) {
	if gap(re) {
		s.flush()
		s.gaps, s.adjacent = true, false
		return
	}
	l, finite := langOf(re)
	if finite {
		if next, ok := cross(s.run, l); ok {
			s.run, s.open = next, true
			return
		}
		s.flush()
		s.run, s.open = l, true
		return
	}
	s.flush()
	c := condOf(re)
	s.exact = s.exact && (!s.adjacent || beginsWithGap(re)) && c != nil && c.exact
	if c != nil {
		s.gaps = s.gaps || c.gaps
		s.conds = append(s.conds, c)
	}
	s.adjacent = true
}

// flush ends the run of neighbours.
func (s *sequence) flush() {
	if !s.open {
		return
	}
	s.exact = s.exact && !s.adjacent && !s.run.loose
	// A run that may be empty demands nothing.
	if c := fromLang(s.run); c != nil {
		s.conds = append(s.conds, c)
	}
	s.run, s.open, s.adjacent = empty, false, true
}

func (s *sequence) cond() *Cond {
	s.flush()
	switch {
	case len(s.conds) == 0:
		return nil
	case len(s.conds) == 1:
		c := *s.conds[0]
		c.exact = c.exact && s.exact
		c.gaps = c.gaps || s.gaps
		return &c
	}
	return &Cond{op: opSeq, subs: s.conds, exact: s.exact, gaps: true}
}

// gap reports whether re matches anything of any length: `.*`, with or without a
// capture around it. Without the s flag it does not match a newline.
func gap(re *syntax.Regexp) bool {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	return re.Op == syntax.OpStar && (re.Sub[0].Op == syntax.OpAnyCharNotNL || re.Sub[0].Op == syntax.OpAnyChar)
}

// beginsWithGap reports whether every match of re begins with a gap. The parser makes such
// of `a.*b|a.*c`, which it reads as `a(?:.*b|.*c)`.
func beginsWithGap(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat:
		return beginsWithGap(re.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !beginsWithGap(sub) })
	}
	return gap(re)
}

func inexact(c *Cond) *Cond {
	if c != nil {
		c.exact = false
	}
	return c
}

// fromLang returns the condition that one of the texts is contained, or nil if
// one of them is empty.
func fromLang(l lang) *Cond {
	l.texts = shortest(l.texts)
	out := &Cond{op: opOr, exact: !l.loose}
	for _, t := range l.texts {
		if t.Text == "" {
			return nil
		}
		out.subs = append(out.subs, leaf(t))
	}
	switch len(out.subs) {
	case 0:
		return nil
	case 1:
		out.subs[0].exact = out.exact
		return out.subs[0]
	}
	return out
}

// shortest omits the texts that contain another one: where they are found, that one is
// found too and ends no later.
func shortest(texts []Text) []Text {
	var out []Text
	for i, t := range texts {
		needed := true
		for j, u := range texts {
			in := t.Text
			if u.Fold {
				in = lower(in)
			}
			within := strings.Contains(in, u.Text) && (u.Fold || !t.Fold || !letters(u.Text))
			if i != j && within && (t != u || j < i) && !(equivalent(t, u) && i < j) {
				needed = false
				break
			}
		}
		if needed {
			out = append(out, t)
		}
	}
	return out
}

// equivalent texts match the same lines.
func equivalent(t, u Text) bool {
	return t == u || t.Text == u.Text && !letters(t.Text)
}

// longest returns the longest stretch of runes that match their own bytes only or, with
// fold, whose cases are ASCII.
func longest(runes []rune, fold bool) *Cond {
	best, cur := "", ""
	for _, r := range runes {
		ok := plain(r)
		if fold {
			l, _ := folds(r)
			ok = r <= unicode.MaxASCII && len(l.texts) == 1
			r = unicode.ToLower(r)
		}
		if !ok {
			cur = ""
			continue
		}
		if cur += string(r); len(cur) > len(best) {
			best = cur
		}
		if len(cur) >= maxText {
			break
		}
	}
	if best == "" {
		return nil
	}
	return inexact(leaf(Text{best, fold}))
}
