package redact

import (
	"regexp"
	"strings"
	"sync"
)

// Mask stands where a secret was.
const Mask = "<redacted>"

// MaxInput is the longest text that is looked into, in bytes. A longer one is
// replaced as a whole.
const MaxInput = 1 << 20

// Redactor hides secrets. It is immutable and safe for concurrent use.
type Redactor struct {
	extra   []*regexp.Regexp
	classes [256]class
	tokens  tokenTable
	hints   *hints
	keys    keyTable
	prose   map[string]bool
}

// New returns a Redactor that also hides all that an extra pattern matches.
func New(extra []*regexp.Regexp) *Redactor {
	r := &Redactor{
		extra:   append([]*regexp.Regexp(nil), extra...),
		classes: newClasses(),
		keys:    newKeyTable(),
		prose:   newProse(),
	}
	rules := append(vendorTokens(), places()...)
	r.hints = newHints(rules)
	r.tokens.fill(rules, r.hints)
	return r
}

// String returns s with Mask for each secret. It returns s itself, without
// allocating, if there is none. String(String(s)) is String(s). If s is too
// long to be looked into, or something goes wrong, all of it is hidden.
func (r *Redactor) String(s string) (out string) {
	if s == "" || s == Mask {
		return s
	}
	if len(s) > MaxInput {
		return Mask
	}
	defer func() {
		if recover() != nil {
			out = Mask
		}
	}()
	// Colours and invisible characters must not part a key from its value, nor
	// a token in two, because later they may be taken out. Nor must escapes and
	// entities of HTML.
	c := clean(s, true)
	if u := entities(unescape(c)); u != c {
		c = clean(u, true)
	}
	if c != s {
		if hidden := r.settle(c); hidden != c {
			return hidden
		}
	}
	return r.settle(s)
}

// settle hides until nothing changes any more, so that hiding is idempotent.
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

// Part is for a text that was taken out of a line, such as a capture, and has
// lost what made it a secret there ("hunter2" of "password=hunter2").
// redactedLine is String of the line. If the line has secrets, the part is
// hidden unless the redacted line still holds it, or all pieces between slashes
// of it: "namespace/name" may stand for an object of JSON.
func (r *Redactor) Part(line, redactedLine, part string) string {
	if line == redactedLine || holds(redactedLine, part) {
		return r.String(part)
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

// lazily returns the expression, compiled when it is asked for first: few commands
// need it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// pass hides what one scan finds, then what the extra patterns match.
func (r *Redactor) pass(s string) string {
	sc := scanner{r: r, s: s}
	s = sc.all()
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
