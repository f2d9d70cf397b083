package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Limits of a batch while it is built.
const (
	// MaxPayload is the largest size of a compressed batch in bytes. maxRaw is the largest size of its content.
	MaxPayload = 1 << 20
	maxRaw     = 8 << 20
	maxHits    = 1 << 16 // largest number of hits in a batch

	fullAt       = 384 << 10 // size at which a builder is full, in bytes; one more hit always fits
	fullHits     = maxHits / 2
	maxValue     = 8 << 10   // largest size of a value in bytes, of which the engine keeps 1 KiB
	maxHitValues = 128 << 10 // largest size of all values of one hit, in bytes
	maxTexts     = 32        // largest number of hits with the same values that keep the text of their line, besides the newest
)

// Builder combines hits into a batch. The zero value is empty and ready. It is not safe for
// concurrent use. It retains the lines and values of the hits until Seal.
type Builder struct {
	// FullTextRules contains the names of the rules for which every line keeps its text. The aggregator needs the
	// texts, because it has another version of these rules and evaluates the lines itself. Builder only reads the map,
	// and Seal does not clear it.
	FullTextRules map[string]bool

	rules   []*rules.Rule
	labels  []matcher.Labels
	records []*record
	hits    []foldedHit
	size    int // upper estimate of the size before compression, in bytes

	ruleAt       map[*rules.Rule]int // index of a rule in rules
	mapAt        map[uintptr]int     // index of a label map in labels; the key is the address of the map
	retainedMaps []matcher.Labels    // label maps that are retained, so that no other map gets their address
	labelsAt     map[string]int      // index of labels in labels; the key is the encoded labels
	recordAt     map[string]int      // index of a record in records; the key is the encoded record

	key []byte
	raw []byte
	out *flate.Writer
}

// record holds the values that several hits share.
type record struct {
	rule, labels int
	part         matcher.Part
	values       []string
	lines        int
	newest       int // index of the newest hit of the record
}

// foldedHit is one hit of a batch. Its other values are in its record.
type foldedHit struct {
	record int
	t      int64 // time in nanoseconds since 1970
	id     uint64
	text   string
	// textWritten is set if the batch contains the line's text. Otherwise the text of an equivalent line is used.
	textWritten bool
}

// Len returns the number of hits.
func (b *Builder) Len() int { return len(b.hits) }

// Size returns an estimate of the bytes that the hits take before compression.
func (b *Builder) Size() int { return b.size }

// IsFull reports whether the batch should be sealed before another hit is added.
func (b *Builder) IsFull() bool { return b.size >= fullAt || len(b.hits) >= fullHits }

// Add adds a hit. It copies the texts that it keeps, so the caller may reuse the memory of the hit's texts.
func (b *Builder) Add(h *matcher.Hit) {
	if b.recordAt == nil {
		b.ruleAt, b.mapAt, b.labelsAt, b.recordAt = map[*rules.Rule]int{}, map[uintptr]int{}, map[string]int{}, map[string]int{}
	}
	at := b.recordIndex(h)
	r := b.records[at]
	if r.lines > min(maxTexts, max(1, h.Rule.Count)) && !b.FullTextRules[h.Rule.Alert] {
		old := &b.hits[r.newest]
		b.size -= len(old.text)
		old.text, old.textWritten = "", false
	}
	r.lines, r.newest = r.lines+1, len(b.hits)
	b.hits = append(b.hits, foldedHit{record: at, t: clampNanos(h.Time), id: h.ID, text: strings.Clone(h.Line), textWritten: true})
	b.size += 28 + len(h.Line)
}

func (b *Builder) recordIndex(h *matcher.Hit) int {
	rule, labels := b.ruleIndex(h.Rule), b.labelsIndex(h.Labels)
	k := binary.AppendUvarint(b.key[:0], uint64(rule))
	k = binary.AppendUvarint(k, uint64(labels))
	k = binary.AppendVarint(k, int64(h.Part))
	limit := min(maxValue, maxHitValues/max(1, len(h.Rule.CapturedNames)))
	for i := range h.Rule.CapturedNames {
		k = appendString(k, truncatedValue(h, i, limit))
	}
	b.key = k
	if at, ok := b.recordAt[string(k)]; ok {
		return at
	}
	r := &record{rule: rule, labels: labels, part: h.Part, values: make([]string, len(h.Rule.CapturedNames))}
	for i := range r.values {
		r.values[i] = strings.Clone(truncatedValue(h, i, limit))
	}
	b.recordAt[string(k)] = len(b.records)
	b.records = append(b.records, r)
	b.size += len(k) + 8
	return len(b.records) - 1
}

