package discover

import (
	"container/list"
	"strings"
	"time"
)

// Constants of the miner.
const (
	// depth is how many words choose the bucket of a message, beside their
	// number. Loggers start with what happened; what varies comes later, and
	// what varies early is a placeholder already.
	depth = 3
	// similarity is the least share of equal words of two messages of the same
	// pattern. Drain's 0.4 is for raw lines; here numbers and names are equal
	// already, so words that differ mostly tell another failure.
	similarity = 0.7
	// mostWords bounds a message and its error; the rest of it is left out.
	mostWords = 80
	// mostInBucket bounds the comparisons of one line.
	mostInBucket = 64
	// mostVariants bounds the exact texts that are remembered, per pattern on
	// average: they spare the comparisons.
	mostVariants = 4
	// mostStreams bounds the streams that are told apart per pattern.
	mostStreams = 64
)

// DefaultPatterns is how many patterns are kept at the same time: far more than
// anybody reads, and some 35 MB at worst.
const DefaultPatterns = 5000

// between parts a message from its error among the words of a pattern.
const between = "\x1f"

// pattern is a shape of messages, and what was seen of it.
type pattern struct {
	words   []string
	grave   []bool // which of them tell of a failure
	bucket  string
	element *list.Element

	judgement judgement
	level     Level
	count     int64
	idling    int64 // lines that only wait
	times     int64 // that an event says it happened, at most
	streams   []int // numbers, sorted by first sight; at most mostStreams
	first     time.Time
	last      time.Time
	again     again
	example   example
}

// example is the first line of a pattern.
type example struct {
	line    string
	reading Reading
	input   string
	number  int64
	labels  map[string]string
	part    string // of the program
}

// tree is a flat form of Drain's tree: the number of words and the first of them
// choose a bucket, in which the most similar pattern takes a message, or a new one
// is made. The pattern that was seen longest ago makes room.
type tree struct {
	most    int
	buckets map[string][]*pattern
	exact   map[string]*pattern // by masked text
	recent  *list.List          // of *pattern, the newest first

	evicted      int64
	evictedLines int64

	key strings.Builder
}

func newTree(most int) *tree {
	return &tree{most: most, buckets: map[string][]*pattern{}, exact: map[string]*pattern{}, recent: list.New()}
}

// find returns the pattern of a masked text, nil if it is a new one: it then is
// for add.
func (t *tree) find(masked []byte) *pattern {
	if p := t.exact[string(masked)]; p != nil && p.element != nil {
		t.recent.MoveToFront(p.element)
		return p
	}
	words := splitWords(string(masked))
	grave := complaining(words)
	var best *pattern
	fewest := int(float64(len(words))*(1-similarity)) + 1 // words that differ
	for _, p := range t.buckets[t.bucketOf(words)] {
		if n := p.differs(words, grave, fewest); n < fewest {
			best, fewest = p, n
		}
	}
	if best == nil {
		return nil
	}
	for i, w := range words {
		switch {
		case best.words[i] == w:
		case sameWord(best.words[i], w):
			best.words[i] = maskNumber
		default:
			best.words[i] = maskAny
		}
	}
	t.remember(string(masked), best)
	t.recent.MoveToFront(best.element)
	return best
}

// add makes a pattern of a masked text.
func (t *tree) add(masked []byte) *pattern {
	if t.recent.Len() >= t.most {
		t.evict(t.recent.Back().Value.(*pattern))
	}
	words := splitWords(string(masked))
	p := &pattern{words: words, grave: complaining(words), bucket: t.bucketOf(words)}
	if b := t.buckets[p.bucket]; len(b) >= mostInBucket {
		t.evict(rarest(b))
	}
	t.buckets[p.bucket] = append(t.buckets[p.bucket], p)
	p.element = t.recent.PushFront(p)
	t.remember(string(masked), p)
	return p
}

// rarest returns the pattern of a bucket that has the fewest lines, of equal ones
// the first: a full bucket is a storm of ever new words, most of which come once.
func rarest(bucket []*pattern) *pattern {
	out := bucket[0]
	for _, p := range bucket[1:] {
		if p.count < out.count {
			out = p
		}
	}
	return out
}

func (t *tree) evict(p *pattern) {
	t.evicted++
	t.evictedLines += p.count
	t.recent.Remove(p.element)
	b := t.buckets[p.bucket]
	for i := range b {
		if b[i] == p {
			b = append(b[:i], b[i+1:]...)
			break
		}
	}
	if t.buckets[p.bucket] = b; len(b) == 0 {
		delete(t.buckets, p.bucket)
	}
	p.element = nil
}

// remember keeps an exact text, and forgets all of them when they are too many.
func (t *tree) remember(masked string, p *pattern) {
	if len(t.exact) >= t.most*mostVariants {
		clear(t.exact)
	}
	t.exact[masked] = p
}

func splitWords(masked string) []string {
	words := strings.Fields(masked)
	return words[:min(len(words), mostWords)]
}

func (t *tree) bucketOf(words []string) string {
	t.key.Reset()
	t.key.WriteByte(byte(len(words)))
	for _, w := range words[:min(depth, len(words))] {
		t.key.WriteByte(' ')
		if w == zero || strings.IndexByte(w, '<') >= 0 {
			w = maskAny
		}
		t.key.WriteString(w)
	}
	return t.key.String()
}

// differs counts the words of a text of the same length that are not those of the
// pattern, up to enough. A word that tells of a failure must not differ: what is
// refused and what is denied are two things.
func (p *pattern) differs(words []string, grave []bool, enough int) int {
	n := 0
	for i, w := range words {
		if sameWord(p.words[i], w) {
			continue
		}
		if n++; n >= enough || grave[i] || p.grave[i] {
			return enough
		}
	}
	return n
}

// zero is the one number that is no placeholder: "failed: 0" is no failure.
const zero = "0"

func sameWord(a, b string) bool {
	return a == b || a == zero && b == maskNumber || a == maskNumber && b == zero
}

// complaining tells which words tell of a failure.
func complaining(words []string) []bool {
	out := make([]bool, len(words))
	for i, w := range words {
		var j judgement
		j.judge([]byte(w))
		out[i] = j.weight >= ordinary
	}
	return out
}
