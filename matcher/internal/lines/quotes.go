package lines

import (
	"bytes"
	"slices"
)

// Voice states who speaks in a section of a line, either the program itself or somebody whom it quotes.
type Voice uint8

// The voices.
const (
	Message   Voice = 1 << iota // the program's message, and the keys of its fields
	Error                       // value of the field err, error or cause
	Quotation                   // text that the program quotes
)

// Span is a section of a line that is not in the voice Message.
type Span struct {
	From, To int
	Voice    Voice
	// Field is the name of the field whose value contains the span, as written in the line. It is empty for a section
	// of the message.
	Field []byte
}

// Quotes are the sections of a line in which the program does not speak for itself:
//
//   - values of fields other than msg, message, err, error and cause, in JSON, logfmt and klog,
//   - quoted strings within a message, an error, or a line without fields,
//   - lines of a record that begin with a tab.
//
// The JSON object at the end of a line of zap's console encoder holds fields. The zero value is ready.
type Quotes struct {
	// Block states that the line is one line of a klog block. If it is not set, a panic that begins with a tab is in
	// the program's own voice, because the Go runtime prints a recovered panic again in that form.
	Block bool
	line  []byte
	spans []Span
	// upTo is the offset up to which spans have been found.
	upTo int
	// limit is an offset at which reading may stop, because the spans before it do not depend on the text after it.
	limit int
}

// Reset sets the line to read, which must have no CRI or Docker envelope. The line must not change while its spans are
// used.
func (q *Quotes) Reset(line []byte) { q.line, q.spans, q.upTo = line, q.spans[:0], 0 }

// Spans returns the spans that are not in the voice Message, in order. They are valid until the
// next Reset.
func (q *Quotes) Spans() []Span {
	q.readTo(len(q.line))
	return q.spans
}

// HasNoSpans reports whether the line contains no byte that could begin a span.
func (q *Quotes) HasNoSpans() bool {
	for _, c := range []byte("\"='`\t") {
		if bytes.IndexByte(q.line, c) >= 0 {
			return false
		}
	}
	return true
}

// readTo finds the spans that begin before byte end. It stops there, because most lines match near their start.
func (q *Quotes) readTo(end int) {
	if end <= q.upTo {
		return
	}
	q.limit = end
	if q.upTo > 0 {
		q.limit = len(q.line)
	}
	q.spans = q.spans[:0]
	if !q.HasNoSpans() {
		q.scan()
	}
	q.upTo = q.limit
}

// HasVoice reports whether at least one word in the section start:end of the line is, at least partly, in one of the
// voices. A section without words is in every voice.
func (q *Quotes) HasVoice(start, end int, voices Voice) bool {
	q.readTo(end)
	k, _ := q.spanAt(start)
	spans, words := q.spans, false
	for i := start; i < end; i++ {
		if !wordByte(q.line[i]) {
			continue
		}
		words = true
		for k < len(spans) && spans[k].To <= i {
			k++
		}
		voice := Message
		if k < len(spans) && spans[k].From <= i {
			voice = spans[k].Voice
		}
		if voice&voices != 0 {
			return true
		}
	}
	return !words
}

// IsWithin reports whether the section start:end of the line is completely in the voices.
func (q *Quotes) IsWithin(start, end int, voices Voice) bool {
	q.readTo(end)
	at := start
	for k, _ := q.spanAt(start); k < len(q.spans) && q.spans[k].From < end; k++ {
		if q.spans[k].Voice&voices == 0 || at < q.spans[k].From && voices&Message == 0 {
			return false
		}
		at = q.spans[k].To
	}
	return at >= end || voices&Message != 0
}

// maxName is the maximum length in bytes of quoted text that can be a name.
const maxName = 512

