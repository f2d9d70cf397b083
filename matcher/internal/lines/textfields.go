package lines

import (
	"bytes"
	"unicode/utf8"
)

// textFields are the fields of a text line, as slices of the line:
//
//	klog    E1120 10:00:00.000000 1 a.go:1] "message" key="value" key=value
//	klogr   ... "msg"="message" "reconciler group"="value"
//	logfmt  time="..." level=info msg="message"
//
// A quoted text at the start, or after the header of klog, is the field msg. Text inside quotes is never a field.
type textFields struct {
	fields []textField
	buf    []byte
}

type valueKind uint8

const (
	bareValue   valueKind = iota
	quotedValue           // a text between quotes
	blockValue            // the lines between `<` and ` >`
)

type textField struct {
	at        int // offset of the key in the line
	key       []byte
	keyQuoted bool
	kind      valueKind
	val       []byte
}

var msgKey = []byte("msg")

func (f *textFields) read(line []byte) {
	f.fields, f.buf = f.fields[:0], f.buf[:0]
	r := textReader{b: line}
	message := true // whether a quoted text at this position would be the message
	for r.nextToken() {
		start := r.i
		if r.b[start] == '"' {
			text, ok := r.readQuoted()
			switch {
			case !ok:
				r.i = start + 1 // a quote without a closing quote is an ordinary character
			case r.currentByte() == '=' && len(text) > 0:
				f.add(&r, textField{at: start, key: text, keyQuoted: true})
				message = false
				continue
			case message:
				f.fields = append(f.fields, textField{at: start, key: msgKey, kind: quotedValue, val: text})
				message = false
				continue
			default:
				continue
			}
		}
		r.skipWord()
		key := r.b[start:r.i]
		if r.currentByte() == '=' && len(key) > 0 {
			f.add(&r, textField{at: start, key: key})
			message = false
			continue
		}
		if r.currentByte() == '=' {
			r.readValue() // skips a value that has no key
			message = false
			continue
		}
		message = endsHeader(r.b[start:r.i])
	}
}

func (f *textFields) add(r *textReader, t textField) {
	var has bool
	if t.val, t.kind, has = r.readValue(); has {
		f.fields = append(f.fields, t)
	}
}

// endsHeader reports whether a word ends a klog header, such as `file.go:12]`.
func endsHeader(w []byte) bool {
	k := len(w) - 1
	if k < 2 || w[k] != ']' || !isDigit(w[k-1]) {
		return false
	}
	for k--; k >= 0 && isDigit(w[k]); k-- {
	}
	return k > 0 && w[k] == ':'
}

// lookup returns the value of the last field with that name that is in the program's own voice. If quotes is nil, every
// field counts.
func (f *textFields) lookup(name string, quotes *Quotes) ([]byte, bool) {
	for i := len(f.fields) - 1; i >= 0; i-- {
		t := &f.fields[i]
		if string(t.key) == name || t.keyQuoted && string(f.unquote(t.key)) == name {
			if quotes != nil && quotes.isQuoted(t.at) {
				continue
			}
			return f.fieldValue(t), true
		}
	}
	return nil, false
}

func (f *textFields) fieldValue(t *textField) []byte {
	switch t.kind {
	case quotedValue:
		return f.unquote(t.val)
	case blockValue:
		return f.unindentBlock(t.val)
	}
	return t.val
}

func (f *textFields) unindentBlock(raw []byte) []byte {
	start := len(f.buf)
	for lineStart := true; len(raw) > 0; raw = raw[1:] {
		if !lineStart || raw[0] != '\t' {
			f.buf = append(f.buf, raw[0])
		}
		lineStart = raw[0] == '\n'
	}
	return f.buf[start:]
}

func (f *textFields) unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	start := len(f.buf)
	f.buf = appendUnquoted(f.buf, raw)
	return f.buf[start:]
}

