package discover

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Complaint is what one line reports.
type Complaint struct {
	Level Level
	// Key identifies the pattern: equal for lines that differ only in what placeholders
	// replace.
	Key uint64
	// Line is the whole line, at most maxComplaint bytes of it.
	Line redact.Text
	// Object names what the line is about; "" if it names nothing.
	Object redact.Text
	// Words is how severe the wording is, from 0 to 3.
	Words int
	// Passes means that such a complaint usually ends by itself, such as a conflict of
	// the optimistic lock.
	Passes bool
	// Waits means that nothing has failed: the line only reports a wait.
	Waits bool
	// Ends means that the program, or a part of it, ended: a panic, a fatal record, or one
	// that says so.
	Ends bool
	// Thing is the first name in a line without an Object, such as that of a device; "" if
	// there is none. It may vary although the failure is the same.
	Thing redact.Text
}

// Urgent reports whether the line states an error, or words that amount to one.
func (c *Complaint) Urgent() bool {
	return c.Level >= levelError || c.Level >= levelUnknown && c.Words >= int(ordinary)
}

// Fatal reports whether the program ended, by its own account.
func (c *Complaint) Fatal() bool { return c.Level == levelFatal }

// ComplaintReader judges single lines as Finder does. The zero value is ready. It is not
// safe for concurrent use.
type ComplaintReader struct {
	lines  lineReader
	masked []byte
	spans  []span
	read   parsedLine // fields of the last line, uncut
}

// maxComplaint bounds how much of a line is read, in bytes.
const maxComplaint = 16 << 10

// Read reads a line, or a record of several, without its envelope. ok is false if it does
// not complain, or belongs to a line before it. The line decides whether it complains; all
// texts come from the line as the redactor leaves it.
func (r *ComplaintReader) Read(line string, red *redact.Redactor) (c Complaint, ok bool) {
	if len(line) > maxComplaint { // without its last word, which may be half a secret
		line = line[:1+strings.LastIndexAny(line[:maxComplaint], " \n")]
	}
	raw := line
	crash := strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	if !crash && continuation(line) {
		return c, false
	}
	p, line := r.parse(line)
	if p.Message == "" {
		return c, false
	}
	if crash {
		p.Level = levelFatal
	}
	r.read = p
	message, err := firstLine(p.Message, maxMessage), firstLine(p.Error, maxError)
	c.Ends = p.Level == levelFatal || ends(message) || ends(err)
	if !c.Ends && clientLeft(firstLine(p.Message, len(p.Message)), p.Error) {
		return Complaint{}, false
	}
	r.mask(message, err)
	var j judgement
	j.judge(r.masked) // "0 errors" is no complaint
	c.Level, c.Words = p.Level, int(j.weight)
	c.Passes, c.Waits = j.patience&transient != 0, p.Level < levelWarning && j.weight == 0 && j.patience&waits != 0
	switch {
	case p.Level >= levelWarning:
	case p.Level == levelDebug, !c.Waits && j.weight < ordinary:
		return c, false
	}
	if c.Line = red.Text(raw); string(c.Line) != raw {
		if p, line = r.parse(string(c.Line)); p.Message == "" {
			p.Message = line
		}
		r.read = p
		message, err = firstLine(p.Message, maxMessage), firstLine(p.Error, maxError)
		r.mask(message, err)
	}
	r.unify(message, err)
	c.Key = xxhash.Sum64(r.masked)
	if c.Object = red.Part(raw, c.Line, r.object(line)); c.Object == "" {
		c.Thing = red.Part(raw, c.Line, r.thing())
	}
	// A line that is harmless by its level is ordinary unless it repeats for one object.
	return c, p.Level > levelInfo || c.Object != ""
}

// parse reads a line, or a record, and returns its first line if the rest is its error. It
// cuts nothing.
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

// mask replaces what varies in a message and its error.
func (r *ComplaintReader) mask(message, err string) { r.masked = r.append(message, err, false) }

