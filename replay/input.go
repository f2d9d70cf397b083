package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"crowsnest/internal/times"
	"crowsnest/internal/wholelines"
	"crowsnest/matcher"
)

// Input is one recorded log stream.
type Input struct {
	Name   string // name in reports: a path, or "-"
	Labels matcher.Labels
	// Derive, if not nil, returns the labels instead: those of 200,000 inputs do not have
	// to be in memory together.
	Derive func() matcher.Labels
	// Exact means that Labels are all that the stream has: one that is missing satisfies
	// no selector.
	Exact bool
	// Size is about how many bytes Open returns, 0 if that is unknown. The display of
	// progress and the size of buffers depend on it.
	Size int64
	// Until is a time after the newest line, zero if none is known. It supplies the year of
	// times without one if it is earlier than now.
	Until time.Time
	// Open returns the decompressed bytes. It is called once per scan.
	Open func() (io.ReadCloser, error)
}

// StreamLabels returns the labels of the stream.
func (in *Input) StreamLabels() matcher.Labels {
	if in.Derive != nil {
		return in.Derive()
	}
	return in.Labels
}

// Latest returns the time that supplies the year of times without one: now, or Until.
func (in *Input) Latest(now time.Time) time.Time {
	if in.Until.IsZero() {
		return now
	}
	return times.Earlier(now, in.Until)
}

const (
	// minBlock and maxBlock bound the bytes of one read of a large input.
	maxBlock = 512 << 10
	minBlock = 32 << 10
	// smallBlock is enough for the smallest inputs.
	smallBlock = 4 << 10
	// maxAheadBytes bounds the bytes of all inputs that are scanned speculatively.
	maxAheadBytes = 64 << 20
	// maxOpen bounds the inputs that are open, with blocks in memory, while hits are merged.
	// The hits of more inputs are stored in a temporary file.
	maxOpen = 256
)

// aheadOf returns how many blocks of each input are scanned at the same time. With
// fewer, the cores would wait for the block whose hits are consumed next.
func aheadOf(inputs int) int {
	cores := runtime.GOMAXPROCS(0)
	return min(max(32*cores/max(1, inputs), cores+1), 4*cores, max(1, maxAheadBytes/(minBlock*max(1, inputs))))
}

// reader turns an input into hits, in order of its lines. It scans blocks on every
// core, ahead of the block whose hits are consumed.
type reader struct {
	in     Input
	prog   *matcher.Program
	opt    matcher.StreamOptions
	stream *matcher.Stream // nil before the first read, and after the last one
	now    time.Time       // replaces missing timestamps
	ahead  int             // maximum number of blocks scanned at the same time
	size   int             // bytes of a block
	wait   func()          // called before a read; may be nil
	// complaints is ScanOptions.OnComplaints.
	complaints func(*matcher.Stream, []matcher.Complaint)
	hitsOnly   bool // ScanOptions.HitsOnly

	rc      io.ReadCloser
	lines   *wholelines.Reader
	held    [][]byte // read, but not scanned yet
	blocks  []*block // being scanned, in order
	current *block   // block of the current hits; nil if there are none
	free    []*matcher.Buffer
	began   bool // the stream has scanned a block
	done    bool // the input is read to its end
	flushed bool
	err     error // ended the reading
	hits    []matcher.Hit
	bytes   int64     // read so far
	timed   bool      // a line of the blocks so far has a timestamp
	first   time.Time // time of the first line that states one
	taken   int64     // hits
	failed  error     // error of find
	last    []byte    // the last complete line

	released bool             // all is read
	counted  matcher.Counters // counters of the stream after its release
}

// readers makes the readers of a number of inputs that are open at the same time.
type readers struct {
	prog        *matcher.Program
	opt         ScanOptions
	ahead, size int
}

