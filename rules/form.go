package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"crowsnest/internal/strictyaml"
)

// form is one rule as written, with the defaults and overrides that apply to it. A merged value keeps the position
// where it was written.
type form struct {
	RuleSyntax
	at         strictyaml.Pos // position of the rule's `- alert:`
	next       strictyaml.Pos // start of the next rule; zero if there is none
	shares     bool           // whether another rule is on the first line of this rule
	pack, file string
	namespace  string // owner of the file; empty for a file of the operator
	cluster    string // File.Cluster
	// labelKeys and annotationKeys hold, for each label and annotation, the mapping in which it is written. This
	// mapping can be in the rule, in the defaults or in an override.
	labelKeys, annotationKeys map[string]*strictyaml.Keys
	defaults                  *strictyaml.Keys
	origin                    map[string]string
	// addedUnless lists the `add_unless` of overrides, which are merged with the rule's own `unless`.
	addedUnless []*UnlessSyntax
	disabled    string // reason in the override that switches the rule off
	// released is File.Released. It is false if an override changed the rule.
	released bool
}

func newForm(p *PackFile, r *RuleSyntax, file string) form {
	f := form{
		RuleSyntax: *r, at: r.Keys.Pos, pack: p.Pack.Name, file: file,
		origin: map[string]string{}, labelKeys: map[string]*strictyaml.Keys{}, annotationKeys: map[string]*strictyaml.Keys{}, defaults: &p.Defaults.Keys,
	}
	if r.Keys.Has("alert") {
		f.at = r.Keys.Key("alert")
	}
	for _, key := range r.Keys.Names() {
		f.origin[key] = describeOrigin("pack", r.Keys.Key(key))
	}
	defaults := &p.Defaults
	inherits := func(key string) bool {
		if !r.Keys.Lacks(key) || !defaults.Keys.Has(key) {
			return false
		}
		f.Keys = f.Keys.WithKeys(defaults.Keys, key)
		f.origin[key] = describeOrigin("defaults", defaults.Keys.Key(key))
		return true
	}
	if inherits("severity") {
		f.Severity = defaults.Severity
	}
	if inherits("origin") {
		f.RuleSyntax.Origin = defaults.Origin
	}
	if inherits("verified") {
		f.Verified = defaults.Verified
	}
	f.Labels = map[string]string{}
	add := func(kind string, labels map[string]string, keys *strictyaml.Keys) {
		for name, text := range labels {
			f.Labels[name], f.labelKeys[name] = text, keys
			f.origin["labels."+name] = describeOrigin(kind, keys.EntryKey("labels", name))
		}
	}
	add("defaults", defaults.Labels, &defaults.Keys)
	add("pack", r.Labels, &r.Keys)
	for name := range r.Annotations {
		f.annotationKeys[name] = &r.Keys
	}
	return f
}

// clone returns a copy of the form that overrides may change.
func (f *form) clone() *form {
	out := *f
	out.origin = maps.Clone(f.origin)
	return &out
}

func describeOrigin(kind string, p strictyaml.Pos) string { return kind + " " + p.String() }

// isDecoded reports whether the rule could be decoded, which requires that it is written as a mapping.
func (f *form) isDecoded() bool { return !f.Keys.Pos.IsZero() }

// isLikely reports whether the rule probably contains a misspelling of key.
func (f *form) isLikely(key string) bool { return !f.Keys.Has(key) && !f.Keys.Lacks(key) }

func (f *form) newProblem(pos strictyaml.Pos, level strictyaml.Level, check, message, fix string) Problem {
	p := pos.Problem(level, check, message, fix)
	p.Rule = f.Alert
	return p
}

// foldName returns a name in lower case, because people overlook differences in case.
func foldName(alert string) string { return strings.ToLower(alert) }

// duplicateProblem returns the problem that another rule has the same name as f.
func (f *form) duplicateProblem(other *form) Problem {
	where := f.at.String()
	if f.namespace != "" && f.namespace != other.namespace {
		where = "a place in another namespace"
	}
	message := fmt.Sprintf("alert %s is already the name of the rule at %s", other.Alert, where)
	if f.Alert != other.Alert {
		message = fmt.Sprintf("alert %s differs only in case from %s at %s", other.Alert, f.Alert, where)
	}
	return other.newProblem(other.Keys.Value("alert"), strictyaml.Error, "duplicate-alert", message,
		"alert names must be unique among all packs: rename one of them, or load only one of the files")
}

func (f *form) lines() (from, to int) {
	start := f.Keys.Pos
	last := start.LastLine()
	if !f.next.IsZero() {
		last = max(start.Line, f.next.Line-1)
	}
	for n := start.Line + 1; n <= last; n++ {
		text := start.LineText(n)
		trimmed := strings.TrimLeft(text, " ")
		indent := len(text) - len(trimmed)
		// A line that is indented less than the rule's first key, which follows the dash, is not part of the rule.
		if trimmed != "" && trimmed[0] != '#' && indent+1 < start.Column {
			return start.Line, n - 1
		}
	}
	return start.Line, last
}

// ruleText returns the text of the rule without its tests and without indentation.
func (f *form) ruleText() string {
	start := f.Keys.Pos
	if f.shares {
		return strings.TrimRight(start.Until(f.next), " \t\r,") + "\n"
	}
	from, to := f.lines()
	var lines []string
	for n := from; n <= to; n++ {
		lines = append(lines, start.LineText(n))
	}
	if tests := f.Keys.Key("tests"); f.Keys.Has("tests") && tests.Line > from && tests.Line <= to && tests.Column == start.Column {
		end := to + 1
		for _, name := range f.Keys.Names() {
			if l := f.Keys.Key(name).Line; l > tests.Line && l < end {
				end = l
			}
		}
		lines = slices.Delete(lines, tests.Line-from, end-from)
	}
	// Comments after the last key belong to the next rule.
	for len(lines) > 0 && (strings.TrimSpace(lines[len(lines)-1]) == "" || strings.HasPrefix(strings.TrimSpace(lines[len(lines)-1]), "#")) {
		lines = lines[:len(lines)-1]
	}
	dash := max(0, strings.IndexByte(strings.Join(lines[:min(1, len(lines))], ""), '-'))
	for i, l := range lines {
		lines[i] = l[min(dash, len(l)-len(strings.TrimLeft(l, " "))):]
	}
	return strings.Join(lines, "\n") + "\n"
}

func checkDefaults(d *Document) {
	d.checkVerified(d.pack.Defaults.Verified)
	keys := &d.pack.Defaults.Keys
	for name := range d.pack.Defaults.Labels {
		if message, fix := badLabel(name); message != "" {
			d.addError(keys.EntryKey("labels", name), "label-name", message, fix)
		}
	}
}

// badLabel returns the problem with a label name of an alert and the fix, or "" if the name is valid.
func badLabel(name string) (message, fix string) {
	switch {
	case isReserved(name):
		return fmt.Sprintf("`%s` is a reserved name: crowsnest sets this label itself", name), "use another name"
	case !model.LegacyValidation.IsValidLabelName(name):
		return fmt.Sprintf("%.60q is not a valid label name", name), "use letters, digits and _; capture a field under such a name: field: {a.b: \"~(?P<a_b>.+)\"}"
	}
	return "", ""
}

func isReserved(name string) bool {
	return name == "alertname" || name == "severity" || name == "resolves" || name == "overflow"
}