// InWords reports whether the words in the section start:end belong to quoted text that can be a name, such as a URL.
// Such text has at most two words, or consists of lines of a klog block, which name what failed. In a block, the
// section must contain no key. The section must contain a word.
func (q *Quotes) InWords(start, end int) bool {
	key := bytes.IndexByte(q.line[start:end], '=') >= 0 || bytes.Contains(q.line[start:end], []byte(`":`))
	for !wordByte(q.line[start]) {
		start++
	}
	for !wordByte(q.line[end-1]) {
		end--
	}
	q.readTo(len(q.line))
	k, in := q.spanAt(start)
	if !in || q.spans[k].To < end {
		return false
	}
	words := q.line[q.spans[k].From:q.spans[k].To]
	if inBlock(words) {
		return !key
	}
	gap := bytes.IndexAny(words, " \t\n")
	return len(words) <= maxName && (gap < 0 || !bytes.ContainsAny(words[gap+1:], " \t\n"))
}

// spanAt returns the index of the first span that ends after byte i, and reports whether the span contains that byte.
func (q *Quotes) spanAt(i int) (k int, in bool) {
	spans := q.spans
	k, _ = slices.BinarySearchFunc(spans, i, func(s Span, i int) int { return s.To - i - 1 })
	return k, k < len(spans) && spans[k].From <= i
}

func inBlock(words []byte) bool {
	return words[0] == '\t' || bytes.HasPrefix(words, []byte("<\n"))
}

// isQuoted reports whether byte i belongs to text that the program quotes.
func (q *Quotes) isQuoted(i int) bool {
	q.readTo(i + 1)
	return q.isQuotation(i)
}

// isQuotation is isQuoted for a byte up to which the spans have been found.
func (q *Quotes) isQuotation(i int) bool {
	k, in := q.spanAt(i)
	return in && q.spans[k].Voice == Quotation
}

// HasWord reports whether text has a letter or digit.
func HasWord(text []byte) bool {
	for _, c := range text {
		if wordByte(c) {
			return true
		}
	}
	return false
}

// wordByte reports whether c can belong to a word. Such a byte is a letter, a digit, or a byte of a character that is
// not ASCII.
func wordByte(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}

func (q *Quotes) scan() {
	b := q.line
	if b[0] == '\t' {
		from := 0
		if !q.Block && bytes.HasPrefix(b, []byte("\tpanic: ")) {
			from = 1
		}
		q.findQuoted(from, len(b), 0, Message, nil)
		return
	}
	if firstByte(b) == '{' && q.readObject(0) {
		return
	}
	if body, klog := headerEnd(b); klog && pairsFollow(b[body:]) || !klog && isLogfmt(b[body:]) {
		q.readPairs(body)
		return
	} else if !klog && body > 0 && b[body] == '{' && q.readObject(body) {
		return
	}
	if k := fieldsAfterText(b); k > 0 {
		if q.findQuoted(0, k, 0, Message, nil); !q.isQuotation(k-1) && q.readObject(k) {
			return
		}
		q.spans = q.spans[:0]
	}
	q.findQuoted(0, len(b), 0, Message, nil)
}

// fieldsAfterText returns the offset of the JSON object at the end of a line of zap's console encoder. It returns 0 if
// there is none.
func fieldsAfterText(b []byte) int {
	k := bytes.Index(b, []byte(`{"`))
	if k < 2 {
		return 0
	}
	head := bytes.TrimRight(b[:k], " ")
	n := len(head)
	if n == 0 || head[n-1] != '\t' && (n == k || !wordByte(head[n-1]) && head[n-1] != '.') {
		return 0
	}
	return k
}

// maxHeader is the maximum length in bytes of the text that a runtime, a journal or a logger writes before a message.
const maxHeader = 160

// headerEnd returns the end of the header of a line. A header is a klog header, for which klog is true, or a prefix
// that ends with a bracket or a vertical bar, such as the prefix of a journal. Neither contains quotes.
func headerEnd(b []byte) (end int, klog bool) {
	head := b[:min(len(b), maxHeader)]
	head = head[:indexAny(head, "\"'`")]
	for i := indexAny(head, "]|"); i+1 < len(head); i += 1 + indexAny(head[i+1:], "]|") {
		k := i + 1
		if head[i] == ']' && head[k] == ':' && k+1 < len(head) {
			k++
		}
		if head[k] != ' ' {
			continue
		}
		if end = k + 1; k == i+1 && head[i] == ']' && endsHeader(head[:k]) {
			return end, true
		}
		if rest := b[end:]; len(rest) > 0 && rest[0] == '{' || isLogfmt(rest) {
			return end, false
		}
	}
	k := len(head)
	if shortened := klogStart(b) && k < len(b) && b[k] == '"'; shortened || k == 0 && pairAfterText(b) {
		return k, true
	}
	return 0, false
}

