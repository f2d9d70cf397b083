package literals

// pair are the two rarest bytes of a text. Vector instructions search for both at once, which
// finds few places that have another text.
type pair struct {
	at       int // offset of the first byte in the text
	distance int // distance from the first byte to the second
	// The folds are the bit that the cases of a letter differ in; zero if it has no other case.
	first, firstFold, second, secondFold uint32
}

// setPair sets the pair of a text of at least two bytes, whose rarest one is known.
func (n *Needle) setPair() {
	if len(n.text) < 2 {
		return
	}
	next := 0
	if n.rare == 0 {
		next = 1
	}
	for i, c := range n.text {
		if i != n.rare && frequency(c, n.fold) < frequency(n.text[next], n.fold) {
			next = i
		}
	}
	a, b := min(n.rare, next), max(n.rare, next)
	n.pair = pair{at: a, distance: b - a, first: uint32(n.text[a]), second: uint32(n.text[b])}
	n.pair.firstFold, n.pair.secondFold = foldOf(n.text[a], n.fold), foldOf(n.text[b], n.fold)
}

func foldOf(c byte, fold bool) uint32 {
	if fold && 'a' <= c && c <= 'z' {
		return 'a' - 'A'
	}
	return 0
}

// indexPair is Index with vector instructions, for a text of at least two bytes that is not
// longer than the line.
func (n *Needle) indexPair(line []byte) int {
	at := 0
	for range maxTries {
		places := len(line) - at - len(n.text) + 1
		if places <= 0 {
			return -1
		}
		k := n.pair.find(line[at:], places)
		if k < 0 {
			return -1
		}
		at += k
		found := line[at : at+len(n.text)]
		if string(found) == string(n.text) || n.fold && EqualFold(found, n.text) {
			return at
		}
		at++
	}
	if len(line)-at < len(n.text) {
		return -1
	}
	if k := n.indexPlain(line[at:]); k >= 0 {
		return at + k
	}
	return -1
}
