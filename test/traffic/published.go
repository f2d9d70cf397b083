package traffic

import "fmt"

// lengths are the lengths of texts in published rule sets: of a thousand, how
// many are shorter than so many bytes.
var lengths = []struct{ below, share int }{
	{4, 6}, {6, 24}, {8, 58}, {10, 130}, {12, 200}, {16, 330}, {24, 620}, {61, 1000},
}

const publishedRules = 500

// PublishedRules returns 500 generated plain texts of 3 to 60 bytes, with the
// lengths of published rule sets: a third are shorter than 16 bytes. The
// shortest also occur by chance in normal lines.
func PublishedRules() []Rule {
	d := newDice(60)
	seen := map[string]bool{}
	var out []Rule
	from, done := 3, 0
	for _, class := range lengths {
		for want := class.share * publishedRules / 1000; done < want; {
			text := term(d, from+d.IntN(class.below-from))
			if seen[text] {
				continue
			}
			seen[text] = true
			done++
			r := plain(text)
			r.ID, r.Name = done, fmt.Sprintf("Pub%04d", done)
			out = append(out, r)
		}
		from = class.below
	}
	return out
}

var syllables = []string{
	"bar", "cor", "dun", "fel", "gri", "hov", "jin", "kel", "lom", "mur", "nax", "orb", "pul", "qua", "rif", "sto", "tam", "ulv", "vex",
	"wob", "yar", "zen",
}

// term generates a text of n bytes: a status code, a word or a phrase.
func term(d dice, n int) string {
	var b []byte
	switch {
	case n == 3:
		return string(d.letters(append(b, '5'), 2, "0123456789"))
	case n < 6:
		return string(d.letters(append(b, 'E'), n-1, "ACDFIKLMNOPRSTVX"))
	}
	for len(b) < n {
		if len(b) > 0 {
			b = append(b, d.one([]string{" ", " ", " ", ": ", "-"})...)
		}
		for range 1 + d.IntN(3) {
			b = append(b, d.one(syllables)...)
		}
	}
	b = b[:n]
	if b[n-1] == ' ' {
		b[n-1] = 's'
	}
	return string(b)
}