func klogStart(b []byte) bool {
	return len(b) > 5 && b[5] == ' ' && isDigit(b[1]) && isDigit(b[2]) && isDigit(b[3]) && isDigit(b[4]) && bytes.IndexByte([]byte("IWEF"), b[0]) >= 0
}

// pairAfterText reports whether a line is a quoted text that is followed by key=value pairs or by nothing.
func pairAfterText(b []byte) bool {
	r := textReader{b: b}
	if _, ok := r.readQuoted(); !ok {
		return false
	}
	if !r.nextToken() {
		return true
	}
	key, _ := r.readKey()
	return len(key) > 0
}

// pairsFollow reports whether the text after a klog header consists of a quoted message and key=value pairs. With
// klogr, a logger name precedes them.
func pairsFollow(body []byte) bool {
	k := bytes.IndexByte(body, '"')
	if k <= 0 {
		return k == 0
	}
	r := textReader{b: body, i: k}
	_, ok := r.readQuoted()
	return ok && r.currentByte() == '=' && body[k-1] == ' '
}

// isLogfmt reports whether a line consists of key=value pairs. Such a line begins with a pair, and has a message, a
// level or a time.
func isLogfmt(b []byte) bool {
	r := textReader{b: b}
	for first := true; r.nextToken(); first = false {
		key, _ := r.readKey()
		if len(key) == 0 {
			if first {
				return false
			}
			continue
		}
		if isHeaderKey(key) || VoiceOf(key) == Message {
			return true
		}
		r.readValue()
	}
	return false
}

// isHeaderKey reports whether the key names a level or a time, whose value is one word.
func isHeaderKey(key []byte) bool {
	switch string(key) {
	case "level", "lvl", "ts", "time", "t":
		return true
	}
	return false
}

// readPairs reads key=value fields from byte start on. A quoted text at the start is the message. Words without a key
// belong to the previous value, because some loggers write values without quotes.
func (q *Quotes) readPairs(start int) {
	r := textReader{b: q.line, i: start}
	voice, field := Message, []byte(nil) // voice and name of the current field
	bare := -1                           // start of the field's unquoted text, or -1
	flush := func(end int) {
		if bare >= 0 {
			q.noteValue(bare, bare, end, voice, field, false)
		}
		bare = -1
	}
	end := start
	// An unquoted text that begins before the limit is read to its end, even beyond the limit. A quote inside the text
	// may be closed only after the limit.
	for first := true; r.nextToken() && (r.i < q.limit || bare >= 0); first = false {
		from := r.i
		key, quoted := r.readKey()
		switch {
		case len(key) == 0 && first && quoted:
			to := r.i - 1
			if r.b[to] != '"' || to == from { // the closing quote was cut off
				to = len(r.b)
				r.i = to
			}
			q.findQuoted(from+1, to, 1, Message, nil)
		case len(key) == 0:
			if bare < 0 {
				bare = from
			}
		default:
			flush(end)
			if from >= q.limit {
				return
			}
			at := r.i + 1
			_, kind, _ := r.readValue()
			field, voice = key, VoiceOf(key)
			switch kind {
			case blockValue:
				q.addSpan(at, r.i, Quotation, field)
			case bareValue:
				q.addSpan(from, at, voice&Error, field)
				if bare = at; isHeaderKey(key) {
					q.noteValue(at, at, r.i, voice, field, false)
					voice, field, bare = Message, nil, -1
				}
			default:
				q.noteValue(from, at, r.i, voice, field, true)
				voice, field = Message, nil // words after a quoted value are in the program's own voice again
			}
		}
		end = r.i
	}
	flush(end)
}

