// Package shape decides from the characters of a word whether it is random.
package shape

import "strings"

// Lengths of words that are judged by their shape.
const (
	MinAnnounced = 16 // after a word that announces a secret
	minRandom    = 24 // elsewhere
	MinHex       = 32
	MinPlain     = 20 // of letters of one case and digits
)

// Sorts of bytes, and further properties of them.
const (
	Upper uint8 = 1 << iota
	Lower
	Digit
	markHex // small letters and digits
	markWord
	markOther // a letter beyond f
	sortMask  = Upper | Lower | Digit
)

var (
	sorts = newSorts()
	// weights are what a byte adds to the four counts of a shape, 16 bits each.
	weights = [16]uint64{
		Upper: 1, Lower: 1 << 16, Digit: 1 << 32,
		Lower | markHex: 1<<16 | 1<<48, Digit | markHex: 1<<32 | 1<<48,
	}
	changes = [64]uint8{Upper<<3 | Digit: 1, Lower<<3 | Upper: 1, Lower<<3 | Digit: 1, Digit<<3 | Upper: 1, Digit<<3 | Lower: 1}
)

func newSorts() (sorts [256]uint8) {
	for i := range sorts {
		c := byte(i)
		switch {
		case 'A' <= c && c <= 'Z':
			sorts[i] = Upper | markWord
		case 'a' <= c && c <= 'f':
			sorts[i] = Lower | markWord | markHex
		case 'a' <= c && c <= 'z':
			sorts[i] = Lower | markWord | markOther
		case '0' <= c && c <= '9':
			sorts[i] = Digit | markWord | markHex
		case strings.IndexByte("+/_-", c) >= 0:
			sorts[i] = markWord
		}
	}
	return sorts
}

// InWord reports whether a byte can be part of a random word.
func InWord(c byte) bool { return sorts[c]&markWord != 0 }

// Sort returns Upper, Lower or Digit, or bits that are none of them.
func Sort(c byte) uint8 { return sorts[c] }

// Shape counts the characters of a word by sort.
type Shape struct {
	Length, Upper, Lower, Digit, Hex int
	Changes                          int // of the sort of character, except as in Word
	beyondHex                        bool
}

// Of returns the shape of a word.
func Of(s string) Shape {
	sh := Shape{Length: len(s)}
	other, last := uint8(0), uint8(0)
	for len(s) > 0 {
		n := min(len(s), 1<<15) // what fits into a quarter of the sum
		sum := uint64(0)
		for i := range n {
			sort := sorts[s[i]]
			sum += weights[sort&(sortMask|markHex)]
			other |= sort
			sh.Changes += int(changes[last<<3|sort&sortMask])
			last = sort & sortMask
		}
		s = s[n:]
		sh.Upper += int(sum & 0xffff)
		sh.Lower += int(sum >> 16 & 0xffff)
		sh.Digit += int(sum >> 32 & 0xffff)
		sh.Hex += int(sum >> 48)
	}
	sh.beyondHex = other&markOther != 0
	return sh
}

// Suspect is a fast filter: false excludes words and names.
func (sh Shape) Suspect() bool { return sh.Digit > 0 || sh.Upper > 2 && sh.Lower > 2 }

// IsSecret reports whether a word looks random. announced means that the text before it
// says that a secret follows. In random text of letters of both cases and digits, some 45
// of 100 characters differ in sort from the one before; in names fewer than 20 do.
func (sh Shape) IsSecret(announced bool) bool {
	least := 27
	switch {
	case sh.Length >= 40:
		least = 21
	case sh.Length > MinHex:
		least = 24
	}
	mixed := sh.Upper >= 2 && sh.Lower >= 2 && sh.Changes*100 >= sh.Length*least
	letters := sh.Upper + sh.Lower + sh.Digit
	leastSmall := 22
	if letters == sh.Length && letters >= 40 {
		leastSmall = 16
	}
	small := sh.Upper == 0 && sh.beyondHex && sh.Digit*100 >= sh.Length*10 && sh.Changes*100 >= sh.Length*leastSmall
	hex := sh.Hex == sh.Length && sh.Length >= MinHex
	if announced {
		mixed = sh.Upper >= 2 && sh.Lower >= 2 && (sh.Changes*100 >= sh.Length*18 || sh.Length >= MinPlain && sh.Upper*10 >= sh.Length*3 || sh.Digit > 0 && sh.Changes*100 >= sh.Length*12)
		return mixed || hex || sh.Length >= MinPlain && (small || sh.Lower == 0 && sh.Upper > 3 && sh.Digit > 2)
	}
	return mixed && letters >= minRandom && sh.Digit > 0 || mixed && letters >= 30 ||
		small && letters >= 40 && letters == sh.Length
}

// IsUUID reports whether s is a UUID.
func IsUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return notHex(four(s, 0)|four(s, 4)<<32)|notHex(four(s, 9)|four(s, 14)<<32)|
		notHex(four(s, 19)|four(s, 24)<<32)|notHex(four(s, 28)|four(s, 32)<<32) == 0
}

// four returns the four bytes of s at i, the first one lowest.
func four(s string, i int) uint64 {
	s = s[i : i+4]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

// notHex returns 0 if eight bytes are hexadecimal digits, in either case.
func notHex(x uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	low := x &^ tops // so that no sum carries into the next byte
	digit := (low + ones*(0x80-'0')) &^ (low + ones*(0x7f-'9'))
	low |= ones * 0x20
	letter := (low + ones*(0x80-'a')) &^ (low + ones*(0x7f-'f'))
	return (x | ^(digit | letter)) & tops
}
