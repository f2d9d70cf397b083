package discover

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Complaint describes an error that a line reports, or a wait that it reports.
type Complaint struct {
	Level Level
	// Key identifies the pattern. Lines that differ only in the parts that placeholders replace
	// have equal keys.
	Key uint64
	// Line is the text of the line, truncated to maxComplaint bytes.
	Line redact.Text
	// Object names the object that the line is about. It is empty if the line names none.
	Object redact.Text
	// Words is the severity of the words in the line, from 0 (none) to 3.
	Words int
	// Passes reports that such a failure usually ends by itself, such as a conflict of an
	// optimistic lock.
	Passes bool
	// Waits reports that nothing has failed, because the line only says that the program waits.
	Waits bool
	// Retries reports that the program will try again. Awaits reports that something is not
	// there yet. Both may be set together with any other field.
	Retries, Awaits bool
	// Named reports that a field of the line is named like an error, such as err.
	Named bool
	// Ends reports that the program or a part of it ended, by a panic, a fatal record, or a
	// record that says so.
	Ends bool
	// FirstName is the first name in a line without an Object, such as the name of a device. It is
	// empty if the line has no name. Lines about the same failure may have different names.
	FirstName redact.Text
}

// Urgent reports whether the line is an error by its level or by its words.
func (c *Complaint) Urgent() bool {
	return c.Level >= levelError || c.Level >= levelUnknown && c.Words >= int(ordinary)
}

// Fatal reports whether the line itself says that the program ended.
func (c *Complaint) Fatal() bool { return c.Level == levelFatal }

// ComplaintReader judges single lines by the same criteria as Finder. The zero value is ready.
// It is not safe for concurrent use.
type ComplaintReader struct {
	lines   lineReader
	message spannedText // message that was masked last
	err     spannedText // error that was masked last
	masked  []byte      // message and err with placeholders
	raw     string      // last line that was read
	first   string      // first line of raw, if the error is in the other lines
	read    parsedLine  // parsed form of raw, not truncated
}

// maxComplaint bounds the part of a line that is read, in bytes.
const maxComplaint = 16 << 10

// Read reads a line or a record of several lines, which must have no CRI or Docker envelope, and
// describes the error that it reports. ok is false if the line reports no error or continues an
// earlier line. Read examines the original line, but takes all texts from the redacted line. If
// the level of a line is harmless, the line counts only if an object fails or waits.
func (r *ComplaintReader) Read(line string, red *redact.Redactor) (c Complaint, ok bool) {
	c, ok = r.judge(line)
	if !ok || c.Level == levelDebug || c.Level < levelWarning && !c.Waits && c.Words < int(ordinary) || r.judgeEnd(&c) {
		return Complaint{}, false
	}
	r.describe(&c, red)
	return c, c.Level > levelInfo || c.Object != ""
}

// judge reads a line like Read, but sets no texts. It accepts every level and every word that
// complains. The Key equals the Key that Read sets, unless the line contains secrets.
func (r *ComplaintReader) judge(line string) (c Complaint, ok bool) {
	if len(line) > maxComplaint { // drop the last word, because it may be half of a secret
		line = line[:1+strings.LastIndexAny(line[:maxComplaint], " \n")]
	}
	crash := strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	if first, _, _ := strings.Cut(line, "\n"); !crash && continuation(first) {
		return c, false
	}
	r.raw = line
	if r.read, r.first = r.parse(line); r.read.Message == "" {
		return c, false
	}
	if crash {
		r.read.Level = levelFatal
	}
	r.mask()
	var j judgement
	j.judge(r.masked) // the masked text still contains zeros, so that "0 errors" is no complaint
	c.Level, c.Words, c.Named = r.read.Level, int(j.weight), r.read.Named
	c.Passes, c.Retries, c.Awaits = j.patience&transient != 0, j.patience&retries != 0, j.patience&waits != 0
	c.Waits = c.Level < levelWarning && j.weight == 0 && c.Awaits
	if c.Level < levelWarning && j.weight == 0 && !c.Waits {
		return c, false
	}
	c.Key = r.key()
	return c, true
}

// judgeEnd sets c.Ends, which says whether the program ended. c must be the last result of
// judge. left means that the line only says that a client disconnected, which is not a
// failure.
func (r *ComplaintReader) judgeEnd(c *Complaint) (left bool) {
	message, err := strings.ToLower(firstLine(r.read.Message, len(r.read.Message))), strings.ToLower(r.read.Error)
	c.Ends = c.Level == levelFatal || ends(message[:min(len(message), maxMessage)]) || ends(firstLine(err, maxError))
	return !c.Ends && clientLeft(message, err)
}

// describe sets the texts and the key of c. c must be the last result of judge.
func (r *ComplaintReader) describe(c *Complaint, red *redact.Redactor) {
	raw := r.raw
	if c.Line = red.Text(raw); string(c.Line) != raw {
		if r.read, r.first = r.parse(string(c.Line)); r.read.Message == "" {
			r.read.Message = r.first
		}
		r.mask()
		c.Key = r.key()
	}
	if c.Object = red.Part(raw, c.Line, r.object(r.first)); c.Object == "" {
		c.FirstName = red.Part(raw, c.Line, r.thing())
	}
}