// readKey reads a key before an equals sign. If there is no key, it reads a word or a quoted text. quoted reports
// whether the text begins with a quote.
func (r *textReader) readKey() (key []byte, quoted bool) {
	from := r.i
	if quoted = r.b[from] == '"'; quoted {
		if text, ok := r.readQuoted(); ok && r.currentByte() == '=' {
			return text, true
		} else if !ok {
			r.i++
		}
		return nil, true
	}
	if r.skipWord(); r.currentByte() == '=' && r.i > from && !bytes.ContainsAny(r.b[from:r.i], ":?&(") {
		return r.b[from:r.i], false
	}
	if r.i == from {
		r.i++
	}
	return nil, false
}

// readObject reads the fields of the JSON object at byte start. It returns false and changes nothing if there is no
// object. If the object is malformed, the rest is read as text.
func (q *Quotes) readObject(start int) bool {
	r := jsonReader{b: q.line, i: start}
	r.skipSpace()
	r.i++
	for first := true; ; first = false {
		if r.skipSpace(); r.currentByte() == '}' {
			q.findQuoted(r.i+1, len(r.b), 0, Message, nil)
			return true
		}
		from := r.i
		key, ok := r.readKey()
		if !ok && first {
			return false
		} else if !ok {
			q.findQuoted(from, len(r.b), 0, Message, nil)
			return true
		}
		at, quoted := r.i, r.currentByte() == '"'
		ok = r.skipValue()
		switch voice := VoiceOf(key); {
		case !ok && !r.atEnd():
			q.findQuoted(at, len(r.b), 0, Message, nil)
			return true
		case quoted:
			q.noteValue(from, at, r.i, voice, key, true)
		default:
			q.addSpan(at, r.i, Quotation, key)
		}
		r.skipSpace()
		if r.atEnd() || r.i >= q.limit {
			return true
		}
		if r.currentByte() == ',' {
			r.i++
		}
	}
}

// readKey reads a key and its colon, and moves to the value. It does not move if there is no key.
func (r *jsonReader) readKey() (key []byte, ok bool) {
	from := r.i
	if r.currentByte() == '"' {
		if key, ok = r.readQuoted(); ok {
			if r.skipSpace(); r.currentByte() == ':' {
				r.i++
				r.skipSpace()
				return key, true
			}
		}
	}
	r.i = from
	return nil, false
}

func (r *jsonReader) skipValue() (ok bool) {
	switch r.currentByte() {
	case '"':
		_, ok = r.readQuoted()
	case '{', '[':
		ok = r.skipNested()
	default:
		ok = r.readLiteral(&jsonMember{})
	}
	return ok
}

// VoiceOf returns the voice of the value of a field.
func VoiceOf(key []byte) Voice {
	switch string(key) {
	case "msg", "message":
		return Message
	case "err", "error", "cause":
		return Error
	}
	return Quotation
}

// noteValue records the value i:end of a field whose key begins at start. The quotes of a quoted value belong to its
// span.
func (q *Quotes) noteValue(start, i, end int, voice Voice, field []byte, quoted bool) { //nolint:revive // positions and what is known of the field
	if voice == Quotation {
		q.addSpan(i, end, Quotation, field)
		return
	}
	level := 0
	if quoted {
		level = 1
	}
	if voice == Error {
		q.addSpan(start, min(i+level, end), Error, field)
	}
	if i += level; quoted && end > i && q.line[end-1] == '"' {
		end--
	}
	q.findQuoted(i, end, level, voice, field)
}

// addSpan records a span unless it is in the voice Message.
func (q *Quotes) addSpan(start, end int, voice Voice, field []byte) {
	if start < end && voice > Message {
		q.spans = append(q.spans, Span{start, end, voice, field})
	}
}

// mayOpen are the bytes that can begin a quoted string or a line of a klog block.
const mayOpen = "\"'`\t"

// searched is the number of bytes that are searched at a time. The search is limited because a text may consist of
// bytes that can begin a string.
const searched = 256

// indexAny is bytes.IndexAny for a few bytes in short texts. It returns len(b) if none is found.
func indexAny(b []byte, few string) int {
	for i := range len(few) {
		if k := bytes.IndexByte(b, few[i]); k >= 0 {
			b = b[:k]
		}
	}
	return len(b)
}

