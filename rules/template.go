package rules

import (
	"bytes"
	"errors"
	"strings"
	"text/template"
	"unicode/utf8"
)

// Bounds of templates, in bytes.
const (
	MaxTemplate       = 16 << 10 // source
	MaxTemplateOutput = 2 << 10  // output; the rest is cut off
)

// Template is the text of a label, an annotation or a step, in the manner of
// Prometheus. It is checked when it is parsed, so that executing it cannot
// loop, recurse, grow without bound or reach anything but its data. It is
// immutable and safe for concurrent use.
type Template struct {
	source string
	// plain is the output of a template without actions; tmpl is nil then.
	plain  string
	tmpl   *template.Template
	labels []string
	vars   []string
	value  bool
	line   bool
}

// TemplateData is what a template can see. It is read, not kept.
type TemplateData struct {
	Labels map[string]string // of the alert, as $labels
	Vars   map[string]string // every name that was looked up, as $vars
	Value  int64             // number of lines, as $value
	Line   string            // the newest line, as $line
}

// ParseTemplate reads a template and checks it. Allowed are text, fields of
// $labels and $vars, $value, $line, constants, if, else if, else, and pipelines
// of the functions of TemplateFunctions. An error is a *SyntaxError.
func ParseTemplate(src string) (*Template, error) {
	switch {
	case len(src) > MaxTemplate:
		return nil, syntaxErrorf(MaxTemplate, "make it shorter", "the template is longer than %d bytes", MaxTemplate)
	case !utf8.ValidString(src):
		return nil, syntaxErrorf(invalidAt(src), "save the file as UTF-8", "the template is not valid UTF-8")
	case !strings.Contains(src, "{{"):
		return &Template{source: src, plain: cutOutput(src)}, nil
	}
	return compileTemplate(src)
}

// Source returns the text that was parsed.
func (t *Template) Source() string { return t.source }

// Labels returns the names that the template takes from $labels, sorted.
func (t *Template) Labels() []string { return append([]string(nil), t.labels...) }

// Vars returns the names that the template takes from $vars, sorted.
func (t *Template) Vars() []string { return append([]string(nil), t.vars...) }

// UsesValue tells whether the template reads $value.
func (t *Template) UsesValue() bool { return t.value }

// UsesLine tells whether the template reads $line.
func (t *Template) UsesLine() bool { return t.line }

// Execute renders the template: valid UTF-8, at most MaxTemplateOutput bytes. A
// name without a value renders as "". If a function refuses its argument, the
// whole output is `<error: ...>` and ok is false.
func (t *Template) Execute(d TemplateData) (out string, ok bool) {
	return t.execute(d, &shown{})
}

// ExecuteText is Execute for a text that people read. Values go through neutral,
// which makes them harmless. Within a URL of the template, a value is
// percent-encoded if Strict accepts it, and else replaced by its name in upper
// case; no value becomes a host.
func (t *Template) ExecuteText(d TemplateData, neutral func(string) string) (out string, ok bool) {
	return t.execute(d, &shown{use: useText, neutral: neutral})
}

// execution is what a template is executed with.
type execution struct {
	TemplateData
	Show *shown
}

func (t *Template) execute(d TemplateData, s *shown) (out string, ok bool) {
	if t.tmpl == nil {
		return t.plain, true
	}
	d.Line = cutAt(d.Line, maxValue)
	w := boundedWriter{limit: MaxTemplateOutput}
	defer func() { // a defect of a template must not end the process
		if recover() != nil {
			out, ok = "<error: the template failed>", false
			if s.use == useStep {
				out = failedStep
			}
		}
	}()
	s.w = &w
	err := t.tmpl.Execute(&w, execution{d, s})
	switch {
	case s.use == useStep && (err != nil || w.full):
		return failedStep, w.full
	case err != nil && !w.full:
		out = "<error: " + executionReason(err) + ">"
		if s.neutral != nil {
			out = s.neutral(out)
		}
		return cutOutput(out), false
	}
	return cutOutput(w.buf.String()), true
}

// executionReason leaves out where text/template was when a function failed.
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

// boundedWriter refuses to write once it holds more than limit bytes, which
// ends the execution. It holds a little more than the limit, so that the cut
// can see whether it is within a character.
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
	if w.buf.Len() > w.limit {
		w.full = true
	}
	if n < len(p) {
		return n, errOutputFull
	}
	return n, nil
}

// cutOutput makes s valid UTF-8 of at most MaxTemplateOutput bytes.
func cutOutput(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return cutAt(s, MaxTemplateOutput)
}

// cutAt cuts s to n bytes or a little less, at the start of a character.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := n
	for at > 0 && at > n-utf8.UTFMax && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at]
}
