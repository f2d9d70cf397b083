package sourcecheck

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// index finds texts in the literals of sources.
type index struct {
	literals []literal
	words    map[string]bool // identifiers, and the words of literals
	wordText string          // the words with a space around each
	// all joins the texts of the literals, each after \x01; starts are where they begin. lower
	// is the same in lower case.
	all, lower string
	starts     []int
	// pieces maps what is between two values in a literal to the first such literal. Texts of
	// several pieces can only be joined at their ends.
	pieces            map[string]int
	forward, backward []string // pieces, and reversed pieces, sorted
}

// newIndex returns an index that knows what logging frameworks add to lines.
func newIndex() *index {
	x := &index{words: map[string]bool{}}
	for _, w := range strings.Fields("level msg err error info warning warn fatal debug time ts caller logger severity") {
		x.words[w] = true
	}
	return x
}

func (x *index) add(l literal) {
	if strings.Trim(l.text, anything+" \n") != "" && l.file != "" {
		x.literals = append(x.literals, l)
	}
}

// build prepares the search, after the last add.
func (x *index) build() {
	var b strings.Builder
	x.pieces = map[string]int{}
	for i, l := range x.literals {
		b.WriteByte(1)
		x.starts = append(x.starts, b.Len())
		b.WriteString(l.text)
		for _, p := range strings.Split(l.text, anything) {
			if p = strings.TrimFunc(p, punctuation); p == "" {
				continue
			}
			if _, known := x.pieces[p]; !known {
				x.pieces[p] = i
				x.forward, x.backward = append(x.forward, p), append(x.backward, reverse(p))
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

// found says how much of a text the sources have.
type found struct {
	state State
	at    int // the literal that has most of it; -1: none
}

// find looks for a text. It is found if one literal has it, or if several have it that the
// program joins: each begins and ends at an end of a literal or at a value.
func (x *index) find(t run) found {
	all := x.all
	if t.fold {
		all = x.lower
	}
	if i := strings.Index(all, t.text); i >= 0 && (!t.fold || len(x.lower) == len(x.all)) {
		return found{Found, sort.SearchInts(x.starts, i+1) - 1}
	}
	return x.join(t.text)
}

// cover is the cheapest explanation of the text up to a position, which is an end of pieces.
type cover struct {
	known bool
	// lost are letters that no literal has. loose are letters of single words of the sources.
	// best is the most letters that one firm piece has, in the literal at; the last one is
	// from here to there.
	lost, loose, best, at int
	from, to              int
}

func (c cover) cheaper(d cover) bool {
	if !d.known || c.lost != d.lost {
		return !d.known || c.lost < d.lost
	}
	return c.loose < d.loose
}

// minFirm is the least number of letters by which several words are known again.
const minFirm = 9

// firm reports whether a piece says enough to be known again: several words, or all of a
// literal that nothing but punctuation joins with others.
func firm(text string, from, to int, whole bool) bool {
	size := letters(text[from:to])
	apart := (from == 0 || text[from-1] != ' ') && (to == len(text) || text[to] != ' ')
	return size >= minFirm && strings.Contains(text[from:to], " ") || size >= 6 && whole && apart
}

// joins reports whether a program may write the last piece of c and the one at from: they are
// in one literal with a value between them, or something like ": " joins them.
func (x *index) joins(text string, c cover, from, to int) bool {
	return strings.ContainsAny(text[c.to:from], ":;,=()[]{}\"'|") ||
		strings.Contains(x.all, text[c.from:c.to]+" "+anything+" "+text[from:to])
}

// together returns the literal that has all runs in their order, -1 if there is none.
func (x *index) together(runs []run) int {
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

// join explains a text by pieces after each other.
func (x *index) join(text string) found {
	n := len(text)
	covers := make([]cover, n+1)
	covers[0] = cover{known: true, at: -1}
	for i := 0; i < n; i++ {
		c := covers[i]
		if !c.known {
			continue
		}
		step := func(to, piece int, known, whole bool) {
			d, size := c, letters(text[i:to])
			switch {
			case !known:
				d.lost += size
			case !firm(text, i, to, whole) || c.to > 0 && !x.joins(text, c, i, to):
				d.loose += size
			default:
				d.from, d.to = i, to
				if size > d.best {
					d.best, d.at = size, piece
				}
			}
			if d.cheaper(covers[to]) {
				covers[to] = d
			}
		}
		if punctuation(rune(text[i])) {
			step(i+1, -1, true, false)
			continue
		}
		end := i
		for end < n && !punctuation(rune(text[end])) {
			end++
		}
		step(end, -1, x.hasWord(text[i:end], i == 0, end == n), false)
		for j := i + 1; j <= n; j++ {
			if j < n && j < end {
				continue // pieces end where words end
			}
			if p, ok := x.pieces[text[i:j]]; ok {
				step(j, p, true, true)
			} else if p, ok := x.withSuffix(text[:j]); i == 0 && ok {
				step(j, p, true, true)
			}
		}
		if p, ok := x.withPrefix(text[i:]); ok {
			step(n, p, true, true)
		}
	}
	c := covers[n]
	switch total := letters(text); {
	case c.lost == 0 && c.best > 0 && c.loose*5 <= total*2:
		return found{Found, c.at}
	case c.best*2 >= total:
		return found{InPart, c.at}
	}
	return found{Gone, -1}
}

// withPrefix returns a literal of which a piece begins with the words of the text.
func (x *index) withPrefix(text string) (int, bool) {
	p := beginning(x.forward, text)
	return x.pieces[p], p != ""
}

// withSuffix returns a literal of which a piece ends with the words of the text.
func (x *index) withSuffix(text string) (int, bool) {
	p := beginning(x.backward, reverse(text))
	return x.pieces[reverse(p)], p != ""
}

// beginning returns the first of sorted texts that begins with whole words, "" if none does.
func beginning(sorted []string, words string) string {
	i, _ := slices.BinarySearch(sorted, words)
	for ; i < len(sorted) && strings.HasPrefix(sorted[i], words); i++ {
		if rest := sorted[i][len(words):]; rest == "" || punctuation(rune(rest[0])) {
			return sorted[i]
		}
	}
	return ""
}

// nearest returns the literal that shares most words with the text, rare words first; -1 if
// none shares half of them.
func (x *index) nearest(text string) int {
	words := word.FindAllString(strings.ToLower(text), -1)
	best, bestScore := -1, 0.5
	for i, l := range x.literals {
		if len(l.text) > 4*len(text)+40 {
			continue
		}
		theirs := word.FindAllString(strings.ToLower(l.text), -1)
		shared, all := 0, len(words)
		for _, w := range theirs {
			if slices.Contains(words, w) {
				shared += len(w)
			} else {
				all++
			}
		}
		size := 0
		for _, w := range words {
			size += len(w)
		}
		for _, w := range theirs {
			if !slices.Contains(words, w) {
				size += len(w)
			}
		}
		if score := float64(shared) / float64(max(size, 1)); score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// hasWord reports whether the sources have a word. At an end of a text it may be cut.
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

func punctuation(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func letters(s string) (n int) {
	for _, r := range s {
		if !punctuation(r) {
			n++
		}
	}
	return n
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
