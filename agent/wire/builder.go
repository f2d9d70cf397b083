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

// Limits of a batch.
const (
	// MaxPayload is the maximum size of a compressed batch, maxRaw of its content.
	MaxPayload = 1 << 20
	maxRaw     = 8 << 20
	// maxHits is the maximum number of hits in a batch.
	maxHits = 1 << 16

	fullAt       = 384 << 10 // bytes at which a builder is full, so that one more hit always fits
	fullHits     = maxHits / 2
	maxValue     = 8 << 10   // bytes of a value, of which the engine keeps 1 KiB
	maxHitValues = 128 << 10 // bytes of the values of one hit
	maxTexts     = 32        // lines of a record that keep their text, besides the newest
)

// Builder folds hits into a batch. The zero value is empty and ready. It is not safe for
// concurrent use, and retains the lines and values of the hits until Seal.
type Builder struct {
	// Whole names the rules for which every line keeps its text, because the aggregator has
	// another version and evaluates the lines itself. Builder only reads it; Seal does
	// not clear it.
	Whole map[string]bool

	rules   []*rules.Rule
	labels  []matcher.Labels
	records []*record
	hits    []folded
	size    int // upper estimate of the bytes before compression

	ruleAt   map[*rules.Rule]int // index in rules
	mapAt    map[uintptr]int     // index in labels by the address of the map
	kept     []matcher.Labels    // label maps that are retained, so that no other gets their address
	labelsAt map[string]int      // index in labels by content
	recordAt map[string]int      // index in records by content

	key []byte
	raw []byte
	out *flate.Writer
}

// record holds the values that equal hits share.
type record struct {
	rule, labels int
	part         matcher.Part
	values       []string
	lines        int
	newest       int // index of the last hit
}

// folded is one hit.
type folded struct {
	record      int
	t           int64 // nanoseconds since 1970
	id          uint64
	text        string
	textWritten bool // The batch contains this text. Otherwise it is the one of an equivalent line.
}

// Len returns the number of hits.
func (b *Builder) Len() int { return len(b.hits) }

// Size estimates how many bytes the hits take before compression.
func (b *Builder) Size() int { return b.size }

// Full reports whether the batch should be sealed before another hit is added.
func (b *Builder) Full() bool { return b.size >= fullAt || len(b.hits) >= fullHits }

// Add appends a hit. It copies what it keeps: the caller may reuse the memory of the
// hit's texts.
func (b *Builder) Add(h *matcher.Hit) {
	if b.recordAt == nil {
		b.ruleAt, b.mapAt, b.labelsAt, b.recordAt = map[*rules.Rule]int{}, map[uintptr]int{}, map[string]int{}, map[string]int{}
	}
	at := b.recordIndex(h)
	r := b.records[at]
	if r.lines > min(maxTexts, max(1, h.Rule.Count)) && !b.Whole[h.Rule.Alert] {
		old := &b.hits[r.newest]
		b.size -= len(old.text)
		old.text, old.textWritten = "", false
	}
	r.lines, r.newest = r.lines+1, len(b.hits)
	b.hits = append(b.hits, folded{record: at, t: nanos(h.Time), id: h.ID, text: strings.Clone(h.Line), textWritten: true})
	b.size += 28 + len(h.Line)
}

// recordIndex returns the record of a hit, and adds it if there is none.
func (b *Builder) recordIndex(h *matcher.Hit) int {
	rule, labels := b.ruleIndex(h.Rule), b.labelsIndex(h.Labels)
	k := binary.AppendUvarint(b.key[:0], uint64(rule))
	k = binary.AppendUvarint(k, uint64(labels))
	k = binary.AppendVarint(k, int64(h.Part))
	limit := min(maxValue, maxHitValues/max(1, len(h.Rule.CapturedNames)))
	for i := range h.Rule.CapturedNames {
		k = appendString(k, value(h, i, limit))
	}
	b.key = k
	if at, ok := b.recordAt[string(k)]; ok {
		return at
	}
	r := &record{rule: rule, labels: labels, part: h.Part, values: make([]string, len(h.Rule.CapturedNames))}
	for i := range r.values {
		r.values[i] = strings.Clone(value(h, i, limit))
	}
	b.recordAt[string(k)] = len(b.records)
	b.records = append(b.records, r)
	b.size += len(k) + 8
	return len(b.records) - 1
}

// value returns the i-th value of a hit, truncated to limit bytes.
func value(h *matcher.Hit, i, limit int) string {
	if i >= len(h.Values) {
		return ""
	}
	return h.Values[i][:min(limit, len(h.Values[i]))]
}

// ruleIndex returns the index of a rule, and adds it if it is new.
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

// labelsIndex returns the index of labels. It looks them up by the address of the map,
// which the hits of a stream share, and else by content.
func (b *Builder) labelsIndex(l matcher.Labels) int {
	p := reflect.ValueOf(l).Pointer()
	if at, ok := b.mapAt[p]; ok {
		return at
	}
	b.kept = append(b.kept, l)
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

// Seal returns the compressed batch and empties the builder. It returns nil if the
// builder is empty.
func (b *Builder) Seal() []byte {
	if len(b.hits) == 0 {
		return nil
	}
	b.raw = b.encode(b.raw[:0])
	var out bytes.Buffer
	out.Grow(len(b.raw)/3 + 64)
	if b.out == nil {
		// No errors: the level is valid, and writes to a Buffer succeed.
		b.out, _ = flate.NewWriter(&out, flate.BestSpeed)
	} else {
		b.out.Reset(&out)
	}
	_, _ = b.out.Write(b.raw)
	_ = b.out.Close()
	*b = Builder{Whole: b.Whole, key: b.key[:0], raw: b.raw[:0], out: b.out, hits: b.hits[:0]}
	clear(b.hits[:cap(b.hits)]) // do not retain the lines
	return slices.Clip(out.Bytes())
}

// EmptyBatch returns a sealed batch without hits.
func EmptyBatch() []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestSpeed) // no errors, as in Seal
	_, _ = w.Write(make([]byte, 4))
	_ = w.Close()
	return out.Bytes()
}

// encode writes the tables, then one column per field of the hits: similar values side
// by side compress best.
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
	textNone = iota // equivalent to the text of another line of its record
	textSame        // equal to the last text: a line can match several rules
	textOwn
)

func (b *Builder) encodeHits(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(b.hits)))
	for _, h := range b.hits {
		out = binary.AppendUvarint(out, uint64(h.record))
	}
	last := int64(0)
	for _, h := range b.hits {
		out = binary.AppendVarint(out, h.t-last) // may overflow; decoding reverses it
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

// nanos converts a time to nanoseconds since 1970, clamped like in the engine.
func nanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1970:
		return 0
	case y > 2200:
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}
