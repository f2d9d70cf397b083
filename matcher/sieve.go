package matcher

import (
	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// sieve finds the parts of a selection that have to be tried on a line: those of which it
// contains a required text. Several may find the same parts by other texts. It is immutable.
type sieve struct {
	texts  []literals.Text
	users  [][]int32 // of each text, the parts that it is chosen for
	always []int32   // parts that are tried on every line
	// escaped parts are found by letters of fields. JSON can escape those.
	escaped []int32

	prefilter *prefilter.Filter // of texts
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

// with returns the same sieve with another prefilter.
func (v sieve) with(f *prefilter.Filter) *sieve {
	v.prefilter = f
	return &v
}
