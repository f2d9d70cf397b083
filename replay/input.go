package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"crowsnest/internal/times"
	"crowsnest/internal/wholelines"
	"crowsnest/matcher"
)

// Input is one recorded log.
type Input struct {
	Name   string // name of the input in reports, which is a path or "-"
	Labels matcher.Labels
	// Derive, if it is not nil, returns the labels in place of the field Labels. Then the labels of 200,000 inputs do
	// not have to be in memory at the same time.
	Derive func() matcher.Labels
	// Exact means that Labels are all labels of the stream. Then a selector that requires another label does not match.
	Exact bool
	// Size is the approximate number of bytes that Open returns, or 0 if it is unknown. It is used for progress and for
	// the size of buffers.
	Size int64
	// Until is a time after the newest line, or zero if none is known. If it is before now, it determines the year of
	// timestamps without a year.
	Until time.Time
	// Open returns a reader of the decompressed bytes. It is called once per scan.
	Open func() (io.ReadCloser, error)
}

// StreamLabels returns the labels of the stream.
func (in *Input) StreamLabels() matcher.Labels {
	if in.Derive != nil {
		return in.Derive()
	}
	return in.Labels
}

// Latest returns the time that determines the year of timestamps without a year.
func (in *Input) Latest(now time.Time) time.Time {
	if in.Until.IsZero() {
		return now
	}
	return times.Min(now, in.Until)
}

const (
	// minBlock and maxBlock are the minimum and maximum size of one read from a large input.
	maxBlock = 512 << 10
	minBlock = 32 << 10
	// smallBlock is the size of one read from a small input.
	smallBlock = 4 << 10
	// maxAheadBytes is the maximum number of bytes, over all inputs, that are scanned speculatively.
	maxAheadBytes = 64 << 20
	// maxOpen is the maximum number of inputs that are open, with blocks in memory, while hits are merged. If there are
	// more inputs, their hits are stored in a temporary file.
	maxOpen = 256
)

// blocksAhead returns the number of blocks of each input that are scanned at the same time. With fewer blocks, cores
// would be idle while the next hits are computed.
func blocksAhead(inputs int) int {
	cores := runtime.GOMAXPROCS(0)
	return min(max(32*cores/max(1, inputs), cores+1), 4*cores, max(1, maxAheadBytes/(minBlock*max(1, inputs))))
}

// reader reads an input and returns its hits in the order of the lines. It scans blocks on all cores, ahead of the
// block whose hits are being consumed.
type reader struct {
	in     Input
	prog   *matcher.Program
	opt    matcher.StreamOptions
	stream *matcher.Stream // nil before the first read, and after the last one
	now    time.Time       // time for lines without a timestamp
	ahead  int             // maximum number of blocks that are scanned at the same time
	size   int             // size of a block in bytes
	wait   func()          // called before each read that may block; may be nil
	// complaints is ScanOptions.OnComplaints.
	complaints func(*matcher.Stream, []matcher.Complaint)
	hitsOnly   bool // ScanOptions.HitsOnly

	rc      io.ReadCloser
	lines   *wholelines.Reader
	held    [][]byte // blocks that were read and are not being scanned yet
	blocks  []*block // blocks that are being scanned, in order
	current *block   // block of the available hits; nil if there are none
	free    []*matcher.Buffer
	began   bool // whether the scan of a block was started
	done    bool // whether the input was read to its end
	flushed bool
	err     error // error that ended the reading
	hits    []matcher.Hit
	bytes   int64     // number of bytes read so far
	timed   bool      // whether a line read so far has a timestamp
	first   time.Time // time of the first line that has a timestamp
	taken   int64     // number of consumed hits
	failed  error     // error that fill returned
	tail    []byte    // end of the last block, at most maxTail bytes

	released bool             // whether everything was read and the memory is released
	counted  matcher.Counters // counters of the stream, set when the stream is released
}

// readers creates the readers of all inputs that are open at the same time.
type readers struct {
	prog        *matcher.Program
	opt         ScanOptions
	ahead, size int
}

// block is a section of an input that is scanned separately.
type block struct {
	data   []byte
	lines  int64
	stream *matcher.Stream // speculative stream; nil if the reader's own stream scans the block
	buf    *matcher.Buffer // buffer for hits
	hits   []matcher.Hit
	timed  bool      // whether a line has a timestamp; not set if an earlier block has one
	first  time.Time // time of the first line with a timestamp; valid if timed is set
	ready  chan struct{}
}

func newReaders(open int, prog *matcher.Program, opt ScanOptions) readers {
	ahead := blocksAhead(open)
	return readers{prog: prog, opt: opt, ahead: ahead, size: min(max(maxAheadBytes/(ahead*max(1, open)), minBlock), maxBlock)}
}

