package literals

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// deriveCond derives the condition of re. To decide whether the condition is exact, it ignores assertions, because
// parseCond checks them for the whole expression.
func deriveCond(re *syntax.Regexp) *Cond {
	if l, ok := finiteLanguage(re); ok {
		return fromLang(l)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return longestRun(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture:
		return deriveCond(re.Sub[0])
	case syntax.OpPlus:
		return asInexact(deriveCond(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return asInexact(deriveCond(re.Sub[0]))
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
		s := deriveCond(sub)
		if s == nil {
			return nil
		}
		out.exact = out.exact && s.exact
		out.gaps = out.gaps || s.gaps
		out.subs = append(out.subs, s)
	}
	return out
}

// sequence derives the condition of a concatenation from its members. Adjacent members that together match few texts
// are combined into these texts. The condition is exact if its members are separated only by gaps.
type sequence struct {
	conds    []*Cond
	exact    bool
	gaps     bool
	run      lang // texts that the most recent adjacent members match together
	open     bool // whether run contains a member
	adjacent bool // whether the previous member is not a gap, so that it ends where the next member starts
}

func (s *sequence) add(re *syntax.Regexp) {
	if isGap(re) {
		s.flush()
		s.gaps, s.adjacent = true, false
		return
	}
	l, finite := finiteLanguage(re)
	if finite {
		if next, ok := concatenate(s.run, l); ok {
			s.run, s.open = next, true
			return
		}
		s.flush()
		s.run, s.open = l, true
		return
	}
	s.flush()
	c := deriveCond(re)
	s.exact = s.exact && (!s.adjacent || beginsWithGap(re)) && c != nil && c.exact
	if c != nil {
		s.gaps = s.gaps || c.gaps
		s.conds = append(s.conds, c)
	}
	s.adjacent = true
}

func (s *sequence) flush() {
	if !s.open {
		return
	}
	s.exact = s.exact && !s.adjacent && !s.run.loose
	// Members that can match the empty text require no literal.
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

// isGap reports whether re matches any text of any length, like `.*`. A capture group around it does not matter.
// Without the flag s, a gap does not match a newline.
func isGap(re *syntax.Regexp) bool {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	return re.Op == syntax.OpStar && (re.Sub[0].Op == syntax.OpAnyCharNotNL || re.Sub[0].Op == syntax.OpAnyChar)
}

// beginsWithGap reports whether every match of re begins with a gap. The parser creates such expressions, because it
// changes `a.*b|a.*c` to `a(?:.*b|.*c)`.
func beginsWithGap(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat:
		return beginsWithGap(re.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !beginsWithGap(sub) })
	}
	return isGap(re)
}

func asInexact(c *Cond) *Cond {
	if c != nil {
		c.exact = false
	}
	return c
}

// fromLang returns the condition that a line contains one of the texts of l. It returns nil if one of these texts is
// empty.
func fromLang(l lang) *Cond {
	l.texts = DropContained(l.texts)
	out := &Cond{op: opOr, exact: !l.loose}
	for _, t := range l.texts {
		if t.Text == "" {
			return nil
		}
		out.subs = append(out.subs, newLeaf(t))
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

// DropContained omits each text that contains another text of the list. A line with the longer text also contains the
// shorter text, which does not end after the longer text.
func DropContained(texts []Text) []Text {
	var out []Text
	for i, t := range texts {
		needed := true
		for j, u := range texts {
			in := t.Text
			if u.Fold {
				in = lowerASCII(in)
			}
			within := strings.Contains(in, u.Text) && (u.Fold || !t.Fold || !isLetters(u.Text))
			if i != j && within && (t != u || j < i) && !(areEquivalent(t, u) && i < j) {
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

func areEquivalent(t, u Text) bool {
	return t == u || t.Text == u.Text && !isLetters(t.Text)
}

// longestRun returns a condition for the longest sequence of runes that match only their own bytes. With fold, these
// are runes of which both cases are ASCII.
func longestRun(runes []rune, fold bool) *Cond {
	best, cur := "", ""
	for _, r := range runes {
		ok := isPlain(r)
		if fold {
			l, _ := foldedLanguage(r)
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
	return asInexact(newLeaf(Text{best, fold}))
}
