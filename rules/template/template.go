// Package template parses, checks and executes the templates of rules, which are labels, annotations, remediation and
// steps. It ensures that values from logs cannot become commands, links or additional lines.
package template

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"text/template"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/codec"
	"crowsnest/internal/text"
	"crowsnest/rules/internal/expr"
)

// Limits of templates, in bytes.
const (
	maxSource = 16 << 10 // maximum length of the source in bytes
	MaxOutput = 2 << 10  // maximum length of the output in bytes; longer output is truncated
)

// Template is the text of a label, an annotation or a step, with actions as in Prometheus. Parse checks it, so that its
// execution cannot loop, recurse, grow without limit or access anything except its data. It is compiled when it is
// first executed, because its compiled form takes many times the memory of the text, and few rules ever fire. It is
// safe for concurrent use and must not be copied.
type Template struct {
	source string
	// plain is the output of a template that has no actions.
	plain    string
	actions  bool
	compiled atomic.Pointer[template.Template] // compiled form; nil until the first execution, and for a template without actions
	labels   []string
	vars     []string
	value    bool
	line     bool
	failure  bool // whether the template reads $error
}

// ErrorNames are the names of the captures that can be $error. The first capture that is not empty is used. If all are
// empty, $error comes from a field of the line.
var ErrorNames = [...]string{"panic", "err", "error"}

// maxError is the maximum length of $error in bytes. The middle of a longer error is omitted, because an error begins
// with the failed operation and ends with the cause.
const maxError = 240

// Data is the data of a template. Templates only read it and do not keep it.
type Data struct {
	Labels map[string]string // labels of the alert, called $labels in templates
	Vars   map[string]string // all captured values by name, called $vars in templates
	Value  int64             // number of lines, called $value in templates
	Line   string            // newest line, called $line in templates
	Error  string            // error in a field of the newest line, called $error in templates
}

// Parse parses and checks a template. A template may contain text, $labels.NAME, $vars.NAME, $value, $line, $error,
// constants, if, else if, else, and pipelines of the functions that Functions returns. An error is a *expr.SyntaxError.
func Parse(src string) (*Template, error) {
	switch {
	case len(src) > maxSource:
		return nil, expr.Errorf(maxSource, "make it shorter", "the template is longer than %d bytes", maxSource)
	case !utf8.ValidString(src):
		return nil, expr.Errorf(expr.InvalidAt(src), "save the file as UTF-8", "the template is not valid UTF-8")
	case !strings.Contains(src, "{{"):
		return &Template{source: src, plain: truncateOutput(src)}, nil
	}
	c, _, err := parseTemplate(src)
	if err != nil {
		return nil, err
	}
	return &Template{
		source: src, actions: true, value: c.value, line: c.line, failure: c.failure,
		labels: slices.Compact(slices.Sorted(slices.Values(c.labels))), vars: slices.Compact(slices.Sorted(slices.Values(c.vars))),
	}, nil
}

// Source returns the template's text.
func (t *Template) Source() string { return t.source }

// Labels returns the sorted names that the template reads from $labels.
func (t *Template) Labels() []string { return slices.Clone(t.labels) }

// Vars returns the sorted names that the template reads from $vars.
func (t *Template) Vars() []string { return slices.Clone(t.vars) }

// UsesValue reports whether the template reads $value.
func (t *Template) UsesValue() bool { return t.value }

// UsesLine reports whether the template reads $line.
func (t *Template) UsesLine() bool { return t.line }

// UsesError reports whether the template reads $error.
func (t *Template) UsesError() bool { return t.failure }

// Execute returns the output of the template, as valid UTF-8 of at most MaxOutput bytes. Missing values are "". If a
// function rejects its argument, the output is `<error: ...>` and ok is false.
func (t *Template) Execute(d Data) (out string, ok bool) {
	return t.execute(d, &shownValues{})
}