// unify replaces zeros too: "failure 0" and "failure 12" have one pattern.
func (r *ComplaintReader) unify(message, err string) {
	if strings.Contains(message, zero) || strings.Contains(err, zero) {
		r.masked = r.append(message, err, true)
	}
}

func (r *ComplaintReader) append(message, err string, zeros bool) []byte {
	out := r.masked[:0]
	for i, part := range []string{message, err} {
		if part == "" {
			continue
		}
		if i > 0 {
			out = append(out, " "+errorSeparator+" "...)
		}
		r.spans = spans(r.spans[:0], part)
		for k := range r.spans {
			if s := &r.spans[k]; zeros && s.mask == "" && part[s.start:s.end] == zero {
				s.mask = maskNumber
			}
		}
		out = appendSpans(out, r.spans, part)
	}
	return out
}

// Template returns the pattern of the last line with placeholders, and the pattern of its
// error; "" if it states none. The redactor sees each again: decoding may have uncovered a
// secret.
func (r *ComplaintReader) Template(red *redact.Redactor) (message, err redact.Text) {
	message, err = red.Text(r.read.Message), red.Text(r.read.Error)
	message = message.Map(func(s string) string { return text.Ends(firstLine(s, len(s)), maxMessage) })
	err = err.Map(func(s string) string { return text.Ends(Essence(strings.TrimSpace(s)), maxError) })
	mask := func(s string) string {
		r.masked = r.append(s, "", true)
		return strings.TrimSpace(string(r.masked))
	}
	return message.Map(mask), err.Map(mask)
}

// object returns the object of the last line: that of its fields, or else the first name
// of the message or of the error.
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
	for _, part := range []string{firstLine(r.read.Message, maxMessage), firstLine(r.read.Error, maxError)} {
		r.spans = spans(r.spans[:0], part)
		for i, s := range r.spans {
			quoted := s.mask == maskName && i > 0 && strings.IndexByte("\"'`", part[r.spans[i-1].start]) >= 0
			if s.mask == maskObject || quoted {
				return part[s.start:s.end]
			}
		}
	}
	return ""
}

// thing returns the first name or path of the last line, or the first identifier that
// begins with a word, such as pvc-7c1f.
func (r *ComplaintReader) thing() string {
	for _, part := range []string{firstLine(r.read.Message, maxMessage), firstLine(r.read.Error, maxError)} {
		r.spans = spans(r.spans[:0], part)
		for _, s := range r.spans {
			word := part[s.start:s.end]
			k := strings.IndexByte(word, '-')
			named := s.mask == maskID && k > 1 && strings.ContainsAny(strings.ToLower(word[:k]), "ghijklmnopqrstuvwxyz")
			if s.mask == maskName || s.mask == maskPath && !strings.Contains(word, ".go:") || named {
				return word
			}
		}
	}
	return ""
}

// Similar reports whether two patterns, as Template returns them, report the same
// failure: their fixed words are mostly the same, and all of those that complain.
func Similar(a, b string) bool {
	x, y := distinctiveWords(strings.ToLower(a)), distinctiveWords(strings.ToLower(b))
	if len(x) == 0 || len(y) == 0 {
		return a == b
	}
	both := common(x, y)
	return jaccard(both, len(x), len(y)) >= similarity && slices.Equal(complaintsOf(x), complaintsOf(y))
}

// complaintsOf returns the words that complain.
func complaintsOf(words []string) (out []string) {
	for i, severe := range complaining(words) {
		if severe {
			out = append(out, words[i])
		}
	}
	return out
}

// LevelError is the level of an error.
const LevelError = levelError

// UnmarshalText reads a level. An unknown name is an unknown level.
func (l *Level) UnmarshalText(text []byte) error {
	*l = levelUnknown
	if k := slices.Index(levelNames[:], string(text)); k >= 0 {
		*l = Level(k)
	}
	return nil
}
