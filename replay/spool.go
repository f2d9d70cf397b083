package replay

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"crowsnest/internal/codec"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// spool stores hits in a temporary file. The hits of many inputs are merged by time, and an archive may have 200,000
// inputs with hits, so not all hits fit into memory. A spool is safe for concurrent use, but one of its inputs is not.
type spool struct {
	file *os.File // file without a name, so that it disappears when the process ends

	size atomic.Int64

	mu    sync.Mutex // protects rules and index
	rules []*rules.Rule
	index map[*rules.Rule]int // index of each rule in rules
}

// spoolPiece is the approximate number of bytes of hits that are stored together.
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

// piece is the position in the file of some hits of one input.
type piece struct{ at, size int64 }

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

// codeHit writes or reads a hit. The labels of the hit are omitted, because they are the labels of the input.
func (s *spool) codeHit(c *codec.Codec, h *matcher.Hit) {
	var rule int
	var at string
	if !c.IsReading() {
		rule = s.ruleIndex(h.Rule)
		data, _ := h.Time.MarshalBinary() // there is no error, because it fails only for time zones that logs cannot contain
		at = string(data)
	}
	part, id := int(h.Part), int64(h.ID)
	c.Int(&rule)
	c.Int(&part)
	codec.Text(c, &at)
	c.Bool(&h.TextTime)
	c.Bool(&h.Untimed)
	c.Duration(&h.ClockShift)
	c.Int64(&h.LineNumber)
	c.Int64(&id)
	codec.Text(c, &h.Line)
	codec.Texts(c, &h.Values)
	if c.IsReading() {
		h.Rule, h.Part, h.ID = s.rules[rule], matcher.Part(part), uint64(id)
		_ = h.Time.UnmarshalBinary([]byte(at))
	}
}

// spooledHits returns the hits of one input from a spool, in the order of the lines.
type spooledHits struct {
	in     *Input
	spool  *spool
	pieces []piece // pieces that contain hits that were not consumed yet
	taken  int     // number of consumed hits of the first piece
	hits   []matcher.Hit
}

// storeHits reads the input to its end and stores its hits.
func (r *spooledHits) storeHits(from *reader) error {
	for {
		ok, err := from.fill()
		if !ok {
			return err
		}
		for hits := from.next(len(from.hits)); len(hits) > 0; {
			n := 0
			for size := 0; n < len(hits) && size < spoolPiece; n++ {
				size += len(hits[n].Line)
			}
			if err := r.writePiece(hits[:n]); err != nil {
				return err
			}
			hits = hits[n:]
		}
	}
}

func (r *spooledHits) writePiece(hits []matcher.Hit) error {
	c := codec.NewWriter()
	codec.List(c, &hits, r.spool.codeHit)
	data := []byte(c.Result())
	at := r.spool.size.Add(int64(len(data))) - int64(len(data))
	if _, err := r.spool.file.WriteAt(data, at); err != nil {
		return fmt.Errorf("store the matched lines of many inputs: %w; make room, or set TMPDIR to another folder", errors.Unwrap(err))
	}
	r.pieces = append(r.pieces, piece{at, int64(len(data))})
	return nil
}

func (r *spooledHits) name() string { return r.in.Name }

func (r *spooledHits) available() []matcher.Hit { return r.hits }

func (r *spooledHits) next(n int) []matcher.Hit {
	out := r.hits[:n]
	if r.hits, r.taken = r.hits[n:], r.taken+n; len(r.hits) == 0 {
		r.pieces, r.taken = r.pieces[1:], 0
	}
	return out
}

func (r *spooledHits) park() { r.hits = nil }

func (r *spooledHits) fill() (bool, error) {
	if len(r.hits) > 0 || len(r.pieces) == 0 {
		return len(r.hits) > 0, nil
	}
	data := make([]byte, r.pieces[0].size)
	if _, err := r.spool.file.ReadAt(data, r.pieces[0].at); err != nil {
		return false, fmt.Errorf("read the matched lines of %s: %w", r.in.Name, err)
	}
	codec.List(codec.NewReader(string(data)), &r.hits, r.spool.codeHit)
	labels := matcher.NewStream(r.in.StreamLabels(), matcher.StreamOptions{}).Labels()
	for i := range r.hits {
		r.hits[i].Labels = labels
	}
	r.hits = r.hits[r.taken:]
	return true, nil
}
