package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/redact"
	"crowsnest/strictyaml"
)

// ignored is a part of a file that says nothing about alerts.
type ignored struct{}

// DecodeYAML implements strictyaml.Unmarshaler.
func (*ignored) DecodeYAML(*strictyaml.Node) {}

// rulerFile is a file of Loki's ruler, also as lokitool writes it.
type rulerFile struct {
	Namespace ignored     `yaml:"namespace"`
	Groups    rulerGroups `yaml:"groups" strict:"anchors"`

	Keys strictyaml.Keys `yaml:"-"`
}

// rulerGroups are the alerts of rule groups, in their order.
type rulerGroups []rulerRule

type rulerRule struct {
	at, exprAt  strictyaml.Pos
	group       string
	alert       string
	record      string
	expr        string
	wait, keep  time.Duration
	labels      []entry
	annotations []entry
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (gs *rulerGroups) DecodeYAML(n *strictyaml.Node) {
	for _, item := range n.Items() {
		gs.group(item)
	}
}

var groupKeys = []string{
	"align_evaluation_time_on_interval", "evaluation_delay", "interval", "labels", "limit", "name", "partial_response_strategy", "query_offset",
	"remote_write", "rules", "source_tenants",
}

func (gs *rulerGroups) group(n *strictyaml.Node) {
	var name string
	var labels []entry
	first := len(*gs)
	for _, e := range n.EntriesOf(groupKeys) {
		switch {
		case isNull(e.Value):
		case e.Key == "name":
			textOf(&name)(e.Value)
		case e.Key == "labels":
			labels = entriesOf(e.Value)
		case e.Key == "rules":
			for _, item := range e.Value.Items() {
				r := rulerRule{at: item.Pos(), exprAt: item.Pos()}
				r.decode(item)
				*gs = append(*gs, r)
			}
		}
	}
	for i := first; i < len(*gs); i++ {
		r := &(*gs)[i]
		r.group = name
		for _, l := range labels {
			if !slices.ContainsFunc(r.labels, func(o entry) bool { return o.name == l.name }) {
				r.labels = append(r.labels, l)
			}
		}
	}
}

func entriesOf(n *strictyaml.Node) []entry {
	var out []entry
	for _, e := range n.Entries() {
		var v string
		textOf(&v)(e.Value)
		out = append(out, entry{e.Key, v})
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return out
}

var rulerKeys = []string{"alert", "annotations", "expr", "for", "keep_firing_for", "labels", "record"}

func (w *rulerRule) decode(n *strictyaml.Node) {
	for _, e := range n.EntriesOf(rulerKeys) {
		if isNull(e.Value) {
			continue
		}
		switch e.Key {
		case "alert":
			textOf(&w.alert)(e.Value)
		case "record":
			textOf(&w.record)(e.Value)
		case "expr":
			textOf(&w.expr)(e.Value)
			w.exprAt = e.Value.Pos()
		case "for":
			promDurationOf(&w.wait)(e.Value)
		case "keep_firing_for":
			promDurationOf(&w.keep)(e.Value)
		case "labels":
			w.labels = entriesOf(e.Value)
		case "annotations":
			w.annotations = entriesOf(e.Value)
		}
	}
}

func promDurationOf(into *time.Duration) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		d, err := model.ParseDuration(n.Raw())
		if n.Kind() != strictyaml.Scalar || err != nil || time.Duration(d) > maxDuration {
			n.Errorf("bad-duration", "%s is not a duration such as 5m", n.Name())
			return
		}
		*into = time.Duration(d)
	}
}

// readLoki translates a file of Loki's ruler.
func (im *importer) readLoki(f File) {
	doc, ps := strictyaml.Parse(f.Name, f.Data, strictyaml.Options{MaxBytes: MaxFileBytes})
	switch {
	case doc == nil:
		im.refuseFile(f, ps)
		return
	case !doc.Has("groups") && doc.Has("kind"):
		im.skip(f, doc.Start().Line, "the file is a Kubernetes object: import it as prometheus-logql")
		return
	case !doc.Has("groups"):
		im.skip(f, doc.Start().Line, "the file has no `groups`: it is not a file of Loki's ruler")
		return
	}
	var file rulerFile
	ps = doc.Decode(&file)
	im.addGroups(f, file.Groups, ps)
}

// addGroups translates the alerts of rule groups. A problem makes the alert fail on whose lines it
// is; one before all of them is the file's.
func (im *importer) addGroups(f File, all rulerGroups, ps strictyaml.Problems) {
	var first strictyaml.Pos
	if len(all) > 0 {
		first = all[0].at
	}
	if blame(ps, strictyaml.Pos{}, first) != nil {
		im.refuseFile(f, ps)
		return
	}
	if len(all) == 0 {
		im.skip(f, 0, "the file has no rule in its groups")
		return
	}
	for i := range all {
		r := &all[i]
		var end strictyaml.Pos
		if i+1 < len(all) {
			end = all[i+1].at
		}
		out, err := im.convertLogQL(r, blame(ps, r.at, end))
		im.add(source{at: r.at, id: cmp.Or(r.alert, r.record), title: r.group}, out, err)
	}
}

