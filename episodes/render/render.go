// Package render makes the texts of alerts: it redacts log lines and executes the
// templates of annotations. It works on values and has no access to the engine.
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
	"crowsnest/redact"
	"crowsnest/rules"
)

// MaxLine is how many bytes of a line are shown.
const MaxLine = 1 << 10

// Renderer makes texts. It is safe for concurrent use; its fields must not change.
type Renderer struct {
	// Redactor hides secrets; nil hides none.
	Redactor *redact.Redactor
	// Unlabelled replaces a label that is missing by its name in upper case: a command
	// with an empty value would be run as it is.
	Unlabelled bool

	failed atomic.Int64
}

// Failed returns how many templates have failed.
func (r *Renderer) Failed() int64 { return r.failed.Load() }

// Line redacts a line and truncates it, in this order, so that half a secret does not
// survive.
func (r *Renderer) Line(line string) redact.Text {
	return text.Truncate(r.Redactor.Text(line), MaxLine)
}

// Expand executes the template of a label.
func (r *Renderer) Expand(t *rules.Template, data rules.TemplateData) string {
	out, ok := t.Execute(data)
	r.count(ok)
	return out
}

func (r *Renderer) count(ok bool) {
	if !ok {
		r.failed.Add(1)
	}
}

// Capture is the values that one line has for some names. It must not change.
type Capture struct {
	Names  []string
	Values []redact.Text
}

// Facts are the input of the annotations of an alert.
type Facts struct {
	Rule   *rules.Rule
	Labels map[string]string
	// Captures holds the captures of each line of the newest trigger.
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

// Texts are rendered annotations with their input. They do not change.
type Texts struct {
	Facts
	Annotations map[string]string
}

// Texts returns the texts of an alert: known, if its facts are equal. Rendering is costly,
// and pages request all open alerts often.
func (r *Renderer) Texts(f Facts, known *Texts) *Texts {
	if known != nil && known.equal(&f) {
		return known
	}
	return &Texts{f, r.annotations(&f)}
}

// annotations renders the rule's own annotations and adds those that every alert has,
// unless the rule states them.
func (r *Renderer) annotations(f *Facts) map[string]string {
	data := rules.TemplateData{Labels: r.named(f), Vars: f.vars(), Value: f.Count, Line: string(f.Line)}
	out := map[string]string{"line": string(f.Line), "first_line": string(f.First), "origin": neutral(f.Origin)}
	progress(out, f.Count, f.StartsAt, f.LastSeen)
	if f.Rule.Silent > 0 { // nothing but the last line belongs to the failure
		delete(out, "first_line")
		delete(out, "first_seen")
		delete(out, "count")
	}
	r.remedy(f.Rule, data, out)
	for _, a := range f.Rule.Annotations {
		text, ok := a.Template.ExecuteText(data, neutral)
		r.count(ok)
		out[a.Name] = text
	}
	return stated(out)
}

func progress(out map[string]string, count int64, startsAt, lastSeen time.Time) {
	out["count"] = strconv.FormatInt(count, 10)
	out["first_seen"], out["last_seen"] = startsAt.Format(time.RFC3339), lastSeen.Format(time.RFC3339)
}

// stated removes the empty annotations.
func stated(out map[string]string) map[string]string {
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// vars returns the values of `$vars`. In a sequence name_i is the value of step i, and name
// the value of the last step that has one.
func (f *Facts) vars() map[string]string {
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

// neutral turns a value of a log line into one line of text without links and markup.
func neutral(s string) string { return redact.Inert(redact.Sanitise(s)) }

// named returns the labels for texts.
func (r *Renderer) named(f *Facts) map[string]string {
	if !r.Unlabelled {
		return f.Labels
	}
	out := maps.Clone(f.Labels)
	for _, name := range f.Rule.By {
		if out[name] == "" {
			out[name] = strings.ToUpper(name)
		}
	}
	return out
}

// remedy adds the remediation, and whether the running version is known to have the
// failure.
func (r *Renderer) remedy(rule *rules.Rule, data rules.TemplateData, out map[string]string) {
	rem := rule.Remediation
	text, failed := rem.Text(data, neutral)
	r.failed.Add(int64(failed))
	out["remediation"], out["runbook_url"] = text, rem.RunbookURL
	if len(rem.Affects) > 0 {
		v := rem.Judge(data.Vars["image"])
		out["affected"], out["fixed_in"] = neutral(v.Affected+": "+v.Text), v.FixedIn
	}
}

// Overflow is the input of the annotations of the alert for the keys beyond a limit.
type Overflow struct {
	Rule               *rules.Rule
	Labels             map[string]string
	Keys               int
	AtLeast            bool // there may be more keys
	Lines              int64
	Why                string   // which limit
	Lost               int64    // alerts that gave their places to others
	Named              []string // labels of the newest of them
	StartsAt, LastSeen time.Time
}

// Overflow returns the annotations of such an alert.
func (r *Renderer) Overflow(o *Overflow) map[string]string {
	more := strconv.Itoa(o.Keys)
	if o.AtLeast {
		more = "at least " + more
	}
	out := map[string]string{
		"summary":     fmt.Sprintf("%s: %s further keys beyond the limit of open episodes", o.Rule.Alert, more),
		"description": fmt.Sprintf("%d triggers found no place: %s. Alerts that are open stay, unless a namespace with fewer needs their place.", o.Lines, o.Why),
	}
	if o.Lost > 0 {
		out["description"] += fmt.Sprintf(" Alerts that gave their places to others, and are not watched any more: %d.", o.Lost)
		out["not_watched"] = strings.Join(o.Named, "\n")
	}
	progress(out, o.Lines, o.StartsAt, o.LastSeen)
	r.remedy(o.Rule, rules.TemplateData{Labels: o.Labels, Vars: map[string]string{}}, out)
	return stated(out)
}
