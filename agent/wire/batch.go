package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"crowsnest/matcher"
)

// Limits of a decoded batch. They prevent a small batch from expanding to a lot of memory.
const (
	maxRules  = 8192
	maxWants  = 256     // largest number of captured names of one rule, or of labels of one stream
	maxAll    = 1 << 17 // largest number of captured names of all rules, or of labels of all streams
	maxValues = 1 << 19 // largest number of values of all records in a batch
)

// Batch is a decoded batch of hits. It is immutable and owns its memory.
type Batch struct {
	rules   []ruleRef
	labels  []matcher.Labels
	records []record
	hits    []foldedHit
}

// ruleRef describes the sender's version of a rule.
type ruleRef struct {
	name, hash string
	wants      []string
}

// Len returns the number of hits.
func (b *Batch) Len() int { return len(b.hits) }

var errTruncated = errors.New("it is incomplete")

// Decoder decodes batches and reuses memory. The zero value is ready. It is not safe for concurrent use.
type Decoder struct {
	raw []byte
	in  io.ReadCloser
}

// Decode decodes a compressed batch. It returns an error if the bytes are not a valid batch.
// Apart from the decoded batch, it allocates at most maxRaw bytes.
func (d *Decoder) Decode(payload []byte) (*Batch, error) {
	if len(payload) > MaxPayload {
		return nil, fmt.Errorf("read batch: the compressed batch has %d bytes, at most %d are allowed", len(payload), MaxPayload)
	}
	if err := d.decompress(payload); err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	r := &reader{b: d.raw}
	out := r.readBatch()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d extra bytes follow it", len(r.b))
	}
	if r.err != nil {
		return nil, fmt.Errorf("read batch: %w", r.err)
	}
	return out, nil
}

func (d *Decoder) decompress(payload []byte) error {
	in := bytes.NewReader(payload)
	if d.in == nil {
		d.in = flate.NewReader(in)
	} else if err := d.in.(flate.Resetter).Reset(in, nil); err != nil {
		return err
	}
	d.raw = d.raw[:0]
	for {
		if len(d.raw) == cap(d.raw) {
			grown := make([]byte, len(d.raw), min(max(16<<10, 2*cap(d.raw)), maxRaw+1))
			copy(grown, d.raw)
			d.raw = grown
		}
		n, err := d.in.Read(d.raw[len(d.raw):cap(d.raw)])
		d.raw = d.raw[:len(d.raw)+n]
		switch {
		case len(d.raw) > maxRaw:
			return fmt.Errorf("it unpacks to more than %d bytes", maxRaw)
		case errors.Is(err, io.EOF) && in.Len() > 0:
			return fmt.Errorf("%d extra bytes follow it", in.Len())
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// reader decodes values from the start of b. After an error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err, r.b = err, nil
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) readBytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errTruncated)
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) readText(name string, limit uint64) string {
	n := r.uvarint()
	if n > limit {
		r.fail(fmt.Errorf("a %s has %d bytes, at most %d are allowed", name, n, limit))
		return ""
	}
	return string(r.readBytes(n))
}

// readCount reads the number of elements of a list. Each element takes at least one byte, so a
// number that exceeds the remaining bytes is refused before memory is allocated.
func (r *reader) readCount(name string, limit int) int {
	n := r.uvarint()
	if n > uint64(limit) || n > uint64(len(r.b)) {
		r.fail(fmt.Errorf("%d %s are more than there can be", n, name))
		return 0
	}
	return int(n)
}

func (r *reader) readIndex(name string, n int) int {
	i := r.uvarint()
	if i >= uint64(n) {
		r.fail(fmt.Errorf("there is no %s %d", name, i))
		return 0
	}
	return int(i)
}

func (r *reader) readBatch() *Batch {
	b := &Batch{}
	b.rules = make([]ruleRef, r.readCount("rules", maxRules))
	all := 0
	for i := range b.rules {
		x := ruleRef{name: r.readText("rule", maxValue), hash: r.readText("hash", maxValue)}
		x.wants = make([]string, r.readCount("names", min(maxWants, maxAll-all)))
		all += len(x.wants)
		for k := range x.wants {
			x.wants[k] = r.readText("name", maxValue)
		}
		b.rules[i] = x
	}
	b.labels = make([]matcher.Labels, r.readCount("streams", maxHits))
	all = 0
	for i := range b.labels {
		n := r.readCount("labels", min(maxWants, maxAll-all))
		all += n
		b.labels[i] = make(matcher.Labels, n)
		for range n {
			name := r.readText("label", maxValue)
			b.labels[i][name] = r.readText("label", maxValue)
		}
		if r.err == nil && len(b.labels[i]) < n {
			r.fail(errors.New("a stream has a label twice"))
		}
	}
	r.readRecords(b)
	r.readHits(b)
	return b
}

func (r *reader) readRecords(b *Batch) {
	b.records = make([]record, r.readCount("records", maxHits))
	all := 0
	for i := range b.records {
		if r.err != nil {
			return
		}
		x := record{rule: r.readIndex("rule", len(b.rules)), labels: r.readIndex("stream", len(b.labels))}
		x.part = matcher.PartClear + matcher.Part(r.readIndex("part", 1<<16))
		if r.err != nil {
			return
		}
		n := len(b.rules[x.rule].wants)
		if all += n; all > maxValues {
			r.fail(fmt.Errorf("the hits have more than %d values", maxValues))
			return
		}
		x.values = make([]string, n)
		for k := range x.values {
			x.values[k] = r.readText("value", maxValue)
		}
		b.records[i] = x
	}
}

// readHits reads the columns of hits. A hit without a text gets the text of an equivalent line of its record.
func (r *reader) readHits(b *Batch) {
	n := r.readCount("hits", maxHits)
	if uint64(n)*8 > uint64(len(r.b)) {
		r.fail(errTruncated)
		return
	}
	b.hits = make([]foldedHit, n)
	for i := range b.hits {
		b.hits[i].record = r.readIndex("record", len(b.records))
	}
	last := int64(0)
	for i := range b.hits {
		last += r.varint()
		b.hits[i].t = last
	}
	if r.err != nil {
		return
	}
	text, of, size := "", make([]string, len(b.records)), 0
	for i := range b.hits {
		h := &b.hits[i]
		switch kind := r.readBytes(1); {
		case r.err != nil:
			return
		case kind[0] == textOwn:
			text = r.readText("line", matcher.MaxLine)
			of[h.record], h.textWritten = text, true
		case kind[0] == textSame:
			of[h.record], h.textWritten = text, true
		case kind[0] != textNone:
			r.fail(fmt.Errorf("unknown kind of text %d", kind[0]))
			return
		}
		h.text = of[h.record]
		if h.textWritten {
			if size += len(h.text); size > maxRaw {
				r.fail(fmt.Errorf("the lines have more than %d bytes", maxRaw))
				return
			}
		}
	}
	for i := range b.hits {
		if id := r.readBytes(8); id != nil {
			b.hits[i].id = binary.LittleEndian.Uint64(id)
		}
	}
}

func timeOfNanos(ns int64) time.Time { return time.Unix(0, ns).UTC() }
