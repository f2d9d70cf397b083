package matcher

import "bytes"

// readDocker reads a line of Docker's json-file log:
//
//	{"log":"text\n","stream":"stdout","time":"2025-11-20T10:00:00.123456789Z"}
//
// A text without a newline at its end goes on in the next line of its stream.
// ok is false if the line is none of those. The text is in a buffer of sc.
func readDocker(sc *scratch, line []byte) (e envelope, ok bool) {
	if bytes.HasPrefix(line, []byte(`{"log":"`)) {
		if e, ok = readUsualDocker(sc, line); ok {
			return e, true
		}
	}
	if first := firstByte(line); first != '{' || !bytes.Contains(line, []byte(`"log"`)) {
		return e, false
	}
	sc.json.read(line)
	text, ok1 := sc.json.text("log")
	stream, ok2 := sc.json.text("stream")
	stamp, ok3 := sc.json.text("time")
	if !ok1 || !ok2 || !ok3 {
		return e, false
	}
	return dockerEnvelope(text, stream, stamp)
}

// readUsualDocker reads what Docker itself writes: these keys in this order,
// perhaps with others before the time.
func readUsualDocker(sc *scratch, line []byte) (e envelope, ok bool) {
	text, rest, ok := sc.unquote(line[len(`{"log":"`):])
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

func dockerEnvelope(text, stream, stamp []byte) (e envelope, ok bool) {
	n, zoned := stampLen(stamp)
	if !zoned || n != len(stamp) {
		return e, false
	}
	switch string(stream) {
	case "stdout":
	case "stderr":
		e.stderr = true
	default:
		return e, false
	}
	e.stamp, e.text, e.partial = stamp, text, true
	if k := len(text) - 1; k >= 0 && text[k] == '\n' {
		e.text, e.partial = text[:k], false
	}
	return e, true
}

// firstByte returns the first byte of b that is not white space, or 0.
func firstByte(b []byte) byte {
	for _, c := range b {
		if !space(c) {
			return c
		}
	}
	return 0
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
