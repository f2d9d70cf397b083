package sourcecheck

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode"
)

type index struct {
	literals []literal
	words    map[string]bool // identifiers and words of literals
	wordText string          // all words, separated by spaces
	// all contains the texts of all literals, each preceded by \x01. starts contains the positions in all where the
	// literals begin. lower is all in lower case.
	all, lower string
	starts     []int
	// pieces maps each text between two values in a literal (a piece) to the first literal that contains it. Texts that
	// consist of several pieces can only be joined at the ends of pieces.
	pieces            map[string]int
	forward, backward []string // sorted pieces, and sorted reversed pieces
}

// newIndex returns an index that already contains the texts that logging frameworks add to lines.
func newIndex() *index {
	x := &index{words: map[string]bool{}}
	for _, w := range strings.Fields("level msg err error info warning warn fatal debug time ts caller logger severity") {
		x.words[w] = true
	}
	return x
}

func (x *index) addLiteral(l literal) {
	if strings.Trim(l.text, anything+" \n") != "" && l.file != "" {
		x.literals = append(x.literals, l)
	}
}

// prepareSearch prepares the index for searching. It must be called after the last literal was added.
func (x *index) prepareSearch() {
	var b strings.Builder
	x.pieces = map[string]int{}
	for i, l := range x.literals {
		b.WriteByte(1)
		x.starts = append(x.starts, b.Len())
		b.WriteString(l.text)
		for _, p := range strings.Split(l.text, anything) {
			if p = strings.TrimFunc(p, isPunctuation); p == "" {
				continue
			}
			if _, known := x.pieces[p]; !known {
				x.pieces[p] = i
				x.forward, x.backward = append(x.forward, p), append(x.backward, reverseString(p))
			}
		}
		for _, w := range word.FindAllString(l.text, -1) {
			x.words[w] = true
		}
	}
	x.wordText = " " + strings.Join(slices.Collect(maps.Keys(x.words)), " ") + " "
	x.all = b.String()
	x.lower = strings.ToLower(x.all)
	slices.Sort(x.forward)
	slices.Sort(x.backward)
}

type foundText struct {
	state State
	at    int // index of the literal that contains most of the text, or -1
}

// findText searches for a text. The text is found if one literal contains it, or if it consists
// of parts of several literals that the program joins. Each part must then begin and end at an
// end of a literal or at a value.
func (x *index) findText(t run) foundText {
	all := x.all
	if t.fold {
		all = x.lower
	}
	if i := strings.Index(all, t.text); i >= 0 && (!t.fold || len(x.lower) == len(x.all)) {
		return foundText{Found, sort.SearchInts(x.starts, i+1) - 1}
	}
	return x.joinPieces(t.text)
}

// cover is the best way to compose the text up to a position from pieces that end there.
type cover struct {
	known bool
	// lost is the number of letters that no literal contains. loose is the number of letters that the source code
	// contains only as single words. best is the largest number of letters in one distinctive piece, which is in the
	// literal at. from and to are the start and the end of the last piece.
	lost, loose, best, at int
	from, to              int
}

func (c cover) isCheaper(d cover) bool {
	if !d.known || c.lost != d.lost {
		return !d.known || c.lost < d.lost
	}
	return c.loose < d.loose
}

// minDistinctive is the minimum number of letters with which several consecutive words are distinctive.
const minDistinctive = 9

// isFirm reports whether a piece is distinctive. It must have several words, or be a whole literal that is joined to
// others only by punctuation.
func isFirm(text string, start, end int, whole bool) bool {
	size := countLetters(text[start:end])
	apart := (start == 0 || text[start-1] != ' ') && (end == len(text) || text[end] != ' ')
	return size >= minDistinctive && strings.Contains(text[start:end], " ") || size >= 6 && whole && apart
}

// mayJoin reports whether a program may write the piece from start to end after the last piece of c. This is the case
// if both pieces are in one literal with a value between them, or if something like ": " joins them.
func (x *index) mayJoin(text string, c cover, start, end int) bool {
	return strings.ContainsAny(text[c.to:start], ":;,=()[]{}\"'|") ||
		strings.Contains(x.all, text[c.from:c.to]+" "+anything+" "+text[start:end])
}

