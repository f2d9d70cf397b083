package lines

import "bytes"

// Docker reads lines of Docker's json-file log:
//
//	{"log":"text\n","stream":"stdout","time":"2025-11-20T10:00:00.123456789Z"}
//
// The zero value is ready. It is not safe for concurrent use.
type Docker struct {
	json jsonFields
	text []byte // memory for unescaped texts
}

// Free releases buffers that are larger than size bytes.
func (d *Docker) Free(size int) {
	if cap(d.text) > size {
		d.text = nil
	}
}

// Read reads the envelope of a line. ok is false if the line has none. A text that does not end
// with a newline continues in the next line of its stream. The text is valid until the next
// call.
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

// readUsual reads the form that Docker itself writes: these keys in this order, with optional
// others before the time.
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

// unquote returns the text of a JSON string, and the rest after its closing quote.
func (d *Docker) unquote(b []byte) (text, rest []byte, ok bool) {
	r := jsonReader{b: b, i: -1} // the opening quote is before b
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
