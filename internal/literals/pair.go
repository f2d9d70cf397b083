package literals

// pair describes the two rarest bytes of a text. Vector instructions search for both at once, because few other
// texts have the same two bytes at the same distance.
type pair struct {
	offset   uint32 // offset of the first byte in the text
	distance uint32 // distance from the first byte to the second
	// A fold is the bit in which the two cases of a letter differ. Zero means that case is not ignored.
	first, firstFold, second, secondFold byte
}

// newPair returns the pair of a text of at least two bytes whose rarest byte is known.
func newPair(n *Needle) pair {
	next, rare := 0, int(n.rare)
	if rare == 0 {
		next = 1
	}
	for i, c := range n.text {
		if i != rare && frequency(c, n.fold) < frequency(n.text[next], n.fold) {
			next = i
		}
	}
	a, b := min(rare, next), max(rare, next)
	return pair{
		offset: uint32(a), distance: uint32(b - a),
		first: n.text[a], firstFold: foldBit(n.text[a], n.fold),
		second: n.text[b], secondFold: foldBit(n.text[b], n.fold),
	}
}

func foldBit(c byte, fold bool) byte {
	if fold && 'a' <= c && c <= 'z' {
		return 'a' - 'A'
	}
	return 0
}

// maxTries limits the positions at which indexPair compares the text, because a line may be full of the same pair.
const maxTries = 24

// indexPair is Index with vector instructions, for a text of at least two bytes. If indexPair stops after maxTries
// positions, index is negative, and the caller must search line[at:].
func (n *Needle) indexPair(line []byte) (index, at int) {
	for range maxTries {
		positions := len(line) - at - len(n.text) + 1
		if positions <= 0 {
			return -1, len(line)
		}
		k := n.pair.find(line[at:], positions)
		if k < 0 {
			return -1, len(line)
		}
		at += k
		found := line[at : at+len(n.text)]
		if string(found) == string(n.text) || n.fold && EqualFold(found, n.text) {
			return at, at
		}
		at++
	}
	return -1, at
}