func (r *ComplaintReader) objectHash() uint64 {
	return xxhash.Sum64String(r.read.Message + "\xff" + r.read.Error + "\xff" + r.object(r.first))
}

// parse parses a line or a record, without truncation. If the error is in the
// further lines of a record, it also returns the first line.
func (r *ComplaintReader) parse(line string) (parsedLine, string) {
	r.lines.uncut = true
	p := r.lines.readLine(line)
	first, rest, more := strings.Cut(line, "\n")
	switch {
	case p.Opens && more:
		rest, _, _ = strings.Cut(rest, "\n >")
		p.Error, p.Named = rest, true
		return p, first
	case more && p.Error == "":
		p.Error = causeOf(line)
	}
	return p, line
}

// mask writes the message and the error of the last line, truncated, to r.masked. Placeholders
// replace the parts that vary.
func (r *ComplaintReader) mask() {
	r.message.split(firstLine(r.read.Message, maxMessage))
	r.err.split(firstLine(r.read.Error, maxError))
	r.join()
}

// join writes the masked texts to r.masked.
func (r *ComplaintReader) join() {
	r.masked = appendSpans(r.masked[:0], &r.message)
	if r.err.text != "" {
		r.masked = appendSpans(append(r.masked, " "+errorSeparator+" "...), &r.err)
	}
}

// key returns the hash of the masked texts. It also masks zeros, so that "failure 0" and
// "failure 12" have one pattern.
func (r *ComplaintReader) key() uint64 {
	inMessage, inError := r.message.maskZeros(), r.err.maskZeros()
	if inMessage || inError {
		r.join()
	}
	return xxhash.Sum64(r.masked)
}

// Template returns the message of the last line with placeholders, and its error with
// placeholders, or "" if it states none. Both are redacted once more, because decoding the line
// may have uncovered a secret.
func (r *ComplaintReader) Template(red *redact.Redactor) (message, err redact.Text) {
	message, err = red.Text(r.read.Message), red.Text(r.read.Error)
	message = message.Map(func(s string) string { return text.TruncateMiddle(firstLine(s, len(s)), maxMessage) })
	err = err.Map(func(s string) string { return text.TruncateMiddle(EventText(strings.TrimSpace(s)), maxError) })
	mask := func(s string) string {
		var masked spannedText
		masked.split(s)
		masked.maskZeros()
		return strings.TrimSpace(string(appendSpans(nil, &masked)))
	}
	return message.Map(mask), err.Map(mask)
}

// objectKeys are the fields that identify the object of a line. Other fields, such as ids,
// times and numbers of attempts, vary from line to line.
var objectKeys = []string{"namespace", "name", "key", "object", "node", "pod", "cluster", "machine", "volume", "application"}

// object returns the object of the last line. It takes the object from the line's fields, or
// else the first name in the message or the error.
func (r *ComplaintReader) object(line string) string {
	r.lines.reset(line)
	name := ""
	for _, key := range objectKeys {
		if v, ok := r.lines.fields.Lookup(key); ok && len(v) > 0 {
			if name != "" {
				name += "/"
			}
			name += string(v)
		}
	}
	if name != "" {
		return name
	}
	for _, part := range []*spannedText{&r.message, &r.err} {
		for i, s := range part.spans {
			quoted := s.mask == maskName && i > 0 && strings.IndexByte("\"'`", part.text[part.spans[i-1].start]) >= 0
			if s.mask == maskObject || quoted {
				return part.text[s.start:s.end]
			}
		}
	}
	return ""
}

// thing returns the first name or path of the last line, or the first identifier that
// begins with a word, such as pvc-7c1f.
func (r *ComplaintReader) thing() string {
	for _, part := range []*spannedText{&r.message, &r.err} {
		for _, s := range part.spans {
			word := part.text[s.start:s.end]
			k := strings.IndexByte(word, '-')
			named := s.mask == maskID && k > 1 && strings.ContainsAny(strings.ToLower(word[:k]), "ghijklmnopqrstuvwxyz")
			if s.mask == maskName || s.mask == maskPath && !strings.Contains(word, ".go:") || named {
				return word
			}
		}
	}
	return ""
}

// Similar reports whether two patterns, in the form that Template returns, report the same
// failure. Most of their fixed words must be equal, and all words that indicate a failure.
func Similar(a, b string) bool {
	x, y := distinctiveWords(strings.ToLower(a)), distinctiveWords(strings.ToLower(b))
	if len(x) == 0 || len(y) == 0 {
		return a == b
	}
	both := common(x, y)
	return jaccard(both, len(x), len(y)) >= similarity && slices.Equal(complaintsOf(x), complaintsOf(y))
}

func complaintsOf(words []string) (out []string) {
	for i, severe := range complaintWords(words) {
		if severe {
			out = append(out, words[i])
		}
	}
	return out
}

// LevelError is the level of an error.
const LevelError = levelError

// UnmarshalText parses the name of a level. Any other text becomes the level unknown.
func (l *Level) UnmarshalText(text []byte) error {
	*l = levelUnknown
	if k := slices.Index(levelNames[:], string(text)); k >= 0 {
		*l = Level(k)
	}
	return nil
}
