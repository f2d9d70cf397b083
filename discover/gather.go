package discover

import (
	"slices"
	"strings"
)

// maxOthers bounds the matchers of one rule in addition to the first.
const maxOthers = 15

// Gather returns proposals for differently worded patterns of the same cause, each
// of which matches its own line and no other line of the rule, and the patterns that
// need a rule of their own. Where possible, a proposal captures the object of the
// rule.
func Gather(p *Proposal, variants []Pattern) (others []Proposal, left []Pattern) {
	for i := range variants {
		q, ok := p.variantProposal(&variants[i])
		switch {
		case !ok:
			left = append(left, variants[i])
		case q.finds(p) || slices.ContainsFunc(others, func(o Proposal) bool { return q.finds(&o) }):
			left = append(left, variants[i])
		case p.finds(&q) || slices.ContainsFunc(others, func(o Proposal) bool { return o.finds(&q) }):
			// The rule finds its lines already.
		case len(others) == maxOthers:
			left = append(left, variants[i])
		default:
			others = append(others, q)
		}
	}
	return others, left
}

// variantProposal returns the proposal for a pattern that fits best into the rule of p.
func (p *Proposal) variantProposal(v *Pattern) (Proposal, bool) {
	all := ProposeFor(*v)
	if len(all) == 0 {
		return Proposal{}, false
	}
	q := all[len(all)-1] // without an object
	if k := slices.IndexFunc(all, func(q Proposal) bool { return q.Object == p.Object }); k >= 0 {
		q = all[k]
	}
	// The cause, in the words that both share.
	if t := p.LongestText(); strings.Contains(q.Line, t) && strings.Contains(string(v.Template+"\n"+v.Error), t) {
		q.Texts = slices.DeleteFunc(slices.Clone(q.Texts), func(own string) bool { return strings.Contains(t, own) })
		if !slices.ContainsFunc(q.Texts, func(own string) bool { return strings.Contains(own, t) }) {
			q.Texts = append(q.Texts, t)
		}
	}
	return q, true
}

// finds reports whether a proposal matches the line of another, or that line
// without one of its texts.
func (p *Proposal) finds(o *Proposal) bool {
	return p.matches(o.Line) || slices.ContainsFunc(o.Texts, func(t string) bool { return p.matches(withoutText(o.Line, t)) })
}

func (p *Proposal) matches(line string) bool {
	return p.containsTexts(line) && (p.Object == "" || p.valueIn(line) != "")
}