func (x *index) literalWithAll(runs []run) int {
	return slices.IndexFunc(x.literals, func(l literal) bool {
		rest := l.text
		for _, r := range runs {
			if r.fold {
				rest = strings.ToLower(rest)
			}
			_, after, has := strings.Cut(rest, r.text)
			if !has {
				return false
			}
			rest = after
		}
		return true
	})
}

func (x *index) joinPieces(text string) foundText {
	n := len(text)
	covers := make([]cover, n+1)
	covers[0] = cover{known: true, at: -1}
	for i := 0; i < n; i++ {
		c := covers[i]
		if !c.known {
			continue
		}
		step := func(end, piece int, known, whole bool) {
			d, size := c, countLetters(text[i:end])
			switch {
			case !known:
				d.lost += size
			case !isFirm(text, i, end, whole) || c.to > 0 && !x.mayJoin(text, c, i, end):
				d.loose += size
			default:
				d.from, d.to = i, end
				if size > d.best {
					d.best, d.at = size, piece
				}
			}
			if d.isCheaper(covers[end]) {
				covers[end] = d
			}
		}
		if isPunctuation(rune(text[i])) {
			step(i+1, -1, true, false)
			continue
		}
		end := i
		for end < n && !isPunctuation(rune(text[end])) {
			end++
		}
		step(end, -1, x.hasWord(text[i:end], i == 0, end == n), false)
		for j := i + 1; j <= n; j++ {
			if j < n && j < end {
				continue // pieces may end only at the end of a word
			}
			if p, ok := x.pieces[text[i:j]]; ok {
				step(j, p, true, true)
			} else if p := reverseString(firstWithPrefix(x.backward, reverseString(text[:j]))); i == 0 && p != "" {
				step(j, x.pieces[p], true, true)
			}
		}
		if p := firstWithPrefix(x.forward, text[i:]); p != "" {
			step(n, x.pieces[p], true, true)
		}
	}
	c := covers[n]
	switch total := countLetters(text); {
	case c.lost == 0 && c.best > 0 && c.loose*5 <= total*2:
		return foundText{Found, c.at}
	case c.best*2 >= total:
		return foundText{InPart, c.at}
	}
	return foundText{Gone, -1}
}

// firstWithPrefix returns the first of the sorted strings that begins with the words, or "". The last word must be
// complete.
func firstWithPrefix(sorted []string, words string) string {
	i, _ := slices.BinarySearch(sorted, words)
	for ; i < len(sorted) && strings.HasPrefix(sorted[i], words); i++ {
		if rest := sorted[i][len(words):]; rest == "" || isPunctuation(rune(rest[0])) {
			return sorted[i]
		}
	}
	return ""
}

// nearestLiteral returns the literal that has the most words in common with the text. Rare words count more. It returns
// -1 if no literal has at least half of the words.
func (x *index) nearestLiteral(text string) int {
	words := word.FindAllString(strings.ToLower(text), -1)
	letters := len(strings.Join(words, ""))
	best, bestScore := -1, 0.5
	for i, l := range x.literals {
		if len(l.text) > 4*len(text)+40 {
			continue
		}
		shared, size := 0, letters
		for _, w := range word.FindAllString(strings.ToLower(l.text), -1) {
			if slices.Contains(words, w) {
				shared += len(w)
			} else {
				size += len(w)
			}
		}
		if score := float64(shared) / float64(max(size, 1)); score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// hasWord reports whether the source code contains a word. first and last say whether the word is at the start or the
// end of a text, where it may be incomplete.
func (x *index) hasWord(w string, first, last bool) bool {
	if !first && !last || x.words[w] {
		return x.words[w]
	}
	if !first {
		w = " " + w
	}
	if !last {
		w += " "
	}
	return strings.Contains(x.wordText, w)
}

func isPunctuation(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func countLetters(s string) (n int) {
	for _, r := range s {
		if !isPunctuation(r) {
			n++
		}
	}
	return n
}

func reverseString(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
