package discover

import (
	"container/list"
	"strings"
	"time"
)

// Constants of the miner.
const (
	// depth is how many words select the bucket of a message, together with the
	// number of words. Loggers put what happened first and what varies later;
	// placeholders have already replaced early variables.
	depth = 3
	// similarity is the minimum share of equal words of two messages of the same
	// pattern. Drain's 0.4 is for raw lines; here placeholders have made numbers
	// and names equal, so different words mostly indicate another failure.
	similarity = 0.7
	// maxWords bounds a message and its error; the rest is dropped.
	maxWords = 80
	// maxInBucket bounds the comparisons per line.
	maxInBucket = 64
	// maxVariants bounds the cached exact texts, per pattern on average. The
	// cache saves comparisons.
	maxVariants = 4
	// maxStreams bounds the streams that a pattern distinguishes.
	maxStreams = 64
)

// defaultPatterns is the default maximum of patterns in memory: far more than
// anybody reads, and some 35 MB at worst.
const defaultPatterns = 5000

// errorSeparator separates the message from its error in the words of a pattern.
const errorSeparator = "\x1f"

// pattern is a shape of messages and its statistics.
type pattern struct {
	words   []string
	severe  []bool // which words indicate a failure
	bucket  string
	element *list.Element

	judgement judgement
	level     Level
	count     int64
	idling    int64 // lines that only report a wait
	times     int64 // highest count that an event states
	streams   []int // stream numbers, in order of first occurrence; at most maxStreams
	first     time.Time
	last      time.Time
	spread    spread
	place     place
	repeats   repeats
	example   example
}

// example is the first line of a pattern.
type example struct {
	line    string
	reading parsedLine
	input   string
	number  int64
	labels  map[string]string
	module  string // module of the program
}

// tree is a flat form of Drain's tree. The number of words and the first words
// select a bucket; in it, the most similar pattern accepts a message, or a new one is
// created. The tree evicts the least recently used pattern.
type tree struct {
	most    int
	buckets map[string][]*pattern
	exact   map[string]*pattern // patterns by masked text
	recent  *list.List          // list of *pattern, the newest first

	evicted      int64
	evictedLines int64

	key strings.Builder
}

func newTree(most int) *tree {
	return &tree{most: most, buckets: map[string][]*pattern{}, exact: map[string]*pattern{}, recent: list.New()}
}

// find returns the pattern for a masked text, nil if none is similar: the caller
// then calls add.
func (t *tree) find(masked []byte) *pattern {
	if p := t.exact[string(masked)]; p != nil && p.element != nil {
		t.recent.MoveToFront(p.element)
		return p
	}
	words := splitWords(string(masked))
	severe := complaining(words)
	var best *pattern
	fewest := int(float64(len(words))*(1-similarity)) + 1 // words that differ
	for _, p := range t.buckets[t.bucketOf(words)] {
		if n := p.differs(words, severe, fewest); n < fewest {
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

func (t *tree) add(masked []byte) *pattern {
	if t.recent.Len() >= t.most {
		t.evict(t.recent.Back().Value.(*pattern))
	}
	words := splitWords(string(masked))
	p := &pattern{words: words, severe: complaining(words), bucket: t.bucketOf(words)}
	if b := t.buckets[p.bucket]; len(b) >= maxInBucket {
		t.evict(rarest(b))
	}
	t.buckets[p.bucket] = append(t.buckets[p.bucket], p)
	p.element = t.recent.PushFront(p)
	t.remember(string(masked), p)
	return p
}

// rarest returns the pattern of a bucket with the fewest lines, the first of equals:
// a full bucket means a storm of new words, most of which occur once.
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

// remember caches an exact text, and clears the cache when it is full.
func (t *tree) remember(masked string, p *pattern) {
	if len(t.exact) >= t.most*maxVariants {
		clear(t.exact)
	}
	t.exact[masked] = p
}

func splitWords(masked string) []string {
	words := strings.Fields(masked)
	return words[:min(len(words), maxWords)]
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

// differs counts the words in which a text of the same length differs from the
// pattern, up to enough. A word that indicates a failure must be equal: refused and
// denied are different failures.
func (p *pattern) differs(words []string, severe []bool, enough int) int {
	n := 0
	for i, w := range words {
		if sameWord(p.words[i], w) {
			continue
		}
		if n++; n >= enough || severe[i] || p.severe[i] {
			return enough
		}
	}
	return n
}

// zero is the one number without a placeholder: "failed: 0" is not a failure.
const zero = "0"

func sameWord(a, b string) bool {
	return a == b || a == zero && b == maskNumber || a == maskNumber && b == zero
}

// complaining reports for each word whether it indicates a failure.
func complaining(words []string) []bool {
	out := make([]bool, len(words))
	for i, w := range words {
		var j judgement
		j.judge([]byte(w))
		out[i] = j.weight >= ordinary
	}
	return out
}
