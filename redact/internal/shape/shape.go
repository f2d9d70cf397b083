// Package shape decides from the characters of a word whether the word is random, as secrets are.
package shape

import "strings"

// Minimum lengths in bytes of words that can be random.
const (
	MinAnnounced = 16 // minimum length of a word that follows the announcement of a secret
	minRandom    = 24 // minimum length of any other word
	MinHex       = 32
	MinPlain     = 20 // minimum length of a word of digits and letters of one case
)

// Sorts of bytes, as bits. A byte that does not occur in random words has the sort 0.
const (
	Upper uint8 = 1 << iota
	Lower
	Digit
	sign // one of the characters + / _ -
)

var sorts = func() (sorts [256]uint8) {
	for i := range sorts {
		switch c := byte(i); {
		case 'A' <= c && c <= 'Z':
			sorts[i] = Upper
		case 'a' <= c && c <= 'z':
			sorts[i] = Lower
		case '0' <= c && c <= '9':
			sorts[i] = Digit
		case strings.IndexByte("+/_-", c) >= 0:
			sorts[i] = sign
		}
	}
	return sorts
}()

// Kind returns Upper, Lower or Digit for a letter or digit, and another value for any other byte.
func Kind(c byte) uint8 { return sorts[c] }

// Shape counts the characters of each sort in a word.
type Shape struct {
	Length, Upper, Lower, Digit int
	Hex                         int // number of digits and of lower-case letters from a to f
	Changes                     int // number of characters whose sort differs from the previous one; a lower-case letter after a capital does not count
}

// changes is 1 if two successive sorts count as a change. The index combines the bits of both sorts.
var changes = [64]uint64{Upper<<3 | Digit: 1, Lower<<3 | Upper: 1, Lower<<3 | Digit: 1, Digit<<3 | Upper: 1, Digit<<3 | Lower: 1}

// counts holds four counters of 16 bits for each byte. They count upper-case letters, lower-case letters, digits and
// hexadecimal digits, and are 1 if the byte is of that sort.
var counts = func() (counts [256]uint64) {
	for i := range counts {
		switch sorts[i] {
		case Upper:
			counts[i] = 1
		case Lower:
			counts[i] = 1 << 16
		case Digit:
			counts[i] = 1<<32 | 1<<48
		}
		if sorts[i] == Lower && i <= 'f' {
			counts[i] |= 1 << 48
		}
	}
	return counts
}()

// Measure returns the shape of a word.
func Measure(s string) Shape {
	sh, last := Shape{Length: len(s)}, uint8(0)
	for len(s) > 0 {
		part := s[:min(len(s), 1<<16-1)] // a count has 16 bits
		s = s[len(part):]
		count, changed := uint64(0), uint64(0)
		for i := range len(part) {
			count += counts[part[i]]
			sort := sorts[part[i]] & 7
			changed += changes[last<<3|sort]
			last = sort
		}
		sh.Upper += int(count & 0xffff)
		sh.Lower += int(count >> 16 & 0xffff)
		sh.Digit += int(count >> 32 & 0xffff)
		sh.Hex += int(count >> 48)
		sh.Changes += int(changed)
	}
	return sh
}

// Suspect is a fast filter. If it returns false, the word is an ordinary word or a name.
func (sh Shape) Suspect() bool { return sh.Digit > 0 || sh.Upper > 2 && sh.Lower > 2 }

// IsSecret reports whether a word looks random. announced means that the text before the word announces a secret. In
// random text of letters of both cases and digits, about 45 of 100 characters differ in sort from the previous
// character. In names, fewer than 20 of 100 do.
func (sh Shape) IsSecret(announced bool) bool {
	least := 27
	switch {
	case sh.Length >= 40:
		least = 21
	case sh.Length > MinHex:
		least = 24
	}
	changes := func(percent int) bool { return sh.Changes*100 >= sh.Length*percent }
	letters := sh.Upper + sh.Lower + sh.Digit
	leastSmall := 22
	if letters == sh.Length && letters >= 40 {
		leastSmall = 16
	}
	mixed := sh.Upper >= 2 && sh.Lower >= 2
	small := sh.Upper == 0 && sh.Lower+sh.Digit > sh.Hex && sh.Digit*10 >= sh.Length && changes(leastSmall)
	if announced {
		mixed = mixed && (changes(18) || sh.Length >= MinPlain && sh.Upper*10 >= sh.Length*3 || sh.Digit > 0 && changes(12))
		hex := sh.Hex == sh.Length && sh.Length >= MinHex
		return mixed || hex || sh.Length >= MinPlain && (small || sh.Lower == 0 && sh.Upper > 3 && sh.Digit > 2)
	}
	return mixed && changes(least) && (letters >= minRandom && sh.Digit > 0 || letters >= 30) ||
		small && letters >= 40 && letters == sh.Length
}

// IsUUID reports whether s is a UUID.
func IsUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	for i := range len(s) {
		if !isHex[s[i]] && i != 8 && i != 13 && i != 18 && i != 23 {
			return false
		}
	}
	return true
}

var isHex = func() (set [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		set[c] = true
	}
	return set
}()
