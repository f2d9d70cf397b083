package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"crowsnest/redact/internal/clean"
)

// Mask replaces a secret.
const Mask = "<redacted>"

// maxInput is the maximum length in bytes of a text that is scanned. A longer text is replaced as a whole.
const maxInput = 1 << 20

// Redactor hides secrets. It is immutable and safe for concurrent use.
type Redactor struct {
	extra []*regexp.Regexp
	// scanners holds unused scanners for reuse. A scanner is always on the heap, because finders are function values.
	scanners sync.Pool
}

// New returns a Redactor that also hides every match of the extra patterns.
func New(extra []*regexp.Regexp) *Redactor {
	return &Redactor{extra: slices.Clone(extra)}
}

// tables are the tables that all scans use. They are immutable.
type tables struct {
	candidates *candidateTable
	keys       *keyTable
}

// builtInTables creates the tables at the first scan. This takes milliseconds, and many processes never scan a text.
var builtInTables = sync.OnceValue(func() *tables { return &tables{newCandidateTable(newTokenRules()), newKeyTable()} })

// String returns s with each secret replaced by Mask. If s has no secret, String returns s itself and does not
// allocate. String(String(s)) equals String(s). If s is longer than 1 MiB, or the scan panics, String returns Mask.
func (r *Redactor) String(s string) (out string) {
	if s == "" || s == Mask {
		return s
	}
	if len(s) > maxInput {
		return Mask
	}
	defer func() {
		if recover() != nil {
			out = Mask
		}
	}()
	return r.hide(s)
}

// hide implements String for a text that is not too long. It repeats its work, because decoded text may contain further
// encodings, and because a hidden secret may show that the word after a control character is a secret too.
func (r *Redactor) hide(s string) string {
	for range 8 {
		// Colours, invisible characters, escapes and HTML entities could separate a key from its value or split a
		// token. They are removed first, because a reader of the text may remove them later.
		c := clean.Text(s, true)
		if u := clean.Entities(clean.Unescape(c)); u != c {
			c = clean.Text(u, true)
		}
		hidden := c
		if c != s {
			hidden = r.settle(c)
		}
		if hidden == c {
			if hidden = r.settle(s); hidden == s || c == s {
				return hidden
			}
		}
		s = hidden
	}
	return Mask
}

// settle repeats pass until the text no longer changes, so that String is idempotent.
func (r *Redactor) settle(s string) string {
	for range 4 {
		next := r.pass(s)
		if next == s {
			return s
		}
		s = next
	}
	return Mask
}

// Part redacts a part of a line, such as a capture. A part may be a secret only in its context, such as "hunter2" in
// "password=hunter2". redactedLine must be the result of Text for the line. If the line contains secrets, Part returns
// Mask unless part, or each of its pieces between slashes, occurs in redactedLine. The pieces may occur separately,
// because "namespace/name" may come from a JSON object.
func (r *Redactor) Part(line string, redactedLine Text, part string) Text {
	if r == nil || line == string(redactedLine) || holds(string(redactedLine), part) {
		return r.Text(part)
	}
	return Mask
}

func holds(line, part string) bool {
	if strings.Contains(line, part) {
		return true
	}
	for piece := range strings.SplitSeq(part, "/") {
		if !strings.Contains(line, piece) {
			return false
		}
	}
	return true
}

// lazyRegexp returns a function that compiles the expression at its first call, because most runs of the program need few
// of the expressions.
func lazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// scan returns s without its secrets. steps is the number of bytes that finders read.
func (r *Redactor) scan(s string, depth int) (out string, steps int) {
	sc, _ := r.scanners.Get().(*scanner)
	if sc == nil {
		sc = new(scanner)
	}
	sc.start(r, s, depth)
	out = sc.all()
	steps = sc.steps
	*sc = scanner{} // the pool must not keep a secret
	r.scanners.Put(sc)
	return out, steps
}

// pass hides the secrets that one scan finds, and then the matches of the extra patterns.
func (r *Redactor) pass(s string) string {
	s, _ = r.scan(s, 0)
	for _, re := range r.extra {
		s = re.ReplaceAllStringFunc(s, func(m string) string {
			if m == "" {
				return ""
			}
			return Mask
		})
	}
	return s
}