// block is a part of an input that is scanned separately.
type block struct {
	data   []byte
	lines  int64
	stream *matcher.Stream // nil means the reader's stream
	buf    *matcher.Buffer // buffer for hits
	hits   []matcher.Hit
	timed  bool      // a line has a timestamp; unknown if an earlier block has one
	first  time.Time // time of the first line that states one, if timed
	ready  chan struct{}
}

func newReaders(open int, prog *matcher.Program, opt ScanOptions) readers {
	ahead := aheadOf(open)
	return readers{prog: prog, opt: opt, ahead: ahead, size: min(max(maxAheadBytes/(ahead*max(1, open)), minBlock), maxBlock)}
}

func (rs readers) of(in Input) *reader {
	size := rs.size
	if in.Size > 0 {
		size = int(min(int64(size), max(in.Size+1, smallBlock)))
	}
	return &reader{
		in: in, prog: rs.prog, now: rs.opt.Now, ahead: rs.ahead, size: size, complaints: rs.opt.OnComplaints, hitsOnly: rs.opt.HitsOnly,
		opt: matcher.StreamOptions{Lenient: rs.opt.Lenient && !in.Exact, TextTime: true, Until: in.Latest(rs.opt.Now), Join: matcher.JoinStream},
	}
}

func (r *reader) name() string { return r.in.Name }

func (r *reader) found() []matcher.Hit { return r.hits }

func (r *reader) park() {}

func (r *reader) find() (bool, error) {
	for len(r.hits) == 0 {
		if r.released {
			return false, nil
		}
		more, err := r.read()
		if err != nil {
			r.failed = err
			r.release()
			return false, fmt.Errorf("read %s: %w", r.in.Name, err)
		}
		if !more {
			r.release()
		}
	}
	return true, nil
}

func (r *reader) next(n int) []matcher.Hit {
	out := r.hits[:n]
	r.hits = r.hits[n:]
	r.taken += int64(n)
	return out
}

// release frees what reading needed.
func (r *reader) release() {
	r.released, r.counted = true, r.stream.Counters()
	r.stream, r.rc, r.lines, r.blocks, r.hits, r.current, r.free, r.last = nil, nil, nil, nil, nil, nil, nil, bytes.Clone(r.last)
}

// outcome returns what reading returned.
func (r *reader) outcome() Outcome {
	c := r.counted
	out := Outcome{Lines: c.Lines, Hits: r.taken, Truncated: c.Truncated, Err: r.failed}
	if r.timed {
		out.Understood = max(0, c.Lines-c.Unparsed-c.Dropped)
	}
	return out
}

// read stores the hits of the next block. It returns false at the end.
func (r *reader) read() (more bool, err error) {
	if r.stream == nil {
		r.stream = matcher.NewStream(r.in.StreamLabels(), r.opt)
		r.stream.Place(0)
		r.rc, r.err = r.in.Open()
		r.lines = wholelines.New(r.rc, r.size)
		r.done, r.flushed = r.err != nil, r.err != nil
	}
	r.recycle()
	r.fill()
	switch {
	case len(r.blocks) > 0:
		r.take()
		return true, nil
	case !r.flushed:
		r.flushed = true
		r.current = &block{buf: r.buffer()}
		r.hits = r.prog.FlushInto(r.current.buf, r.stream, r.now)
		r.report(r.current.buf)
		return true, nil
	}
	err, r.err = r.err, nil
	return false, err
}

// recycle makes the memory of the hits available to further blocks.
func (r *reader) recycle() {
	if r.current != nil {
		r.lines.Release(r.current.data)
		r.free = append(r.free, r.current.buf)
		r.current = nil
	}
}

// fill reads ahead while data is available without waiting: lines from a pipe are
// not delayed by later ones.
func (r *reader) fill() {
	for full := true; !r.done && len(r.blocks) < r.ahead && (full || len(r.blocks) == 0); {
		if r.wait != nil && len(r.blocks) == 0 {
			r.wait()
		}
		var data []byte
		var err error
		if data, full, err = r.lines.Next(); len(data) > 0 {
			r.hold(data, full && err == nil)
		}
		if err != nil {
			r.done = true
			if errors.Is(err, io.EOF) {
				err = nil
			}
			r.err = errors.Join(err, r.rc.Close())
			r.rc = nil // its buffers
		}
	}
	if r.done {
		r.hold(nil, false)
	}
}