// truncatedValue returns the i-th value of a hit, truncated to limit bytes.
func truncatedValue(h *matcher.Hit, i, limit int) string {
	if i >= len(h.Values) {
		return ""
	}
	return h.Values[i][:min(limit, len(h.Values[i]))]
}

func (b *Builder) ruleIndex(r *rules.Rule) int {
	at, ok := b.ruleAt[r]
	if !ok {
		at = len(b.rules)
		b.ruleAt[r] = at
		b.rules = append(b.rules, r)
		b.size += len(r.Alert) + len(r.Hash) + 8
		for _, name := range r.CapturedNames {
			b.size += len(name) + 2
		}
	}
	return at
}

// labelsIndex returns the index of labels. It looks them up by the address of the map, which
// all hits of a stream share, and then by content.
func (b *Builder) labelsIndex(l matcher.Labels) int {
	p := reflect.ValueOf(l).Pointer()
	if at, ok := b.mapAt[p]; ok {
		return at
	}
	b.retainedMaps = append(b.retainedMaps, l)
	k := b.key[:0]
	for _, name := range slices.Sorted(maps.Keys(l)) {
		k = appendString(appendString(k, name), l[name])
	}
	b.key = k
	at, ok := b.labelsAt[string(k)]
	if !ok {
		at = len(b.labels)
		b.labels = append(b.labels, l)
		b.labelsAt[string(k)] = at
		b.size += len(k) + 4
	}
	b.mapAt[p] = at
	return at
}

// Seal returns the compressed batch, or nil if the builder is empty. It empties the builder.
func (b *Builder) Seal() []byte {
	if len(b.hits) == 0 {
		return nil
	}
	b.raw = b.encode(b.raw[:0])
	var out bytes.Buffer
	out.Grow(len(b.raw)/3 + 64)
	if b.out == nil {
		// There are no errors, because the level is valid and writes to a Buffer succeed.
		b.out, _ = flate.NewWriter(&out, flate.BestSpeed)
	} else {
		b.out.Reset(&out)
	}
	_, _ = b.out.Write(b.raw)
	_ = b.out.Close()
	*b = Builder{FullTextRules: b.FullTextRules, key: b.key[:0], raw: b.raw[:0], out: b.out, hits: b.hits[:0]}
	clear(b.hits[:cap(b.hits)]) // releases the memory of the lines
	return slices.Clip(out.Bytes())
}

// EmptyBatch returns a sealed batch without hits.
func EmptyBatch() []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestSpeed) // there are no errors, see Seal
	_, _ = w.Write(make([]byte, 4))
	_ = w.Close()
	return out.Bytes()
}

// encode writes the tables, followed by one column for each field of the hits. Similar values
// compress best side by side.
func (b *Builder) encode(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(b.rules)))
	for _, r := range b.rules {
		out = appendString(appendString(out, r.Alert), r.Hash)
		out = binary.AppendUvarint(out, uint64(len(r.CapturedNames)))
		for _, name := range r.CapturedNames {
			out = appendString(out, name)
		}
	}
	out = binary.AppendUvarint(out, uint64(len(b.labels)))
	for _, l := range b.labels {
		out = binary.AppendUvarint(out, uint64(len(l)))
		for _, name := range slices.Sorted(maps.Keys(l)) {
			out = appendString(appendString(out, name), l[name])
		}
	}
	out = binary.AppendUvarint(out, uint64(len(b.records)))
	for _, r := range b.records {
		out = binary.AppendUvarint(out, uint64(r.rule))
		out = binary.AppendUvarint(out, uint64(r.labels))
		out = binary.AppendUvarint(out, uint64(r.part-matcher.PartClear))
		for _, v := range r.values {
			out = appendString(out, v)
		}
	}
	return b.encodeHits(out)
}

// Encodings of the text of a hit.
const (
	textNone = iota // the text is equivalent to the text of another line of the record
	textSame        // the text equals the text of the previous hit, because a line can match several rules
	textOwn
)

func (b *Builder) encodeHits(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(b.hits)))
	for _, h := range b.hits {
		out = binary.AppendUvarint(out, uint64(h.record))
	}
	last := int64(0)
	for _, h := range b.hits {
		// The difference may overflow. Adding it back overflows in the same way.
		out = binary.AppendVarint(out, h.t-last)
		last = h.t
	}
	text, any := "", false
	for _, h := range b.hits {
		switch {
		case !h.textWritten:
			out = append(out, textNone)
		case any && h.text == text:
			out = append(out, textSame)
		default:
			out = appendString(append(out, textOwn), h.text)
			text, any = h.text, true
		}
	}
	for _, h := range b.hits {
		out = binary.LittleEndian.AppendUint64(out, h.id)
	}
	return out
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// clampNanos converts a time to nanoseconds since 1970. It clamps the time to the range that the engine uses.
func clampNanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1970:
		return 0
	case y > 2200:
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}
