package lines

import (
	"bytes"
	"slices"
)

// Voice says whose words a stretch of a line is.
type Voice uint8

// The voices.
const (
	Message   Voice = 1 << iota // message of the program, with the keys of its fields
	Error                       // value of the field err, error or cause
	Quotation                   // words of others
)

// Span is a stretch of a line that is not in the voice Message.
type Span struct {
	From, To int
	Voice    Voice
	// Field is the name of the field whose value the stretch belongs to, as it is written;
	// empty for a part of the message.
	Field []byte
}

// Quotes are the stretches of a line in which the program does not speak for itself:
//
//   - values of fields other than msg, message, err, error and cause, in JSON, logfmt and klog,
//   - quoted strings within a message, an error, or a line without fields,
//   - lines of a record that begin with a tab.
//
// The object at the end of a line of zap's console encoder holds fields. The zero value is
// ready.
type Quotes struct {
	// Block says that the line is one of a block of klog. Otherwise a panic that begins with a tab
	// is the program's own: the runtime of Go repeats one that was recovered.
	Block bool
	line  []byte
	spans []Span
	// upTo is the end of the part of the line whose spans are known.
	upTo int
	// limit is where reading may stop: what is read before does not depend on what follows.
	limit int
}

// Reset sets the line to read, without its envelope. It must not change while spans are used.
func (q *Quotes) Reset(line []byte) { q.line, q.spans, q.upTo = line, q.spans[:0], 0 }

// Spans returns the stretches that are not in the voice Message, in order. They are valid
// until the next Reset.
func (q *Quotes) Spans() []Span {
	q.read(len(q.line))
	return q.spans
}

// Plain reports whether nothing in the line can begin a span.
func (q *Quotes) Plain() bool {
	for _, c := range []byte("\"='`\t") {
		if bytes.IndexByte(q.line, c) >= 0 {
			return false
		}
	}
	return true
}

// read finds the spans that begin before a byte. Most lines match near their start.
func (q *Quotes) read(to int) {
	if to <= q.upTo {
		return
	}
	q.limit = to
	if q.upTo > 0 {
		q.limit = len(q.line)
	}
	q.spans = q.spans[:0]
	if !q.Plain() {
		q.scan()
	}
	q.upTo = q.limit
}