// maxHeld bounds the blocks in which the first time of an input is searched.
const maxHeld = 16

// hold starts to scan what was read, unless no line of it states a time and more can be read
// without waiting: lines before the first time have that time.
func (r *reader) hold(data []byte, more bool) {
	if len(data) > 0 {
		r.held = append(r.held, data)
	}
	if !r.began && !r.timed && len(data) > 0 {
		r.first, r.timed = firstTime(data, r.opt.Until)
		if !r.timed && more && len(r.held) < maxHeld {
			return
		}
	}
	for _, data := range r.held {
		r.start(data)
	}
	r.held = r.held[:0]
}

// start scans a block in the background, except for the first one: its lines
// determine the format.
func (r *reader) start(data []byte) {
	b := &block{data: data, buf: r.buffer(), lines: int64(bytes.Count(data, []byte("\n"))), ready: make(chan struct{})}
	if data[len(data)-1] != '\n' {
		b.lines++
	}
	var lines, size int64 // totals of the blocks that the stream has not scanned
	for _, before := range r.blocks {
		if before.stream != nil {
			lines, size = lines+before.lines, size+int64(len(before.data))
		}
	}
	r.blocks = append(r.blocks, b)
	r.bytes += int64(len(data))
	if !r.began {
		r.began = true
		if r.timed {
			r.stream.Began(r.first)
		}
		b.hits = r.prog.ScanInto(b.buf, r.stream, data, r.now)
		close(b.ready)
		return
	}
	b.stream = r.stream.Speculate(lines, size)
	timed := r.timed
	go func() {
		defer close(b.ready)
		b.hits = r.prog.ScanInto(b.buf, b.stream, data, r.now)
		if !timed {
			b.first, b.timed = firstTime(data, r.opt.Until)
		}
	}()
}

// firstTime returns the time of the first line with a parseable timestamp.
func firstTime(lines []byte, now time.Time) (t time.Time, ok bool) {
	for line := range bytes.Lines(lines) {
		if t, ok = matcher.TimeOf(bytes.TrimRight(line, "\r\n"), now); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

// searchedLines is how many lines of a block are searched for words of complaints, if their
// level is not one.
const searchedLines = 500

// buffer returns a buffer for the hits of one block.
func (r *reader) buffer() *matcher.Buffer {
	if k := len(r.free) - 1; k >= 0 {
		buf := r.free[k]
		r.free = r.free[:k]
		return buf
	}
	switch {
	case r.complaints != nil:
		return matcher.NewBuffer(searchedLines)
	case r.hitsOnly:
		return matcher.NewBufferWithoutIDs()
	}
	return new(matcher.Buffer)
}

// report passes on the complaints of a block.
func (r *reader) report(buf *matcher.Buffer) {
	if len(buf.Complaints()) > 0 {
		r.complaints(r.stream, buf.Complaints())
	}
}

// take completes the oldest block. If its speculative scan started from the wrong
// state, take scans it again.
func (r *reader) take() {
	b := r.blocks[0]
	r.blocks, r.current = r.blocks[1:], b
	<-b.ready
	if !r.timed {
		r.first, r.timed = b.first, b.timed
	}
	if r.hits = b.hits; b.stream != nil && !r.stream.Commit(b.stream) {
		r.hits = r.prog.ScanInto(b.buf, r.stream, b.data, r.now)
	}
	r.report(b.buf)
	line := bytes.TrimRight(b.data, "\r\n")
	r.last = append(r.last[:0], line[bytes.LastIndexByte(line, '\n')+1:]...)
	r.prog.Tune()
}