func (im *importer) convertLogQL(w *rulerRule, problem error) (*rule, error) {
	switch {
	case problem != nil:
		return nil, problem
	case w.record != "":
		return nil, refusef("it is a recording rule, which writes a metric and alerts nobody")
	case w.alert == "" || w.expr == "":
		return nil, refusef("it needs `alert` and `expr`")
	}
	r := &rule{}
	if err := alertOf(w.expr, r); err != nil {
		return nil, w.located(err)
	}
	if im.opt.From != "" {
		r.from = im.opt.From
	}
	r.pending(w.wait)
	if w.keep > 0 && r.silent == 0 {
		r.keep += w.keep
	}
	if r.silent > 0 {
		r.keep = 0
	}
	w.describe(r)
	suffix := ""
	if im.names[camel(w.alert)] {
		suffix = camel(strings.ToUpper(r.severity[:1]) + r.severity[1:])
	}
	r.alert = im.alertName(w.alert, suffix)
	if r.alert != w.alert {
		r.warn("the alert is named %s: names are unique in crowsnest, and consist of letters and digits", r.alert)
	}
	r.comments = append(r.comments, "Alert "+w.alert+" of the group "+w.group)
	return r, nil
}

// describe carries over labels and annotations.
func (w *rulerRule) describe(r *rule) {
	r.severity = "warning"
	for _, l := range w.labels {
		switch {
		case l.name == "resolves": // export loki adds it
		case l.name == "severity":
			var known bool
			if r.severity, known = severityOf(l.value); !known {
				r.warn("the severity %q is unknown, so the rule has severity warning and the label original_severity", shorten(redact.Sanitise(l.value)))
				r.labels = append(r.labels, entry{"original_severity", literal(l.value)})
			}
		case isReserved(l.name) || slices.Contains(r.by, l.name):
			r.warn("the label %s was left out: the alert has it by itself", l.name)
		case labelOfTemplate.MatchString(l.value) && !w.known(r, l.value), strings.Contains(l.value, "{{") && !labelOfTemplate.MatchString(l.value):
			r.warn("the label %s was left out: its template uses what does not identify the alert", l.name)
		default:
			r.labels = append(r.labels, entry{l.name, l.value})
		}
	}
	for _, a := range w.annotations {
		switch {
		case a.name == "runbook_url" && isLink(a.value):
			r.runbook = a.value
		case a.name == "remediation":
			r.summary = r.annotation(prose(a.value))
		default:
			r.annotate(a.name, r.annotation(prose(a.value)))
		}
	}
}

// known reports whether a template uses only labels that the alert is grouped by.
func (w *rulerRule) known(r *rule, text string) bool {
	for _, m := range labelOfTemplate.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(r.by, m[2]) {
			return false
		}
	}
	return validTemplate(text)
}

// located adds the position of a problem in a query.
func (w *rulerRule) located(err error) error {
	var e *queryError
	if !errors.As(err, &e) {
		return err
	}
	line, column := w.position(e.at)
	near := strings.TrimSpace(w.expr[min(e.at, len(w.expr)):])
	near, _, _ = strings.Cut(near, "\n")
	if near != "" {
		near = fmt.Sprintf(" (near `%s`)", shorten(near))
	}
	if column == 0 {
		return refusef("line %d: %s%s", line, e.message, near)
	}
	return refusef("line %d, column %d: %s%s", line, column, e.message, near)
}

// position returns where an offset of the query is in the file; column 0: somewhere on or after the
// line.
func (w *rulerRule) position(offset int) (line, column int) {
	at := w.exprAt
	head := strings.TrimRight(at.LineText(at.Line)[min(max(at.Column-1, 0), len(at.LineText(at.Line))):], " ")
	if strings.HasPrefix(head, "|") {
		before := w.expr[:min(offset, len(w.expr))]
		line = at.Line + 1 + strings.Count(before, "\n")
		text := at.LineText(line)
		column = offset - (strings.LastIndexByte(before, '\n') + 1)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		written, _, _ := strings.Cut(w.expr[len(before)-column:], "\n")
		indent -= len(written) - len(strings.TrimLeft(written, " "))
		if indent < 0 || !strings.HasSuffix(text, written) {
			return at.Line, 0
		}
		return line, indent + column + 1
	}
	p := at.Within(w.expr, offset)
	if offset > 0 && p.Column == at.Column {
		return at.Line, 0
	}
	return p.Line, p.Column
}