// findQuoted finds the quoted strings, and the lines that begin with a tab, in the section start:stop. level is the
// number of escaped strings that contain the section. A quote at that level has 2^level-1 backslashes.
func (q *Quotes) findQuoted(start, stop, level int, voice Voice, field []byte) {
	b := q.line
	for i := start; i < stop; {
		next := b[i:min(i+searched, stop)]
		k := indexAny(next, mayOpen)
		if i += k; k == len(next) {
			continue
		}
		end := 0
		switch {
		case b[i] != '\t':
			end = quoteEnd(b[:stop], i, start, level)
		case i == 0 || b[i-1] == '\n':
			if end = bytes.IndexByte(b[i:stop], '\n'); end < 0 {
				end = stop
			} else {
				end += i
			}
		}
		if end == 0 {
			i++
			continue
		}
		q.addSpan(start, i, voice, field)
		if key := keyBefore(b[start:i]); level == 0 && b[i] == '"' && len(key) > 0 {
			q.noteValue(i, i, end, VoiceOf(key), key, true)
		} else {
			q.addSpan(i, end, Quotation, field)
		}
		start, i = end, end
	}
	q.addSpan(start, stop, voice, field)
}

// keyBefore returns the key at the end of a text that ends with a key and an equals sign. It returns nil for any other
// text.
func keyBefore(b []byte) []byte {
	n := len(b) - 1
	if n < 1 || b[n] != '=' {
		return nil
	}
	key := b[bytes.LastIndexAny(b[:n], " \t")+1 : n]
	if bytes.ContainsFunc(key, func(r rune) bool { return !wordByte(byte(r)) && r != '_' && r != '-' && r != '.' }) {
		return nil
	}
	return key
}

// quoteEnd returns the end of the string that the quote at byte i opens. It returns 0 if the quote does not open a
// string. The text begins at from. A string without a closing quote was cut off and ends with the text.
func quoteEnd(b []byte, i, from, level int) int {
	quote, inWord := b[i], i > from && wordByte(b[i-1])
	depth := 1 // number of backslashes of the quote plus one, rounded down to a power of two
	if quote == '"' {
		escapes := countBackslashes(b[from:i])
		for 2*depth <= escapes+1 {
			depth *= 2
		}
		afterWord := i-escapes > from && wordByte(b[i-escapes-1])
		if depth < 1<<level || afterWord && isClosingQuote(b[i+1:]) {
			return 0
		}
	} else if inWord || i+1 == len(b) || isSpace(b[i+1]) {
		return 0
	}
	for k, open := i+1, 1; k < len(b); k++ {
		if b[k] != quote {
			continue
		}
		n := countBackslashes(b[i+1 : k])
		switch {
		case quote == '"' && n < depth-1:
			return k + 1
		case quote == '"' && n%(2*depth) != depth-1, quote != '"' && n > 0:
		case isOpeningQuote(b, k-n, k+1):
			open++
		case quote == '"' || k+1 == len(b) || !wordByte(b[k+1]):
			if open--; open == 0 {
				return k + 1
			}
		}
	}
	if inWord {
		return 0
	}
	return len(b)
}

// isOpeningQuote reports whether a quote inside quoted text looks like the start of a nested quotation that a program
// wrote without escapes. The quote and its backslashes lie between the offsets before and behind.
func isOpeningQuote(b []byte, before, behind int) bool {
	for behind < len(b) && b[behind] == '\\' {
		behind++
	}
	if behind == len(b) || before == 0 {
		return false
	}
	last := b[before-1]
	if wordByte(b[behind]) {
		return !wordByte(last)
	}
	return bytes.IndexByte([]byte("\"'`/*&({[<"), b[behind]) >= 0 && (isSpace(last) || bytes.IndexByte([]byte("\"'`=:([{<,"), last) >= 0)
}

// isClosingQuote reports whether rest, the text after a quote, looks like text after the end of a string.
func isClosingQuote(rest []byte) bool {
	return len(rest) > 0 && (isSpace(rest[0]) || bytes.IndexByte([]byte(":,;.)"), rest[0]) >= 0)
}