// appendUnquoted decodes the escapes of Go's %q, which klog and logrus use. It keeps escapes that %q never writes, such
// as the escape of an ASCII letter. Therefore the letters of a value always stand unescaped in the line.
func appendUnquoted(dst, raw []byte) []byte {
	for {
		k := bytes.IndexByte(raw, '\\')
		if k < 0 || k+1 == len(raw) {
			return append(dst, raw...)
		}
		dst, raw = append(dst, raw[:k]...), raw[k:]
		n := 2
		if i := bytes.IndexByte([]byte(`"\abfnrtv`), raw[1]); i >= 0 {
			dst = append(dst, "\"\\\a\b\f\n\r\t\v"[i])
		} else if r, ok := hexEscape(raw, 'x', 2); ok && !isPrintable(r) {
			dst, n = append(dst, byte(r)), 4
		} else if r, ok := hexEscape(raw, 'u', 4); ok && !isPrintable(r) {
			dst, n = utf8.AppendRune(dst, r), 6
		} else if r, ok := hexEscape(raw, 'U', 8); ok && !isPrintable(r) {
			dst, n = utf8.AppendRune(dst, r), 10
		} else {
			dst = append(dst, raw[:2]...)
		}
		raw = raw[n:]
	}
}

func isPrintable(r rune) bool { return ' ' <= r && r <= '~' }

// textReader splits a text line into tokens.
type textReader struct {
	b []byte
	i int
	// letters is an offset. The quotes before this offset are ordinary characters, because an earlier quote is not
	// closed on the same line.
	letters int
}

func (r *textReader) currentByte() byte {
	if r.i < len(r.b) {
		return r.b[r.i]
	}
	return 0
}

// nextToken moves to the next token, and reports whether there is one. It skips white space, commas and semicolons.
func (r *textReader) nextToken() bool {
	for r.i < len(r.b) && (isSpace(r.b[r.i]) || r.b[r.i] == ',' || r.b[r.i] == ';') {
		r.i++
	}
	return r.i < len(r.b)
}

// readQuoted reads a quoted text and returns the text between its quotes. If the quote is not closed on the same line,
// ok is false and the reader does not move.
func (r *textReader) readQuoted() (text []byte, ok bool) {
	if r.i < r.letters {
		return nil, false
	}
	start := r.i + 1
	for i := start; ; i++ {
		k := bytes.IndexByte(r.b[i:], '"')
		if k < 0 {
			k = len(r.b) - i
		}
		if n := bytes.IndexByte(r.b[i:i+k], '\n'); n >= 0 {
			r.letters = i + n
			return nil, false
		}
		if i += k; i == len(r.b) {
			r.letters = i
			return nil, false
		}
		if text = r.b[start:i]; countBackslashes(text)%2 == 0 {
			r.i = i + 1
			return text, true
		}
	}
}

// skipWord moves to the end of a word. A word ends at white space or an equals sign outside quotes.
func (r *textReader) skipWord() {
	for r.i < len(r.b) && !isSpace(r.b[r.i]) && r.b[r.i] != '=' {
		r.skipToken()
	}
}

// skipToken moves past one character or one quoted text.
func (r *textReader) skipToken() {
	if r.b[r.i] == '"' {
		if _, ok := r.readQuoted(); ok {
			return
		}
	}
	r.i++
}

// readValue reads an equals sign and the value after it. has is false if the value should be on later lines, but these
// lines are missing.
func (r *textReader) readValue() (val []byte, kind valueKind, has bool) {
	r.i++
	switch r.currentByte() {
	case '"':
		if val, has = r.readQuoted(); has {
			return val, quotedValue, true
		}
		if bytes.IndexByte(r.b[r.i:], '\n') < 0 { // the rest of the line was cut off
			val, r.i = r.b[r.i+1:], len(r.b)
			return val, quotedValue, true
		}
	case '<':
		if rest := r.b[r.i+1:]; len(rest) == 0 || rest[0] == '\n' {
			return r.readBlock()
		}
	}
	start := r.i
	for r.i < len(r.b) && !isSpace(r.b[r.i]) {
		r.skipToken()
	}
	val = r.b[start:r.i]
	if k := len(val) - 1; k >= 0 && (val[k] == ',' || val[k] == ';') {
		val = val[:k]
	}
	return val, bareValue, true
}

// readBlock reads a value of several lines as klog writes it:
//
//	key=<
//		first line
//		second line
//	 >
func (r *textReader) readBlock() (val []byte, kind valueKind, has bool) {
	rest := r.b[r.i+1:]
	if len(rest) == 0 {
		r.i = len(r.b)
		return nil, blockValue, false
	}
	end := bytes.Index(rest, []byte("\n >"))
	if end < 0 {
		r.i = len(r.b)
		return rest[1:], blockValue, true
	}
	r.i += 1 + end + len("\n >")
	return rest[min(1, end):end], blockValue, true
}
