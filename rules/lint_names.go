package rules

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
)

// StreamLabels are the labels that sources always set. The configuration can add labels to files, standard input and
// the kubelet, and Loki has its own labels.
var StreamLabels = []string{
	"namespace", "pod", "container", "filename", "node_name", "node", "image", "app", "workload", "unit", "identifier", "transport", "component",
	"cluster", "job", "service_name", "detected_level", "stream", "flags",
}

// maxNames is the maximum number of unknown names that are reported for one rule.
const maxNames = 10

// keyInLine finds the keys of fields in a line of logfmt, klog or JSON.
var keyInLine = lazyre.New(`([A-Za-z_][A-Za-z0-9_.-]*)"?\s*[=:]`)

// lintNames warns about names that no matcher, label or test line of the rule contains. Their values are always empty,
// so failures of different objects would share one alert.
func (l *linter) lintNames() {
	if l.Keys.HasError("tests") || l.Keys.HasError("match") || l.Keys.HasError("sequence") {
		return
	}
	known, lines := l.knownNames()
	warned, ofKey, others := 0, true, l.problems
	check := func(name string, pos strictyaml.Pos, where, effect string) {
		if warned == maxNames || slices.ContainsFunc(others, func(p strictyaml.Problem) bool { return p.Line == pos.Line && p.File == pos.File() }) {
			return
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		if name == "" || slices.Contains(known, name) || slices.Contains(known, withoutStep(name)) || slices.ContainsFunc(lines, func(text string) bool { return strings.Contains(text, last) }) {
			return
		}
		fix := fmt.Sprintf("correct it, capture it with (?P<%s>...), or add a test with a line or a stream that has it", name)
		all := slices.Clone(known)
		for _, text := range lines {
			for _, m := range keyInLine.FindAllStringSubmatch(text, -1) {
				all = append(all, m[1])
			}
		}
		best := strictyaml.Closest(name, all)
		if best == "" && len(l.rule.Tests) == 0 && !ofKey {
			return // the name may be a field of the lines
		}
		if best != "" {
			fix = fmt.Sprintf("write `%s` if that is the name you mean; otherwise add a test whose line or stream has the name", best)
		}
		warned++
		l.addWarning(pos, "unknown-name", fmt.Sprintf("%s has `%s`, but no capture, no known label and no test has this name: %s", where, name, effect), fix)
	}
	const oneValue = "its value is always empty, so lines with different values count as one"
	if !l.Keys.HasError("by") {
		for i, name := range l.By {
			check(name, l.Keys.Item("by", i), "`by`", oneValue)
		}
	}
	if l.Keys.IsDecoded("distinct") && l.rule.DistinctTime() == 0 {
		check(l.Distinct, l.Keys.Value("distinct"), "`distinct`", "no line is counted")
	}
	for i := range l.Sequence {
		if s := &l.Sequence[i]; s.Keys.IsDecoded("differs") {
			for j, name := range s.Differs {
				check(name, s.Keys.Item("differs", j), "`differs`", "it excludes nothing")
			}
		}
	}
	ofKey = false
	for _, a := range l.rule.Annotations {
		for _, name := range a.Template.Vars() {
			check(name, l.annotationKeys[a.Name].EntryValue("annotations", a.Name), "annotation `"+a.Name+"`", "its value is always empty")
		}
	}
	r := &l.RuleSyntax.Remediation
	if s := l.rule.Remediation.Summary; s != nil {
		for _, name := range s.Vars() {
			check(name, r.Keys.Value("summary"), "remediation `summary`", "its value is always empty")
		}
	}
	if len(l.rule.Remediation.Steps) == len(r.Steps) {
		for i, s := range l.rule.Remediation.Steps {
			for _, name := range s.Vars() {
				check(name, r.Keys.Item("steps", i), fmt.Sprintf("step %d of `remediation`", i+1), "its value is always empty")
			}
		}
	}
}

// knownNames returns the names of captures and labels. It also returns the lines of tests, which may contain fields.
func (l *linter) knownNames() (names, lines []string) {
	names = slices.Clone(StreamLabels)
	for _, p := range ruleParts(l.rule) {
		names = append(append(names, possibleCaptures(*p.matcher)...), fieldNames(*p.matcher)...)
		for _, m := range p.from.Matchers() {
			names = append(names, m.Name)
		}
	}
	labels := func(all map[string]string) {
		for name := range all {
			names = append(names, name)
		}
	}
	for _, t := range l.rule.Tests {
		labels(t.Stream)
		for _, in := range t.Input {
			if in.Cause == "" {
				labels(in.Labels)
				lines = append(lines, in.Text)
			}
		}
	}
	return sortedUnique(names), lines
}

func fieldNames(m Matcher) []string {
	var out []string
	for _, f := range m.Fields {
		out = append(out, f.Name)
	}
	for _, a := range m.Any {
		out = append(out, fieldNames(a)...)
	}
	return out
}
