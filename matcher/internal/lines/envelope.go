// Package lines reads the parts of a physical line. These are the envelope of a container
// runtime, the time that the line states, and the fields of its text. It does not know rules.
package lines

import (
	"bytes"
	"encoding/binary"
)

// Envelope is the framing around the text of a physical line.
type Envelope struct {
	Stamp   []byte // timestamp as written; a slice of the line
	Text    []byte // a slice of the line, or of a buffer that the next line reuses
	Stderr  bool   // whether the line was written to stderr, not to stdout
	Partial bool   // whether the logical line continues in the next physical line
}

// The constants describe a usual header in words of eight bytes:
//
//	2025-11-20T10:00:00.123456789Z stderr F text
//
// A word of a line has the form of criForm if the exclusive or of both is 0 to 9 for each digit and 0 for all other
// bytes. In this case, adding criReaches sets no top bit.
const (
	topBits = 0x8080808080808080
	criForm = "0000-00-00T00:00:00.000000000Z s"
)

var (
	criForms   = wordSet(criForm)
	criReaches = reachSet(criForm)

	stdoutFull    = wordBits("tdout F ")
	stderrFull    = wordBits("tderr F ")
	stdoutPartial = wordBits("tdout P ")
	stderrPartial = wordBits("tderr P ")
)

func wordBits(s string) uint64 { return binary.LittleEndian.Uint64([]byte(s)) }

func wordSet(s string) (w [4]uint64) {
	for i := range w {
		w[i] = wordBits(s[i*8:])
	}
	return w
}

func reachSet(s string) (w [4]uint64) {
	b := []byte(s)
	for i, c := range b {
		b[i] = 0x7f // a byte stays below 0x80 only if it is 0
		if c == '0' {
			b[i] = 0x76 // a byte stays below 0x80 only if it is 0 to 9
		}
	}
	return wordSet(string(b))
}

// ReadCRI reads the envelope of a CRI runtime. ok is false if the line has none.
func ReadCRI(line []byte) (e Envelope, ok bool) {
	if !usualStamp(line) {
		return readAnyCRI(line)
	}
	switch binary.LittleEndian.Uint64(line[32:]) {
	case stdoutFull:
	case stderrFull:
		e.Stderr = true
	case stdoutPartial:
		e.Partial = true
	case stderrPartial:
		e.Stderr, e.Partial = true, true
	default:
		return readAnyCRI(line)
	}
	e.Stamp, e.Text = line[:StampCRI], line[HeaderCRI:]
	return e, true
}

// Lengths of the usual CRI envelope, and of the timestamp at its start.
const (
	HeaderCRI = 40
	StampCRI  = 30
)

// FullCRI reports whether a line has a usual CRI envelope and contains a whole logical line. stderr reports whether the
// line was written to stderr.
func FullCRI(line []byte) (stderr, ok bool) {
	if !usualStamp(line) {
		return false, false
	}
	tag := binary.LittleEndian.Uint64(line[32:])
	return tag == stderrFull, tag == stderrFull || tag == stdoutFull
}

// usualStamp reports whether a line starts in the form of criForm and is at least as long as a usual header.
func usualStamp(line []byte) bool {
	if len(line) < HeaderCRI {
		return false
	}
	bad := uint64(0)
	for i := range 4 {
		v := binary.LittleEndian.Uint64(line[i*8:]) ^ criForms[i]
		bad |= (v + criReaches[i]) | v
	}
	return bad&topBits == 0
}

