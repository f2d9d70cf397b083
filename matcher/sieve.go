package matcher

import (
	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// sieve is a prefilter for rules. It finds the parts of a selection that have to be tried on a line, because the line
// contains one of their required texts. It is immutable. A finder may replace a sieve by one that finds the same parts
// with other texts.
type sieve struct {
	texts  []literals.Text
	users  [][]int32 // for each text, the indexes of the parts for which it was chosen
	always []int32   // indexes of the parts that are tried on every line
	// escaped are the parts whose texts are values of fields, which JSON may write with escapes.
	escaped []int32
	// branches holds texts for each branch of each part. If the branch holds, the line contains at least one of these
	// texts. It is nil if the texts are unknown.
	branches [][][]int32

	prefilter *prefilter.Filter // searches for the texts
}

// newSieve returns a sieve without its prefilter. choose returns the texts for a part.
func newSieve(parts []*part, choose func(*part) literals.Choice) *sieve {
	v := &sieve{}
	known := map[literals.Text]int{}
	for i, pt := range parts {
		n, choice := int32(i), choose(pt)
		if len(choice.Texts) == 0 {
			v.always = append(v.always, n)
			continue
		}
		if choice.Escapable {
			v.escaped = append(v.escaped, n)
		}
		for _, t := range choice.Texts {
			k, ok := known[t]
			if !ok {
				k = len(v.texts)
				known[t] = k
				v.texts = append(v.texts, t)
				v.users = append(v.users, nil)
			}
			v.users[k] = append(v.users[k], n)
		}
	}
	return v
}

// findBranches finds the texts for each branch of `any`. The texts found in a line then exclude most branches.
func (v *sieve) findBranches(parts []*part, choose func(*literals.Cond) literals.Choice) {
	known := map[literals.Text]int32{}
	for i, t := range v.texts {
		known[t] = int32(i)
	}
	v.branches = make([][][]int32, len(parts))
	for i, pt := range parts {
		if pt.decided || len(pt.branches) == 0 {
			continue
		}
		v.branches[i] = make([][]int32, pt.conds)
		for _, b := range pt.branches {
			v.branches[i][b.id] = textIndices(known, choose(b.condition.Required()))
		}
	}
}

// textIndices returns the indexes of the chosen texts. It returns nil if a text is unknown or may be written with
// escapes.
func textIndices(known map[literals.Text]int32, choice literals.Choice) (out []int32) {
	for _, t := range choice.Texts {
		k, ok := known[t]
		if !ok || choice.Escapable {
			return nil
		}
		out = append(out, k)
	}
	return out
}

func (v sieve) withFilter(f *prefilter.Filter) *sieve {
	v.prefilter = f
	return &v
}
