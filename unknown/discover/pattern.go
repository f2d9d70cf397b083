package discover

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
)

const (
	// defaultPatterns is the default maximum of patterns in memory. It is far more than people
	// will read.
	defaultPatterns = 5000
	// shapeWords is the number of leading words that must be equal before two patterns are
	// compared. Their numbers of words must be equal, too. A message usually states the event
	// first and the parts that vary later. Placeholders have already replaced parts that vary
	// early.
	shapeWords = 3
	// similarity is the minimum share of equal words in two messages of the same pattern. The
	// algorithm Drain uses 0.4 for raw lines. Here placeholders have already made numbers and
	// names equal, so different words mostly indicate different failures.
	similarity  = 0.7
	maxWords    = 80 // largest number of words of a message that are compared
	maxCompared = 64 // largest number of patterns with which one pattern is compared
	maxStreams  = 64 // largest number of streams that are counted separately for one pattern
)

// errorSeparator separates the message from its error in the words of a pattern.
const errorSeparator = "\x1f"

// pattern stands for the complaints that have the same words apart from placeholders, with
// statistics. Its texts and its place come from the first line.
type pattern struct {
	Complaint
	template, err redact.Text
	harmless      bool   // whether the lines only say that a client disconnected
	module        string // module of the program that wrote the lines
	input         string
	number        int64
	labels        matcher.Labels

	timespan
	count    int64
	waiting  int64   // number of lines that only report a wait
	streams  []int   // numbers of the streams, in order of first occurrence; at most maxStreams
	periods  windows // spans of time that contain a line
	home     *component
	position positions
	spells   spells
	used     int64 // number of lines of all patterns that were counted before its newest line
}

func (p *pattern) words() []string {
	text := string(p.template)
	if p.err != "" {
		text += " " + errorSeparator + " " + string(p.err)
	}
	words := strings.Fields(text)
	return words[:min(len(words), maxWords)]
}

func (p *pattern) add(o *pattern) {
	p.Level, p.Words = max(p.Level, o.Level), max(p.Words, o.Words)
	p.count += o.count
	p.waiting += o.waiting
	p.used = max(p.used, o.used)
	for _, s := range o.streams {
		p.seenIn(s)
	}
	p.timespan.add(o.timespan)
	if p.home == o.home {
		p.position.add(&o.position)
	}
	p.periods.count = max(p.periods.count, o.periods.count)
	p.spells.add(&o.spells)
}

func (p *pattern) seenIn(stream int) {
	if len(p.streams) < maxStreams && !slices.Contains(p.streams, stream) {
		p.streams = append(p.streams, stream)
	}
}

// stuck reports whether the message repeats for so long that something is stuck.
func (p *pattern) stuck() bool {
	return p.spells.longest >= stuckAfter || p.first.IsZero() && p.spells.mostLines >= stuckCount
}

// idle reports whether the pattern is no failure. Either its lines only report a wait that is
// not long, or they only say that a client disconnected.
func (p *pattern) idle() bool { return p.harmless || p.waiting == p.count && !p.stuck() }

func (p *pattern) passes() bool {
	return p.Passes || !p.stuck() && (p.Retries || p.Awaits && p.Words == 0)
}

// waitedLong reports whether the lines report a wait, and repeat for so long that something is
// stuck.
func (p *pattern) waitedLong() bool { return p.Awaits && p.Words < int(ordinary) && p.stuck() }

// severity returns the severity of the words. A long wait counts as a failure.
func (p *pattern) severity() int {
	if p.waitedLong() {
		return max(p.Words, int(ordinary))
	}
	return p.Words
}

type patterns struct {
	limit int
	byKey map[uint64]*pattern // patterns by key; several keys may refer to the same pattern

	evicted, evictedLines int64
}

