package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// spool keeps hits in a temporary file. The hits of many inputs are merged by time, and an
// archive may have 200,000 inputs with hits, so they cannot all be in memory. It is safe
// for concurrent use, except for its inputs.
type spool struct {
	file *os.File // has no name anymore, so it disappears with the process

	mu    sync.Mutex
	size  int64
	rules []*rules.Rule
	index map[*rules.Rule]int // position in rules

	batch []byte // memory for the hits that are read
}

const (
	// spoolBlock is how many bytes of one input are encoded before they are written.
	spoolBlock = 256 << 10
	// spoolBatch is how many bytes of one input are read at a time.
	spoolBatch = 16 << 10
	// spoolPrefix is the size of the number of bytes that stands before each hit.
	spoolPrefix = 4
)

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "crowsnest-hits-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("create a temporary file for the matched lines of many inputs: %w; set TMPDIR to a folder that can be written", err)
	}
	return &spool{file: f, index: map[*rules.Rule]int{}}, nil
}

// Close frees the disk space.
func (s *spool) Close() error { return s.file.Close() }

// piece is a part of the file with hits of one input.
type piece struct{ at, size int64 }

// write stores encoded hits.
func (s *spool) write(data []byte) (piece, error) {
	s.mu.Lock()
	p := piece{s.size, int64(len(data))}
	s.size += p.size
	s.mu.Unlock()
	if _, err := s.file.WriteAt(data, p.at); err != nil {
		return piece{}, fmt.Errorf("store the matched lines of many inputs: %w; make room, or set TMPDIR to another folder", errors.Unwrap(err))
	}
	return p, nil
}

func (s *spool) indexOf(r *rules.Rule) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.index[r]
	if !ok {
		i = len(s.rules)
		s.index[r] = i
		s.rules = append(s.rules, r)
	}
	return i
}

// encode appends a hit without its labels, which are those of its input.
func (s *spool) encode(b []byte, h *matcher.Hit) []byte {
	start := len(b)
	b = append(b, make([]byte, spoolPrefix)...)
	b = binary.AppendUvarint(b, uint64(s.indexOf(h.Rule)))
	b = binary.AppendVarint(b, int64(h.Part))
	b = appendTime(b, h.Time)
	b = append(b, bit(h.TextTime)|bit(h.Untimed)<<1)
	b = binary.AppendVarint(b, int64(h.Moved))
	b = binary.AppendVarint(b, h.LineNumber)
	b = binary.AppendUvarint(b, h.ID)
	b = appendText(b, h.Line)
	b = binary.AppendUvarint(b, uint64(len(h.Values)))
	for _, v := range h.Values {
		b = appendText(b, v)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	out, err := t.AppendBinary(append(b, 0))
	if err != nil { // a zone that no line of a log can state
		out, _ = t.UTC().AppendBinary(append(b, 0))
	}
	out[len(b)] = byte(len(out) - len(b) - 1)
	return out
}

// decoder reads what encode wrote.
type decoder struct {
	data []byte
	text string // the same bytes, of which the decoded texts are parts
	at   int
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data[d.at:])
	d.at += n
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.data[d.at:])
	d.at += n
	return v
}

func (d *decoder) bytes(n int) []byte {
	d.at += n
	return d.data[d.at-n : d.at]
}

func (d *decoder) string() string {
	n := int(d.uvarint())
	d.at += n
	return d.text[d.at-n : d.at]
}

func (s *spool) decode(d *decoder, labels matcher.Labels) (matcher.Hit, error) {
	d.at += spoolPrefix
	h := matcher.Hit{Rule: s.rules[d.uvarint()], Part: matcher.Part(d.varint()), Labels: labels}
	err := h.Time.UnmarshalBinary(d.bytes(int(d.bytes(1)[0])))
	flags := d.bytes(1)[0]
	h.TextTime, h.Untimed = flags&1 != 0, flags&2 != 0
	h.Moved = time.Duration(d.varint())
	h.LineNumber, h.ID, h.Line = d.varint(), d.uvarint(), d.string()
	if n := d.uvarint(); n > 0 {
		h.Values = make([]string, n)
	}
	for i := range h.Values {
		h.Values[i] = d.string()
	}
	return h, err
}

// spooled is the hits of one input in a spool, in the order of its lines.
type spooled struct {
	in     *Input
	spool  *spool
	pieces []piece // pieces that were not returned yet
	hits   []matcher.Hit
	sizes  []int64 // encoded sizes of the hits in the file
}

// store reads an input to its end and returns its hits, nil if it has none.
func (s *spool) store(in *Input, r *reader) (*spooled, error) {
	out := &spooled{in: in, spool: s}
	var buf []byte
	flush := func() error {
		p, err := s.write(buf)
		out.pieces, buf = append(out.pieces, p), buf[:0]
		return err
	}
	for {
		ok, err := r.find()
		if ok {
			for _, h := range r.next(len(r.hits)) {
				if buf = s.encode(buf, &h); len(buf) >= spoolBlock {
					if err := flush(); err != nil {
						return nil, err
					}
				}
			}
			continue
		}
		if len(buf) > 0 {
			err = errors.Join(err, flush())
		}
		if len(out.pieces) == 0 {
			return nil, err
		}
		return out, err
	}
}

func (r *spooled) name() string { return r.in.Name }

func (r *spooled) found() []matcher.Hit { return r.hits }

func (r *spooled) next(n int) []matcher.Hit {
	out := r.hits[:n]
	for _, size := range r.sizes[:n] {
		r.pieces[0].at += size
		r.pieces[0].size -= size
	}
	r.hits, r.sizes = r.hits[n:], r.sizes[n:]
	return out
}

func (r *spooled) park() { r.hits, r.sizes = nil, nil }

func (r *spooled) find() (bool, error) {
	if len(r.hits) > 0 {
		return true, nil
	}
	if len(r.pieces) > 0 && r.pieces[0].size == 0 {
		r.pieces = r.pieces[1:]
	}
	if len(r.pieces) == 0 {
		return false, nil
	}
	if err := r.load(); err != nil {
		return false, fmt.Errorf("read the matched lines of %s: %w", r.in.Name, err)
	}
	return true, nil
}

// load decodes the next hits.
func (r *spooled) load() error {
	s, p := r.spool, r.pieces[0]
	data, err := s.read(p, spoolBatch)
	if err != nil {
		return err
	}
	if first := int(binary.LittleEndian.Uint32(data)); first > len(data) {
		if data, err = s.read(p, first); err != nil {
			return err
		}
	}
	labels := matcher.NewStream(r.in.StreamLabels(), matcher.StreamOptions{}).Labels()
	for d := (decoder{data: data, text: string(data)}); d.at+spoolPrefix <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[d.at:]))
		if d.at+size > len(data) {
			break
		}
		h, err := s.decode(&d, labels)
		if err != nil {
			return err
		}
		r.hits, r.sizes = append(r.hits, h), append(r.sizes, int64(size))
	}
	return nil
}

// read returns the beginning of a piece, at most n bytes. It is valid until the next call.
func (s *spool) read(p piece, n int) ([]byte, error) {
	n = min(n, int(p.size))
	if cap(s.batch) < n {
		s.batch = make([]byte, n)
	}
	data := s.batch[:n]
	_, err := s.file.ReadAt(data, p.at)
	return data, err
}
