// Package render renders the texts of alerts. It redacts log lines and executes the templates
// of annotations. It has no access to the engine.
package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// MaxLine is the maximum number of bytes of a line that are shown.
const MaxLine = 1 << 10

// Renderer renders texts. It is safe for concurrent use. Its fields must not change.
type Renderer struct {
	// Redactor hides secrets. A nil Redactor hides nothing.
	Redactor *redact.Redactor

	failed atomic.Int64
}

// FailedTemplates returns how many templates have failed.
func (r *Renderer) FailedTemplates() int64 { return r.failed.Load() }

// RedactLine redacts a line and truncates it afterwards, because truncation could leave a part of a secret that
// redaction does not recognise.
func (r *Renderer) RedactLine(line string) redact.Text {
	return text.Truncate(r.Redactor.Text(line), MaxLine)
}

// RenderLabel executes the template of a label.
func (r *Renderer) RenderLabel(t *rules.Template, data rules.TemplateData) string {
	out, ok := t.Execute(data)
	r.countFailure(ok)
	return out
}

func (r *Renderer) countFailure(ok bool) {
	if !ok {
		r.failed.Add(1)
	}
}

// Capture holds the values of some names in one line. It is immutable.
type Capture struct {
	Names  []string
	Values []redact.Text
}

// Facts are the data from which the annotations of an alert are rendered.
type Facts struct {
	Rule   *rules.Rule
	Labels map[string]string
	// Captures has the captured values of each line of the newest trigger.
	Captures    []Capture
	Count       int64
	StartsAt    time.Time
	LastSeen    time.Time
	Line, First redact.Text
	Origin      string
}

func (f *Facts) equal(o *Facts) bool {
	return f.Rule == o.Rule && f.Count == o.Count && f.StartsAt.Equal(o.StartsAt) && f.LastSeen.Equal(o.LastSeen) &&
		f.Line == o.Line && f.First == o.First && f.Origin == o.Origin && maps.Equal(f.Labels, o.Labels) &&
		slices.EqualFunc(f.Captures, o.Captures, func(a, b Capture) bool {
			return slices.Equal(a.Names, b.Names) && slices.Equal(a.Values, b.Values)
		})
}

// Texts are rendered annotations with the facts from which they were rendered. They are immutable.
type Texts struct {
	Facts
	Annotations map[string]string
}

// RenderTexts returns the texts of an alert. It returns known if the facts of known are equal, because rendering is
// slow and pages often request all open alerts.
func (r *Renderer) RenderTexts(f Facts, known *Texts) *Texts {
	if known != nil && known.equal(&f) {
		return known
	}
	return &Texts{f, r.renderAnnotations(&f)}
}

// renderAnnotations renders the annotations of the rule. It adds the annotations that every alert has if the rule does
// not state them.
func (r *Renderer) renderAnnotations(f *Facts) map[string]string {
	data := rules.TemplateData{Labels: f.Labels, Vars: f.templateVars(), Value: f.Count, Line: string(f.Line), Error: matcher.ErrorOf(string(f.Line))}
	out := map[string]string{"line": string(f.Line), "first_line": string(f.First), "origin": neutralise(f.Origin)}
	addProgress(out, f.Count, f.StartsAt, f.LastSeen)
	if f.Rule.Silent > 0 { // only the last line belongs to the failure
		delete(out, "first_line")
		delete(out, "first_seen")
		delete(out, "count")
	}
	r.addRemediation(f.Rule, data, out)
	for _, a := range f.Rule.Annotations {
		text, ok := a.Template.ExecuteText(data, neutralise)
		r.countFailure(ok)
		out[a.Name] = inertText(f.Rule, text)
	}
	return removeEmpty(out)
}

func addProgress(out map[string]string, count int64, startsAt, lastSeen time.Time) {
	out["count"] = strconv.FormatInt(count, 10)
	out["first_seen"], out["last_seen"] = startsAt.Format(time.RFC3339), lastSeen.Format(time.RFC3339)
}

func removeEmpty(out map[string]string) map[string]string {
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// templateVars returns the values of `$vars`. In a sequence, name_i is the value of step i, and name is the value of
// the last step that has one.
func (f *Facts) templateVars() map[string]string {
	vars := map[string]string{}
	for i, c := range f.Captures {
		for k, name := range c.Names {
			if k >= len(c.Values) || c.Values[k] == "" {
				continue
			}
			vars[name] = string(c.Values[k])
			if f.Rule.Sequence {
				vars[name+"_"+strconv.Itoa(i+1)] = string(c.Values[k])
			}
		}
	}
	return vars
}

// neutralise turns a value from a log line into a single line without links and markup.
func neutralise(s string) string { return redact.DefuseLinks(redact.Sanitise(s)) }

// inertText returns the text of a rule. In the text of a rule with an owner, links, mentions and markup are inert,
// because receivers show the text to people outside the owner's namespace.
func inertText(r *rules.Rule, text string) string {
	if r.Namespace == "" {
		return text
	}
	return redact.DefuseText(text)
}

// addRemediation adds the rule's remediation, and a statement about whether the running version is known to have the
// failure.
func (r *Renderer) addRemediation(rule *rules.Rule, data rules.TemplateData, out map[string]string) {
	rem := rule.Remediation
	text, failed := rem.Text(data, neutralise)
	r.failed.Add(int64(failed))
	out["remediation"], out["runbook_url"] = inertText(rule, text), rem.RunbookURL
	if len(rem.Affects) > 0 {
		v := rem.Judge(data.Vars["image"])
		out["affected"], out["fixed_in"] = neutralise(v.Affected+": "+v.Text), v.FixedIn
	}
}

// Overflow holds the data from which the annotations of an overflow alert are rendered.
type Overflow struct {
	Rule               *rules.Rule
	Labels             map[string]string
	Keys               int
	AtLeast            bool // whether the number of keys is a lower bound
	Lines              int64
	LimitText          string   // description of the limit that was reached
	DisplacedCount     int64    // number of displaced alerts
	DisplacedLabels    []string // labels of the newest displaced alerts
	StartsAt, LastSeen time.Time
}

// RenderOverflow returns the annotations of an overflow alert.
func (r *Renderer) RenderOverflow(o *Overflow) map[string]string {
	more := strconv.Itoa(o.Keys)
	if o.AtLeast {
		more = "at least " + more
	}
	out := map[string]string{
		"summary":     fmt.Sprintf("%s: %s further keys beyond the limit of open episodes", o.Rule.Alert, more),
		"description": fmt.Sprintf("%d triggers could not open an alert: %s. Open alerts stay open, unless a namespace with fewer alerts needs their slots.", o.Lines, o.LimitText),
	}
	if o.DisplacedCount > 0 {
		out["description"] += fmt.Sprintf(" Number of alerts that were dropped to make room for others: %d.", o.DisplacedCount)
		out["not_watched"] = strings.Join(o.DisplacedLabels, "\n")
	}
	addProgress(out, o.Lines, o.StartsAt, o.LastSeen)
	r.addRemediation(o.Rule, rules.TemplateData{Labels: o.Labels, Vars: map[string]string{}}, out)
	return removeEmpty(out)
}
