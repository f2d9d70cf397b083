package matcher

import (
	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// sieve finds the parts of a selection that have to be tried on a line: those of which it
// contains a required text. Several may find the same parts by other texts. It is immutable.
type sieve struct {
	texts  []literals.Text
	users  [][]int32 // parts for which each text was chosen
	always []int32   // parts that are tried on every line
	// escaped parts are found by letters of fields. JSON can escape those.
	escaped []int32
	// branches has, of each part, for the branches of its conditions the texts of which a line
	// contains one if the branch holds. Nil if they are not known.
	branches [][][]int32

	prefilter *prefilter.Filter // prefilter of texts
}

// sieveOf returns a sieve, without its prefilter, of the texts that choose returns for each
// part.
func sieveOf(parts []*part, choose func(*part) literals.Choice) *sieve {
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

// findBranches notes which of the texts every line contains that fulfils a branch of `any`:
// the texts in a line then exclude most branches.
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
			v.branches[i][b.id] = indices(known, choose(b.of.Required()))
		}
	}
}

// indices returns the indices of the texts of a choice, nil if one of them is not known or
// may be written with escapes.
func indices(known map[literals.Text]int32, choice literals.Choice) (out []int32) {
	for _, t := range choice.Texts {
		k, ok := known[t]
		if !ok || choice.Escapable {
			return nil
		}
		out = append(out, k)
	}
	return out
}

// with returns the same sieve with another prefilter.
func (v sieve) with(f *prefilter.Filter) *sieve {
	v.prefilter = f
	return &v
}