// readAnyCRI reads a header in any valid form, for example with another fraction or time zone, with more tags after
// colons, or with an empty text and no space before it.
func readAnyCRI(line []byte) (e Envelope, ok bool) {
	n, zoned := stampLen(line)
	if !zoned || line[4] != '-' || line[7] != '-' || line[10] != 'T' || len(line) < n+len(" stdout F") || line[n] != ' ' || line[n+7] != ' ' {
		return e, false
	}
	switch string(line[n+1 : n+7]) {
	case "stdout":
	case "stderr":
		e.Stderr = true
	default:
		return e, false
	}
	switch line[n+8] {
	case 'F':
	case 'P':
		e.Partial = true
	default:
		return e, false
	}
	e.Stamp = line[:n]
	rest := line[n+9:]
	switch {
	case len(rest) == 0 || len(rest) == 1 && rest[0] == '\r':
		return e, true
	case rest[0] == ' ':
		e.Text = rest[1:]
		return e, true
	case rest[0] != ':':
		return e, false
	}
	if k := bytes.IndexByte(rest, ' '); k >= 0 {
		e.Text = rest[k+1:]
	}
	return e, true
}

// Docker reads lines of Docker's json-file log:
//
//	{"log":"text\n","stream":"stdout","time":"2025-11-20T10:00:00.123456789Z"}
//
// The zero value is ready. It is not safe for concurrent use.
type Docker struct {
	json jsonFields
	text []byte // memory for unescaped texts
}

// Free releases the buffer if it is larger than size bytes.
func (d *Docker) Free(size int) {
	if cap(d.text) > size {
		d.text = nil
	}
}

// Read reads the envelope of a line. ok is false if the line has none. A text without a newline at its end continues in
// the next line of its stream. The text of the envelope is valid until the next call.
func (d *Docker) Read(line []byte) (e Envelope, ok bool) {
	if bytes.HasPrefix(line, []byte(`{"log":"`)) {
		if e, ok = d.readUsual(line); ok {
			return e, true
		}
	}
	if first := firstByte(line); first != '{' || !bytes.Contains(line, []byte(`"log"`)) {
		return e, false
	}
	d.json.read(line)
	text, ok1 := d.json.stringMember(-1, "log")
	stream, ok2 := d.json.stringMember(-1, "stream")
	stamp, ok3 := d.json.stringMember(-1, "time")
	if !ok1 || !ok2 || !ok3 {
		return e, false
	}
	return dockerEnvelope(text, stream, stamp)
}

// readUsual reads the form that Docker itself writes, which has these keys in this order. Other keys may stand before
// the time.
func (d *Docker) readUsual(line []byte) (e Envelope, ok bool) {
	text, rest, ok := d.unquote(line[len(`{"log":"`):])
	if !ok {
		return e, false
	}
	const streamKey, timeKey = `,"stream":"`, `","time":"`
	if len(rest) < len(streamKey)+6+len(timeKey) || string(rest[:len(streamKey)]) != streamKey {
		return e, false
	}
	rest = rest[len(streamKey):]
	stream := rest[:6]
	if rest = rest[6:]; string(rest[:len(timeKey)]) != timeKey {
		return e, false
	}
	rest = rest[len(timeKey):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || len(rest) != end+2 || rest[end+1] != '}' || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return e, false
	}
	return dockerEnvelope(text, stream, rest[:end])
}

func dockerEnvelope(text, stream, stamp []byte) (e Envelope, ok bool) {
	n, zoned := stampLen(stamp)
	e.Stderr = string(stream) == "stderr"
	if !zoned || n != len(stamp) || !e.Stderr && string(stream) != "stdout" {
		return Envelope{}, false
	}
	text, whole := bytes.CutSuffix(text, []byte("\n"))
	e.Stamp, e.Text, e.Partial = stamp, text, !whole
	return e, true
}

// unquote decodes the JSON string at the start of b, whose opening quote was already read. It returns the text, and the
// rest of b after the closing quote.
func (d *Docker) unquote(b []byte) (text, rest []byte, ok bool) {
	r := jsonReader{b: b, i: -1} // the opening quote would be at index -1
	raw, ok := r.readQuoted()
	if !ok {
		return nil, nil, false
	}
	d.text = appendUnescaped(d.text[:0], raw)
	return d.text, b[r.i:], true
}

// firstByte returns the first byte of b that is not white space, or 0.
func firstByte(b []byte) byte {
	for _, c := range b {
		if !isSpace(c) {
			return c
		}
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
