package discover

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"crowsnest/redact"
)

// Complaint is what one line reports.
type Complaint struct {
	Level Level
	// Key identifies the pattern: equal for lines that differ only in what placeholders
	// replace.
	Key uint64
	// Object names what the line is about; "" if it names nothing.
	Object string
	// Words is how severe the wording is, from 0 to 3.
	Words int
	// Passes means that such a complaint usually ends by itself, such as a conflict of
	// the optimistic lock.
	Passes bool
	// Waits means that nothing has failed: the line only reports a wait.
	Waits bool
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
	read   parsedLine // of the last line
}

// maxComplaint bounds how much of a line is read, in bytes.
const maxComplaint = 4 << 10

// Read reads a line, or a record of several, without its envelope. ok is false if it does
// not complain, or belongs to a line before it.
func (r *ComplaintReader) Read(line string) (c Complaint, ok bool) {
	line = line[:min(len(line), maxComplaint)]
	crash := strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	if !crash && continuation(line) {
		return c, false
	}
	p := r.lines.readLine(line)
	if p.Message == "" {
		return c, false
	}
	if first, rest, more := strings.Cut(line, "\n"); p.Opens && more {
		line, p.Error, p.Named = first, firstLine(rest, maxError), true
	}
	if crash {
		p.Level = levelFatal
	}
	r.read = p
	r.mask(p.Message, p.Error)
	var j judgement
	j.judge(r.masked)
	c = Complaint{
		Level: p.Level, Key: xxhash.Sum64(r.masked), Words: int(j.weight),
		Passes: j.patience&transient != 0, Waits: p.Level < levelWarning && j.weight == 0 && j.patience&waits != 0,
	}
	switch {
	case p.Level >= levelWarning:
	case p.Level == levelDebug, !c.Waits && j.weight < ordinary:
		return c, false
	}
	c.Object = r.object(line)
	// A line that is harmless by its level is ordinary unless it repeats for one object.
	return c, p.Level > levelInfo || c.Object != ""
}

// mask replaces what varies in a message and its error.
func (r *ComplaintReader) mask(message, err string) {
	r.masked = appendMasked(r.masked[:0], &r.spans, message)
	if err != "" {
		r.masked = append(r.masked, " "+errorSeparator+" "...)
		r.masked = appendMasked(r.masked, &r.spans, err)
	}
}

// Template returns the pattern of the last line with placeholders, and that of its error;
// "" if it states none. Secrets are hidden unless the redactor is nil.
func (r *ComplaintReader) Template(red *redact.Redactor) (message, err string) {
	message, err = r.read.Message, r.read.Error
	if red != nil {
		message, err = red.String(message), red.String(err)
	}
	r.mask(message, err)
	message, err, _ = strings.Cut(string(r.masked), errorSeparator)
	return strings.TrimSpace(message), strings.TrimSpace(err)
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
	for _, part := range []string{r.read.Message, r.read.Error} {
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