// all returns the patterns in the order of their first lines.
func (x *patterns) all() (out []*pattern) {
	seen := map[*pattern]bool{}
	for _, p := range x.byKey {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pattern) int {
		return cmp.Or(strings.Compare(a.input, b.input), cmp.Compare(a.number, b.number), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// add adds a pattern. If there is no room, it first joins similar patterns and then drops the
// patterns whose newest line was read the longest time ago.
func (x *patterns) add(key uint64, p *pattern) {
	if len(x.byKey) >= x.limit {
		kept := x.join()
		slices.SortFunc(kept, func(a, b *pattern) int { return cmp.Compare(b.used, a.used) })
		most := x.limit / 2
		for _, p := range kept[min(len(kept), most):] {
			x.evicted++
			x.evictedLines += p.count
		}
		clear(x.byKey)
		for _, p := range kept[:min(len(kept), most)] {
			x.byKey[p.Key] = p
		}
	}
	x.byKey[key] = p
}

// join joins the patterns that differ in few words. It returns the remaining patterns.
func (x *patterns) join() (out []*pattern) {
	type shape struct {
		words  []string
		severe []bool
		p      *pattern
	}
	buckets := map[string][]shape{}
	into := map[*pattern]*pattern{}
next:
	for _, p := range x.all() {
		words := p.words()
		s := shape{words, complaintWords(words), p}
		key := bucketOf(words)
		bucket := buckets[key]
		for i := range bucket[:min(len(bucket), maxCompared)] {
			if o := &bucket[i]; differs(o.words, words, o.severe, s.severe) {
				continue
			} else if p != o.p {
				o.p.vary(o.words, words)
				o.p.add(p)
				into[p] = o.p
			}
			continue next
		}
		buckets[key] = append(bucket, s)
		out = append(out, p)
	}
	for key, p := range x.byKey {
		if o := into[p]; o != nil {
			x.byKey[key] = o
		}
	}
	return out
}

// vary replaces a word of the pattern by a placeholder if it differs from the word at the same
// position in others.
func (p *pattern) vary(words, others []string) {
	for i := range words {
		if words[i] != others[i] {
			words[i] = maskAny
		}
	}
	message, err, _ := strings.Cut(strings.Join(words, " "), errorSeparator)
	p.template = p.template.Map(func(string) string { return strings.TrimSpace(message) })
	p.err = p.err.Map(func(string) string { return strings.TrimSpace(err) })
}

// bucketOf returns a key of a message. Messages with different keys never belong to the same
// pattern.
func bucketOf(words []string) string {
	key := []byte{byte(len(words))}
	for _, w := range words[:min(shapeWords, len(words))] {
		if strings.IndexByte(w, '<') >= 0 {
			w = maskAny
		}
		key = append(append(key, ' '), w...)
	}
	return string(key)
}

// differs reports whether two texts with the same number of words report different failures.
// Words that indicate a failure must be equal in both texts, because "refused" and "denied"
// are different failures.
func differs(a, b []string, severeA, severeB []bool) bool {
	most := int(float64(len(a)) * (1 - similarity))
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if most--; most < 0 || severeA[i] || severeB[i] {
			return true
		}
	}
	return false
}

// zero is the only number that is not replaced by a placeholder, because "failed: 0" does not
// report a failure.
const zero = "0"

// complaintWords reports, for each word, whether it indicates a failure.
func complaintWords(words []string) []bool {
	out := make([]bool, len(words))
	for i, w := range words {
		var j judgement
		j.judge([]byte(w))
		out[i] = j.weight >= ordinary
	}
	return out
}

// Limits of repetition.
const (
	stuckAfter = 10 * time.Minute // time for which a message must repeat to show that something is stuck
	// maxSilence is the longest pause within a spell. After a longer pause, rules consider the
	// failure resolved.
	maxSilence = 15 * time.Minute
	// stuckCount is the number of repetitions that show that something is stuck if the
	// messages have no timestamps.
	stuckCount = 10
	maxSpells  = 16 // largest number of objects that are tracked for one pattern at the same time
)

// spells measures the time for which a message repeats for the same object. A hundred clusters
// that wait for a minute each are harmless, but one cluster that waits for an hour is not.
type spells struct {
	all       []spell // spells in progress, at most maxSpells, in any order
	longest   time.Duration
	mostLines int // number of lines of the longest spell
}

// spell is an uninterrupted repetition of a message for one object.
type spell struct {
	timespan
	object uint64 // hash of the object
	count  int
}

// count counts a line about an object. t is zero for a line without a timestamp. A spell in
// progress is not displaced by other objects.
func (x *spells) count(object uint64, t time.Time) {
	k := slices.IndexFunc(x.all, func(s spell) bool { return s.object == object })
	switch {
	case k >= 0:
	case len(x.all) < maxSpells:
		k = len(x.all)
		x.all = append(x.all, spell{object: object, timespan: timespan{t, t}})
	default:
		if k = slices.IndexFunc(x.all, func(s spell) bool { return t.Sub(s.last) > maxSilence }); k < 0 {
			return
		}
		x.all[k] = spell{object: object, timespan: timespan{t, t}}
	}
	s := &x.all[k]
	if t.Sub(s.last).Abs() > maxSilence {
		s.timespan, s.count = timespan{t, t}, 0
	}
	s.count++
	s.extend(t)
	x.mostLines = max(x.mostLines, s.count)
	x.longest = max(x.longest, s.last.Sub(s.first))
}

func (x *spells) add(o *spells) {
	x.longest, x.mostLines = max(x.longest, o.longest), max(x.mostLines, o.mostLines)
}

// id returns the ID of a pattern, which is equal in all runs.
func (p *pattern) id() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(p.words(), " "))) // writing to a hash never fails
	return h.Sum64()
}