// ExecuteText returns the output of the template for people. It passes values through neutral, which must make them
// harmless. In a URL that the template contains, a value that IsSafe accepts is percent-encoded, and any other value is
// replaced by its name in upper case. A value never becomes a host. A missing value is replaced by a phrase made from
// its name, such as "a pod", or omitted with the brackets and quotes around it. In a template that consists only of
// values, a missing value is "".
func (t *Template) ExecuteText(d Data, neutral func(string) string) (out string, ok bool) {
	return t.execute(d, &shownValues{use: useText, neutral: neutral})
}

// execution is the value that text/template receives as its data.
type execution struct {
	Data
	Show *shownValues
}

func (t *Template) execute(d Data, s *shownValues) (out string, ok bool) {
	if !t.actions {
		return t.plain, true
	}
	d.Line = text.Truncate(d.Line, maxValue)
	w := boundedWriter{limit: MaxOutput}
	defer func() { // a bug in a template's execution must not end the process
		if recover() != nil {
			out, ok = "<error: the template failed>", false
			if s.use == useStep {
				out = failedStep
			}
		}
	}()
	s.w = &w
	d.Error = text.TruncateMiddle(cmp.Or(d.Vars[ErrorNames[0]], d.Vars[ErrorNames[1]], d.Vars[ErrorNames[2]], d.Error), maxError)
	err := t.executable().Execute(&w, execution{d, s})
	switch {
	case s.use == useStep && (err != nil || w.full):
		return failedStep, w.full
	case err != nil && !w.full:
		out = "<error: " + executionReason(err) + ">"
		if s.neutral != nil {
			out = s.neutral(out)
		}
		return truncateOutput(out), false
	}
	out = truncateOutput(w.buf.String())
	switch {
	case len(s.missing) == 0:
	case t.hasWords():
		out = withoutMissing(out, s.missing)
	default: // the template consists only of values, such as namespace/name
		out = strings.ReplaceAll(out, missing, "")
	}
	return out, true
}

// hasWords reports whether the template contains text of its own.
func (t *Template) hasWords() bool {
	own := t.DocumentText(func(string) string { return "" }, func(text string) string { return text })
	return strings.ContainsFunc(own, unicode.IsLetter)
}

func (t *Template) executable() *template.Template {
	if tmpl := t.compiled.Load(); tmpl != nil {
		return tmpl
	}
	tmpl := compileTemplate(t.source)
	t.compiled.Store(tmpl) // a concurrent call may store an equal form
	return tmpl
}

// Release frees the compiled form. The next execution compiles it again.
func (t *Template) Release() { t.compiled.Store(nil) }

// executionReason returns the text of an error without the position that text/template adds.
func executionReason(err error) string {
	var fe *functionError
	if errors.As(err, &fe) {
		return fe.Error()
	}
	if at := strings.LastIndex(err.Error(), ">: "); at >= 0 {
		return err.Error()[at+3:]
	}
	return err.Error()
}

var errOutputFull = errors.New("output is full")

// boundedWriter returns an error, which ends the execution, once it contains more than limit bytes. It keeps a few more
// bytes, so that the output can be cut at the start of a character.
type boundedWriter struct {
	buf   bytes.Buffer
	limit int
	full  bool
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.full {
		return 0, errOutputFull
	}
	n := min(len(p), w.limit+utf8.UTFMax-w.buf.Len())
	w.buf.Write(p[:n])
	w.full = w.buf.Len() > w.limit
	if n < len(p) {
		return n, errOutputFull
	}
	return n, nil
}

// truncateOutput returns s as valid UTF-8 of at most MaxOutput bytes.
func truncateOutput(s string) string {
	return text.Truncate(strings.ToValidUTF8(s, "\uFFFD"), MaxOutput)
}

// Code writes or reads a parsed template.
func Code(c *codec.Codec, t *Template) {
	codec.Text(c, &t.source)
	c.Bool(&t.actions)
	if !t.actions {
		codec.Text(c, &t.plain)
		return
	}
	codec.Texts(c, &t.labels)
	codec.Texts(c, &t.vars)
	c.Bool(&t.value)
	uses := 0 // bit set of the variables that the template uses
	for i, used := range []bool{t.line, t.failure} {
		if used {
			uses |= 1 << i
		}
	}
	c.Int(&uses)
	t.line, t.failure = uses&1 != 0, uses&2 != 0
}