func (rs readers) newReader(in Input) *reader {
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

func (r *reader) available() []matcher.Hit { return r.hits }

func (r *reader) park() {}

func (r *reader) fill() (bool, error) {
	for len(r.hits) == 0 {
		if r.released {
			return false, nil
		}
		more, err := r.readBlock()
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

func (r *reader) release() {
	r.released, r.counted = true, r.stream.Counters()
	r.stream, r.rc, r.lines, r.blocks, r.hits, r.current, r.free = nil, nil, nil, nil, nil, nil, nil
}

func (r *reader) outcome() Outcome {
	c := r.counted
	out := Outcome{Lines: c.Lines, Hits: r.taken, Truncated: c.Truncated, Err: r.failed}
	if r.timed {
		out.Understood, out.From, out.Until = max(0, c.Lines-c.Unparsed-c.Dropped), r.first, lastTime(r.tail, r.opt.Until)
	}
	return out
}

// maxTail is the number of bytes at the end of an input in which the last time is searched for.
const maxTail = 2 << 10

// lastTime returns the time of the last line with a valid timestamp, or zero if there is none.
func lastTime(lines []byte, now time.Time) time.Time {
	for _, line := range slices.Backward(bytes.Split(lines, []byte("\n"))) {
		if t, ok := matcher.TimeOf(bytes.TrimRight(line, "\r"), now); ok {
			return t
		}
	}
	return time.Time{}
}

// readBlock makes the hits of the next block available. It returns false at the end of the input.
func (r *reader) readBlock() (more bool, err error) {
	if r.stream == nil {
		r.stream = matcher.NewStream(r.in.StreamLabels(), r.opt)
		r.stream.SetOffset(0)
		r.rc, r.err = r.in.Open()
		r.lines = wholelines.New(r.rc, r.size)
		r.done, r.flushed = r.err != nil, r.err != nil
	}
	r.freeHits()
	r.readAhead()
	switch {
	case len(r.blocks) > 0:
		r.completeBlock()
		return true, nil
	case !r.flushed:
		r.flushed = true
		r.current = &block{buf: r.buffer()}
		r.hits = r.prog.FlushInto(r.current.buf, r.stream, r.now)
		r.reportComplaints(r.current.buf)
		return true, nil
	}
	err, r.err = r.err, nil
	return false, err
}

// freeHits makes the memory of the available hits reusable for further blocks.
func (r *reader) freeHits() {
	if r.current != nil {
		r.lines.Release(r.current.data)
		r.free = append(r.free, r.current.buf)
		r.current = nil
	}
}

// readAhead reads further blocks while data are available without waiting. Waiting would delay the hits of lines from a
// pipe until later lines arrive.
func (r *reader) readAhead() {
	for full := true; !r.done && len(r.blocks) < r.ahead && (full || len(r.blocks) == 0); {
		if r.wait != nil && len(r.blocks) == 0 {
			r.wait()
		}
		var data []byte
		var err error
		if data, full, err = r.lines.Next(); len(data) > 0 {
			r.holdBlock(data, full && err == nil)
		}
		if err != nil {
			r.done = true
			if errors.Is(err, io.EOF) {
				err = nil
			}
			r.err = errors.Join(err, r.rc.Close())
			r.rc = nil // releases the buffers of the reader
		}
	}
	if r.done {
		r.holdBlock(nil, false)
	}
}

// maxHeld is the maximum number of blocks that are held until the first timestamp of an input is found.
const maxHeld = 16

// holdBlock starts to scan a block. While no line read so far has a timestamp, it holds the block as long as more data
// can be read without waiting. The reason is that lines before the first timestamp get the time of that timestamp.
func (r *reader) holdBlock(data []byte, more bool) {
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
		r.startScan(data)
	}
	r.held = r.held[:0]
}

// startScan scans a block in the background. It scans the first block synchronously, because the lines of that block
// determine the format.
func (r *reader) startScan(data []byte) {
	b := &block{data: data, buf: r.buffer(), lines: int64(bytes.Count(data, []byte("\n"))), ready: make(chan struct{})}
	if data[len(data)-1] != '\n' {
		b.lines++
	}
	var lines, size int64 // totals of the blocks that the reader's stream has not scanned yet
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
			r.stream.SetStart(r.first)
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

// firstTime returns the time of the first line with a valid timestamp.
func firstTime(lines []byte, now time.Time) (t time.Time, ok bool) {
	for line := range bytes.Lines(lines) {
		if t, ok = matcher.TimeOf(bytes.TrimRight(line, "\r\n"), now); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

// searchedLines is the maximum number of lines in a block that are searched for words that report a problem. Lines
// whose level reports a problem are not counted.
const searchedLines = 500

// buffer returns an unused buffer for the hits of one block.
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

// reportComplaints passes the lines of a block that report a problem and match no rule to ScanOptions.OnComplaints.
func (r *reader) reportComplaints(buf *matcher.Buffer) {
	if len(buf.Complaints()) > 0 {
		r.complaints(r.stream, buf.Complaints())
	}
}

// completeBlock waits for the oldest block and makes its hits available. If the speculative scan of the block started
// from a wrong state, the block is scanned again.
func (r *reader) completeBlock() {
	b := r.blocks[0]
	r.blocks, r.current = r.blocks[1:], b
	<-b.ready
	if !r.timed {
		r.first, r.timed = b.first, b.timed
	}
	if r.hits = b.hits; b.stream != nil && !r.stream.Commit(b.stream) {
		r.hits = r.prog.ScanInto(b.buf, r.stream, b.data, r.now)
	}
	r.reportComplaints(b.buf)
	r.tail = append(r.tail[:0], b.data[max(0, len(b.data)-maxTail):]...)
	r.prog.Tune()
}
