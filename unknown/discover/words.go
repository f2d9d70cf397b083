package discover

import (
	_ "embed" // embeds words.txt
	"strings"
)

// weight is the severity of a word. Zero means that the word does not indicate a failure.
type weight int8

// The weights of words. A single soft word does not yet indicate a failure.
const (
	soft     weight = 1
	ordinary weight = 2
	severe   weight = 3
)

// patience is a class of failures by the way in which they usually end, which their wording
// shows.
type patience uint8

const (
	// transient marks a failure that ends by itself, even if it occurs often.
	transient patience = 1 << iota
	// retries marks a failure whose next attempt may succeed. If the message repeats for a
	// long time, no attempt has succeeded.
	retries
	// waits marks that nothing has failed, but something is still missing. If the message
	// repeats for a long time, it may never come.
	waits
	// idleWait marks a wait for an event that need not happen. It cancels waits.
	idleWait
)

//go:embed words.txt
var wordList string

// complaints are the words that indicate a failure, and the words for conditions that usually
// end by themselves.
var complaints = parseWords(wordList)

type rating struct {
	weight   weight
	patience patience
}

// lexicon holds words and pairs of words with their ratings. It is immutable.
type lexicon struct {
	ratings map[string]rating
	// lengths has, for each pair of first and last byte, the lengths of the words in ratings as
	// a set of bits. The bits avoid most lookups, because few words of logs are in the lexicon.
	lengths [1 << 10]uint64
}

func parseWords(list string) *lexicon {
	weights := map[string]weight{"severe": severe, "ordinary": ordinary, "soft": soft}
	patiences := map[string]patience{"transient": transient, "retries": retries, "waits": waits, "idle": idleWait}
	x := &lexicon{ratings: map[string]rating{}}
	section := ""
	for row := range strings.Lines(list) {
		row = strings.TrimSpace(row)
		if name, ok := strings.CutSuffix(row, ":"); ok {
			section = name
			continue
		}
		for word := range strings.SplitSeq(row, ",") {
			if word = strings.TrimSpace(word); word == "" || row[0] == '#' {
				continue
			}
			r := x.ratings[word]
			if w := weights[section]; w > 0 {
				r.weight = w
			} else {
				r.patience = patiences[section]
			}
			x.ratings[word] = r
			x.lengths[firstAndLast([]byte(word))] |= 1 << (len(word) % 64)
		}
	}
	return x
}

// firstAndLast returns the index of a word in lengths, which depends on its first and last
// byte.
func firstAndLast(word []byte) int { return int(word[0]&31)<<5 | int(word[len(word)-1]&31) }

// rate returns the rating of a word, which must not be empty.
func (x *lexicon) rate(word []byte) rating {
	if x.lengths[firstAndLast(word)]>>(len(word)%64)&1 == 0 {
		return rating{}
	}
	return x.ratings[string(word)]
}

type judgement struct {
	weight   weight
	patience patience
	softKind [4]byte // first bytes of the first soft word, because a single soft word does not yet indicate a failure
}

// addWeight adds the weight of a word that indicates a failure. Two different soft words weigh
// as much as an ordinary one, so "not ready" alone is harmless, but "not ready, timeout" is
// not.
func (j *judgement) addWeight(word []byte, w weight) {
	if w == soft {
		var start [4]byte
		copy(start[:], word)
		switch j.softKind {
		case [4]byte{}:
			j.softKind = start
		case start:
		default:
			w = ordinary
		}
	}
	j.weight = max(j.weight, w)
}

const maxWord = 24

// judge rates the words of a text. It recognizes that "no errors", "not yet expired",
// "error=<nil>" and "failed: 0" do not report a failure.
func (j *judgement) judge(text []byte) {
	var buf [2*maxWord + 1]byte
	start, n, negated := 0, 0, false // buf[:start] holds the previous word and a space
	for i := 0; i <= len(text); i++ {
		// The parts of CamelCase words such as CrashLoopBackOff are rated as words, too.
		camel := i > 0 && i < len(text) && n > 0 && upper(text[i]) && letter(text[i-1]) && !upper(text[i-1])
		if i < len(text) && wordByte(text, i) && !camel {
			if n < maxWord {
				buf[start+n] = lower(text[i])
				n++
			}
			continue
		}
		if n == 0 {
			continue
		}
		word, both := buf[start:start+n], buf[:start+n]
		if !emptyValue(text[i:]) {
			j.add(word, both, negated)
		}
		negated = string(word) == "no" || string(word) == "0" || string(word) == "without" || string(word) == "yet" || string(word) == "previous"
		// The word becomes the previous word if only a space follows it.
		start = copy(buf[:], word)
		if n = 0; i < len(text) && (text[i] == ' ' || text[i] == '-' || camel) {
			buf[start] = ' '
			start++
		} else {
			start = 0
		}
		if camel {
			buf[start] = lower(text[i])
			n = 1
		}
	}
	if j.patience&idleWait != 0 {
		j.patience &^= idleWait | waits
	}
}

// add rates a word unless the previous word negates it. both is the pair of the previous word
// and this word. add also rates the pair, because "no space" indicates a failure.
func (j *judgement) add(word, both []byte, negated bool) {
	if !negated {
		j.addRating(word)
	}
	if len(both) > len(word) {
		j.addRating(both)
	}
}

func (j *judgement) addRating(word []byte) {
	r := complaints.rate(word)
	j.addWeight(word, r.weight)
	j.patience |= r.patience
}

// emptyValue reports whether a text starts with a value that stands for nothing, such as <nil>.
func emptyValue(rest []byte) bool {
	if len(rest) < 2 || rest[0] != '=' && rest[0] != ':' {
		return false
	}
	rest = rest[1:]
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '"') {
		rest = rest[1:]
	}
	for _, v := range [...]string{"0", "<nil>", "nil", "null", "false", "none"} {
		if len(rest) >= len(v) && string(rest[:len(v)]) == v && (len(rest) == len(v) || !letterOrDigit(rest[len(v)]) && rest[len(v)] != '.' && rest[len(v)] != '/') {
			return true
		}
	}
	return false
}

// wordByte reports whether the byte at i belongs to a word. Such a byte is a letter, a digit,
// or an apostrophe between letters.
func wordByte(text []byte, i int) bool {
	if letterOrDigit(text[i]) {
		return true
	}
	return text[i] == '\'' && i > 0 && i+1 < len(text) && letter(text[i-1]) && letter(text[i+1])
}

func letter(c byte) bool        { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool         { return '0' <= c && c <= '9' }
func letterOrDigit(c byte) bool { return letter(c) || digit(c) }
func upper(c byte) bool         { return 'A' <= c && c <= 'Z' }

func lower(c byte) byte {
	if upper(c) {
		return c | 0x20
	}
	return c
}
