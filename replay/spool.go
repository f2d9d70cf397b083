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
// archive may have 200,000 inputs with hits, so not all hits fit into memory. A spool is safe
// for concurrent use, but each input in it is not.
type spool struct {
	file *os.File // has no name, so it disappears when the process ends

	mu    sync.Mutex
	size  int64
	rules []*rules.Rule
	index map[*rules.Rule]int // index of each rule in rules
}

// spoolPiece is the approximate size of the hits of one input that are encoded, written and
// read together, in bytes.
const spoolPiece = 16 << 10

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

// Close closes the file, which frees its disk space.
func (s *spool) Close() error { return s.file.Close() }

// piece is the position of some hits of one input in the file.
type piece struct{ at, size int64 }

func (s *spool) writePiece(data []byte) (piece, error) {
	s.mu.Lock()
	p := piece{s.size, int64(len(data))}
	s.size += p.size
	s.mu.Unlock()
	if _, err := s.file.WriteAt(data, p.at); err != nil {
		return piece{}, fmt.Errorf("store the matched lines of many inputs: %w; make room, or set TMPDIR to another folder", errors.Unwrap(err))
	}
	return p, nil
}

func (s *spool) ruleIndex(r *rules.Rule) int {
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

// appendHit appends an encoded hit. It omits the labels, because they are those of the input.
func (s *spool) appendHit(b []byte, h *matcher.Hit) []byte {
	b = binary.AppendUvarint(b, uint64(s.ruleIndex(h.Rule)))
	b = binary.AppendVarint(b, int64(h.Part))
	b = appendTime(b, h.Time)
	b = append(b, boolBit(h.TextTime)|boolBit(h.Untimed)<<1)
	b = binary.AppendVarint(b, int64(h.Moved))
	b = binary.AppendVarint(b, h.LineNumber)
	b = binary.AppendUvarint(b, h.ID)
	b = appendText(b, h.Line)
	b = binary.AppendUvarint(b, uint64(len(h.Values)))
	for _, v := range h.Values {
		b = appendText(b, v)
	}
	return b
}

func boolBit(set bool) byte {
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
	if err != nil { // no line of a log can state such a zone
		out, _ = t.UTC().AppendBinary(append(b, 0))
	}
	out[len(b)] = byte(len(out) - len(b) - 1)
	return out
}

// decoder decodes hits that appendHit encoded.
type decoder struct {
	data []byte
	text string // same bytes as a string, so that decoded texts can share its memory
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

func (s *spool) decodeHit(d *decoder, labels matcher.Labels) (matcher.Hit, error) {
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

// spooled supplies the hits of one input from a spool, in the order of its lines.
type spooled struct {
	in     *Input
	spool  *spool
	pieces []piece // pieces with hits that were not consumed yet
	taken  int     // number of consumed hits of the first piece
	hits   []matcher.Hit
}

// storeInput reads an input to its end and stores its hits. It returns nil if there are none.
func (s *spool) storeInput(in *Input, r *reader) (*spooled, error) {
	out := &spooled{in: in, spool: s}
	var buf []byte
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		p, err := s.writePiece(buf)
		out.pieces, buf = append(out.pieces, p), buf[:0]
		return err
	}
	for {
		ok, err := r.find()
		if !ok {
			if err = errors.Join(err, flush()); len(out.pieces) == 0 {
				return nil, err
			}
			return out, err
		}
		for _, h := range r.next(len(r.hits)) {
			if buf = s.appendHit(buf, &h); len(buf) >= spoolPiece {
				if err := flush(); err != nil {
					return nil, err
				}
			}
		}
	}
}

func (r *spooled) name() string { return r.in.Name }

func (r *spooled) found() []matcher.Hit { return r.hits }

func (r *spooled) next(n int) []matcher.Hit {
	out := r.hits[:n]
	if r.hits, r.taken = r.hits[n:], r.taken+n; len(r.hits) == 0 {
		r.pieces, r.taken = r.pieces[1:], 0
	}
	return out
}

func (r *spooled) park() { r.hits = nil }

func (r *spooled) find() (bool, error) {
	if len(r.hits) > 0 || len(r.pieces) == 0 {
		return len(r.hits) > 0, nil
	}
	data := make([]byte, r.pieces[0].size)
	_, err := r.spool.file.ReadAt(data, r.pieces[0].at)
	labels := matcher.NewStream(r.in.StreamLabels(), matcher.StreamOptions{}).Labels()
	for d := (decoder{data: data, text: string(data)}); err == nil && d.at < len(data); {
		var h matcher.Hit
		h, err = r.spool.decodeHit(&d, labels)
		r.hits = append(r.hits, h)
	}
	if err != nil {
		return false, fmt.Errorf("read the matched lines of %s: %w", r.in.Name, err)
	}
	r.hits = r.hits[r.taken:]
	return true, nil
}