// Says reports whether a word in the stretch from:to of the line is at least in part in one
// of the voices. A stretch without words belongs to every voice.
func (q *Quotes) Says(from, to int, voices Voice) bool {
	q.read(to)
	k, _ := q.spanAt(from)
	spans, words := q.spans, false
	for i := from; i < to; i++ {
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

// Within reports whether the whole stretch from:to of the line is in the voices.
func (q *Quotes) Within(from, to int, voices Voice) bool {
	q.read(to)
	at := from
	for k, _ := q.spanAt(from); k < len(q.spans) && q.spans[k].From < to; k++ {
		if q.spans[k].Voice&voices == 0 || at < q.spans[k].From && voices&Message == 0 {
			return false
		}
		at = q.spans[k].To
	}
	return at >= to || voices&Message != 0
}

// maxName bounds the bytes of words of others that can be a name.
const maxName = 512

// Names reports whether the words in the stretch from:to lie in words of others that can be a
// name, such as a URL: at most two, or, without keys, the lines of a block, which names what failed.
// There is a word in the stretch.
func (q *Quotes) Names(from, to int) bool {
	key := bytes.IndexByte(q.line[from:to], '=') >= 0 || bytes.Contains(q.line[from:to], []byte(`":`))
	for !wordByte(q.line[from]) {
		from++
	}
	for !wordByte(q.line[to-1]) {
		to--
	}
	q.read(len(q.line))
	k, in := q.spanAt(from)
	if !in || q.spans[k].To < to {
		return false
	}
	words := q.line[q.spans[k].From:q.spans[k].To]
	if inBlock(words) {
		return !key
	}
	gap := bytes.IndexAny(words, " \t\n")
	return len(words) <= maxName && (gap < 0 || !bytes.ContainsAny(words[gap+1:], " \t\n"))
}

// spanAt returns the index of the first span that ends behind a byte, and whether the byte is in it.
func (q *Quotes) spanAt(at int) (k int, in bool) {
	spans := q.spans
	k, _ = slices.BinarySearchFunc(spans, at, func(s Span, at int) int { return s.To - at - 1 })
	return k, k < len(spans) && spans[k].From <= at
}

// inBlock reports whether words of others are lines below another one.
func inBlock(words []byte) bool {
	return words[0] == '\t' || bytes.HasPrefix(words, []byte("<\n"))
}

// quoted reports whether a byte is in words of others.
func (q *Quotes) quoted(at int) bool {
	q.read(at + 1)
	return q.isQuotation(at)
}

// isQuotation is quoted for a byte that was read.
func (q *Quotes) isQuotation(at int) bool {
	k, in := q.spanAt(at)
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

// wordByte reports whether c belongs to a word: a letter, a digit, or a part of a letter that
// is not ASCII.
func wordByte(c byte) bool {
	return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}

func (q *Quotes) scan() {
	b := q.line
	if b[0] == '\t' {
		from := 0
		if !q.Block && bytes.HasPrefix(b, []byte("\tpanic: ")) {
			from = 1
		}
		q.text(from, len(b), 0, Message, nil)
		return
	}
	if firstByte(b) == '{' && q.object(0) {
		return
	}
	if body, klog := headerEnd(b); klog && pairsFollow(b[body:]) || !klog && logfmt(b[body:]) {
		q.pairs(body)
		return
	} else if !klog && body > 0 && b[body] == '{' && q.object(body) {
		return
	}
	if k := fieldsAfterText(b); k > 0 {
		if q.text(0, k, 0, Message, nil); !q.isQuotation(k-1) && q.object(k) {
			return
		}
		q.spans = q.spans[:0]
	}
	q.text(0, len(b), 0, Message, nil)
}

// fieldsAfterText returns where an object begins that ends the line, as zap's console encoder
// writes the fields behind a message. It returns 0 if there is none.
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

// maxHeader bounds what a runtime, a journal or a logger writes before a line.
const maxHeader = 160

// headerEnd returns where a line begins behind its header: that of klog, which reports klog, or
// a prefix that ends with a bracket or a bar, such as that of a journal. There are no quotes in
// either.
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
		if rest := b[end:]; len(rest) > 0 && rest[0] == '{' || logfmt(rest) {
			return end, false
		}
	}
	k := len(head)
	if shortened := klogStart(b) && k < len(b) && b[k] == '"'; shortened || k == 0 && pairAfterText(b) {
		return k, true
	}
	return 0, false
}

// klogStart reports whether a line begins with a level and a date of klog.
func klogStart(b []byte) bool {
	return len(b) > 5 && b[5] == ' ' && digit(b[1]) && digit(b[2]) && digit(b[3]) && digit(b[4]) && bytes.IndexByte([]byte("IWEF"), b[0]) >= 0
}

// pairAfterText reports whether a line is a quoted text with pairs or nothing after it.
func pairAfterText(b []byte) bool {
	r := textReader{b: b}
	if _, ok := r.quoted(); !ok {
		return false
	}
	if !r.skip() {
		return true
	}
	key, _ := r.key()
	return len(key) > 0
}

// pairsFollow reports whether the text after the header of klog consists of a quoted message
// and pairs. klogr writes a name before them.
func pairsFollow(body []byte) bool {
	k := bytes.IndexByte(body, '"')
	if k <= 0 {
		return k == 0
	}
	r := textReader{b: body, i: k}
	_, ok := r.quoted()
	return ok && r.next() == '=' && body[k-1] == ' '
}

// logfmt reports whether a line consists of pairs: it begins with one, and has a message, a
// level or a time.
func logfmt(b []byte) bool {
	r := textReader{b: b}
	for first := true; r.skip(); first = false {
		key, _ := r.key()
		if len(key) == 0 {
			if first {
				return false
			}
			continue
		}
		if header(key) || VoiceOf(key) == Message {
			return true
		}
		r.value()
	}
	return false
}

// header reports whether the field of that name is a level or a time, which is one word.
func header(key []byte) bool {
	switch string(key) {
	case "level", "lvl", "ts", "time", "t":
		return true
	}
	return false
}

// pairs reads fields key=value from byte start. A quoted text at the start is the message.
// Words without a key belong to the value before them, because some loggers write values
// without quotes.
func (q *Quotes) pairs(start int) {
	r := textReader{b: q.line, i: start}
	voice, field := Message, []byte(nil) // voice and name of the newest field
	bare := -1                           // start of the text without quotes that belongs to it
	flush := func(end int) {
		if bare >= 0 {
			q.value(bare, bare, end, voice, field, false)
		}
		bare = -1
	}
	end := start
	for first := true; r.skip() && r.i < q.limit; first = false {
		from := r.i
		key, quoted := r.key()
		switch {
		case len(key) == 0 && first && quoted:
			to := r.i - 1
			if r.b[to] != '"' || to == from { // its end was cut
				to = len(r.b)
				r.i = to
			}
			q.text(from+1, to, 1, Message, nil)
		case len(key) == 0:
			if bare < 0 {
				bare = from
			}
		default:
			flush(end)
			at := r.i + 1
			_, kind, _ := r.value()
			field, voice = key, VoiceOf(key)
			switch {
			case kind == blockValue:
				q.add(at, r.i, Quotation, field)
			case kind == bareValue:
				q.add(from, at, voice&Error, field)
				if bare = at; header(key) {
					q.value(at, at, r.i, voice, field, false)
					voice, field, bare = Message, nil, -1
				}
			default:
				q.value(from, at, r.i, voice, field, true)
				voice, field = Message, nil // words after the quotes are the program's
			}
		}
		end = r.i
	}
	flush(end)
}

// key reads a key before an equals sign, or else a word or a quoted text. quoted reports
// whether it begins with a quote.
func (r *textReader) key() (key []byte, quoted bool) {
	from := r.i
	if quoted = r.b[from] == '"'; quoted {
		if text, ok := r.quoted(); ok && r.next() == '=' {
			return text, true
		} else if !ok {
			r.i++
		}
		return nil, true
	}
	if r.word(); r.next() == '=' && r.i > from && !bytes.ContainsAny(r.b[from:r.i], ":?&(") {
		return r.b[from:r.i], false
	}
	if r.i == from {
		r.i++
	}
	return nil, false
}

// object reads the fields of the JSON object at byte start. It returns false, and changes
// nothing, if there is none. Where an object is broken, text follows.
func (q *Quotes) object(start int) bool {
	r := jsonReader{b: q.line, i: start}
	r.skip()
	r.i++
	for first := true; ; first = false {
		if r.skip(); r.next() == '}' {
			q.text(r.i+1, len(r.b), 0, Message, nil)
			return true
		}
		from := r.i
		key, ok := r.key()
		if !ok && first {
			return false
		} else if !ok {
			q.text(from, len(r.b), 0, Message, nil)
			return true
		}
		at, quoted := r.i, r.next() == '"'
		ok = r.skipValue()
		switch voice := VoiceOf(key); {
		case !ok && !r.atEnd():
			q.text(at, len(r.b), 0, Message, nil)
			return true
		case quoted:
			q.value(from, at, r.i, voice, key, true)
		default:
			q.add(at, r.i, Quotation, key)
		}
		r.skip()
		if r.atEnd() || r.i >= q.limit {
			return true
		}
		if r.next() == ',' {
			r.i++
		}
	}
}

// key reads a key and its colon. It moves to the value, or not at all.
func (r *jsonReader) key() (key []byte, ok bool) {
	from := r.i
	if r.next() == '"' {
		if key, ok = r.quoted(); ok {
			if r.skip(); r.next() == ':' {
				r.i++
				r.skip()
				return key, true
			}
		}
	}
	r.i = from
	return nil, false
}

// skipValue skips a value.
func (r *jsonReader) skipValue() (ok bool) {
	switch r.next() {
	case '"':
		_, ok = r.quoted()
	case '{', '[':
		ok = r.array()
	default:
		ok = r.literal(&jsonMember{})
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

// value notes the value at:to of a field whose key begins at from. The quotes of a quotation
// belong to it.
func (q *Quotes) value(from, at, to int, voice Voice, field []byte, quoted bool) {
	if voice == Quotation {
		q.add(at, to, Quotation, field)
		return
	}
	level := 0
	if quoted {
		level = 1
	}
	if voice == Error {
		q.add(from, min(at+level, to), Error, field)
	}
	if at += level; quoted && to > at && q.line[to-1] == '"' {
		to--
	}
	q.text(at, to, level, voice, field)
}

// add notes a stretch that is not in the voice Message.
func (q *Quotes) add(from, to int, voice Voice, field []byte) {
	if from < to && voice > Message {
		q.spans = append(q.spans, Span{from, to, voice, field})
	}
}

// mayOpen are the bytes that can begin a quoted string or a line of a block.
const mayOpen = "\"'`\t"

// searched bounds the bytes that are searched at a time: a text may consist of what can begin a string.
const searched = 256

// indexAny is bytes.IndexAny for few bytes in short texts; it returns the length of b if there is none.
func indexAny(b []byte, few string) int {
	for i := range len(few) {
		if k := bytes.IndexByte(b, few[i]); k >= 0 {
			b = b[:k]
		}
	}
	return len(b)
}

// text finds the quoted strings and the lines after a tab in the stretch from:to. level is
// how many strings with escapes it is inside of: a quote there has 2^level-1 backslashes.
func (q *Quotes) text(from, to, level int, voice Voice, field []byte) {
	b := q.line
	for i := from; i < to; {
		next := b[i:min(i+searched, to)]
		k := indexAny(next, mayOpen)
		if i += k; k == len(next) {
			continue
		}
		end := 0
		switch {
		case b[i] != '\t':
			end = quoteEnd(b[:to], i, from, level)
		case i == 0 || b[i-1] == '\n':
			if end = bytes.IndexByte(b[i:to], '\n'); end < 0 {
				end = to
			} else {
				end += i
			}
		}
		if end == 0 {
			i++
			continue
		}
		q.add(from, i, voice, field)
		if key := keyBefore(b[from:i]); level == 0 && b[i] == '"' && len(key) > 0 {
			q.value(i, i, end, VoiceOf(key), key, true)
		} else {
			q.add(i, end, Quotation, field)
		}
		from, i = end, end
	}
	q.add(from, to, voice, field)
}

// keyBefore returns the key of a field at the end of a text, before its equals sign. It returns
// nil if the text ends otherwise.
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

// quoteEnd returns the end of the string that the quote at byte i opens, 0 if it opens none.
// Text begins at from. A string that nothing closes was cut, and ends with the text.
func quoteEnd(b []byte, i, from, level int) int {
	quote, inWord := b[i], i > from && wordByte(b[i-1])
	depth := 1 // one more than the backslashes of the quote, a power of two
	if quote == '"' {
		escapes := backslashes(b[from:i])
		for 2*depth <= escapes+1 {
			depth *= 2
		}
		afterWord := i-escapes > from && wordByte(b[i-escapes-1])
		if depth < 1<<level || afterWord && closes(b[i+1:]) {
			return 0
		}
	} else if inWord || i+1 == len(b) || space(b[i+1]) {
		return 0
	}
	for k, open := i+1, 1; k < len(b); k++ {
		if b[k] != quote {
			continue
		}
		n := backslashes(b[i+1 : k])
		switch {
		case quote == '"' && n < depth-1:
			return k + 1
		case quote == '"' && n%(2*depth) != depth-1, quote != '"' && n > 0:
		case opens(b, k-n, k+1):
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

// opens reports whether what stands before and behind a quote within a quotation looks like the
// start of another one, which a program wrote into its quotes without escapes.
func opens(b []byte, before, behind int) bool {
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
	return bytes.IndexByte([]byte("\"'`/*&({[<"), b[behind]) >= 0 && (space(last) || bytes.IndexByte([]byte("\"'`=:([{<,"), last) >= 0)
}

// closes reports whether the text behind a quote is what stands behind the end of a string.
func closes(rest []byte) bool {
	return len(rest) > 0 && (space(rest[0]) || bytes.IndexByte([]byte(":,;.)"), rest[0]) >= 0)
}
