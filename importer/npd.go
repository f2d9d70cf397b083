package importer

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/redact"
	"crowsnest/strictyaml"
)

// npdRule is one rule of a monitor.
type npdRule struct {
	at, patternAt strictyaml.Pos
	kind          string // temporary or permanent
	condition     string
	reason        string
	pattern       string
	suffix        string
	path          string
	args          []string
}

// npdFile decodes a configuration. What does not decide when a rule fires may have further keys.
type npdFile struct {
	Plugin     string    `yaml:"plugin"`
	Settings   npdValues `yaml:"pluginConfig"`
	LogPath    string    `yaml:"logPath"`
	Lookback   ignored   `yaml:"lookback"`
	Delay      ignored   `yaml:"delay"`
	BufferSize ignored   `yaml:"bufferSize"`
	Source     string    `yaml:"source"`
	SkipList   []string  `yaml:"skipList"`
	Reporting  ignored   `yaml:"metricsReporting"`
	Skew       ignored   `yaml:"skip_initial_status"`
	Conditions npdStates `yaml:"conditions"`
	Rules      npdRules  `yaml:"rules"`

	Keys strictyaml.Keys `yaml:"-"`
}

type (
	npdValues map[string]string
	npdStates map[string]string
	npdRules  []npdRule
)

// DecodeYAML implements strictyaml.Unmarshaler.
func (v *npdValues) DecodeYAML(n *strictyaml.Node) {
	*v = npdValues{}
	for _, e := range n.Entries() {
		if e.Value.Kind() == strictyaml.Scalar {
			(*v)[e.Key] = e.Value.Raw()
		}
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *npdStates) DecodeYAML(n *strictyaml.Node) {
	*s = npdStates{}
	for _, item := range n.Items() {
		var kind, message string
		eachKey(item, map[string]func(*strictyaml.Node){"type": textOf(&kind), "message": textOf(&message)})
		(*s)[kind] = message
	}
}

var npdRuleKeys = []string{"args", "condition", "path", "pattern", "patternGeneratedMessageSuffix", "reason", "timeout", "type"}

// DecodeYAML implements strictyaml.Unmarshaler.
func (rs *npdRules) DecodeYAML(n *strictyaml.Node) {
	for _, item := range n.Items() {
		r := npdRule{at: item.Pos(), patternAt: item.Pos()}
		for _, e := range item.EntriesOf(npdRuleKeys) {
			switch e.Key {
			case "type":
				textOf(&r.kind)(e.Value)
			case "condition":
				textOf(&r.condition)(e.Value)
			case "reason":
				textOf(&r.reason)(e.Value)
			case "pattern":
				textOf(&r.pattern)(e.Value)
				r.patternAt = e.Value.Pos()
			case "patternGeneratedMessageSuffix":
				textOf(&r.suffix)(e.Value)
			case "path":
				textOf(&r.path)(e.Value)
			case "args":
				textsOf(&r.args)(e.Value)
			}
		}
		*rs = append(*rs, r)
	}
}

// readNPD translates a configuration of the Node Problem Detector.
func (im *importer) readNPD(f File) {
	// JSON allows tabs between values and YAML does not. Texts cannot contain them.
	doc, ps := strictyaml.Parse(f.Name, bytes.ReplaceAll(f.Data, []byte{'\t'}, []byte{' '}), strictyaml.Options{MaxBytes: MaxFileBytes})
	if doc == nil {
		im.refuseFile(f, ps)
		return
	}
	if !doc.Has("plugin") || !doc.Has("rules") {
		im.skip(f, doc.Start().Line, "the file has no `plugin` or no `rules`: it is not a configuration of a monitor")
		return
	}
	var file npdFile
	ps = doc.Decode(&file)
	if len(file.Rules) == 0 {
		im.refuseFile(f, append(ps, doc.KeyPos("rules").Problem(strictyaml.Error, "no-rules", "`rules` has no rule", "")))
		return
	}
	if blame(ps, strictyaml.Pos{}, file.Rules[0].at) != nil {
		im.refuseFile(f, ps)
		return
	}
	for i := range file.Rules {
		r := &file.Rules[i]
		var end strictyaml.Pos
		if i+1 < len(file.Rules) {
			end = file.Rules[i+1].at
		}
		var out *rule
		err := blame(ps, r.at, end)
		if err == nil {
			out, err = im.convertNPD(&file, r)
		}
		im.add(source{at: r.at, id: r.reason, title: file.Source}, out, err)
	}
}

// npdKeep is how long the alert of a permanent problem lasts after its last line.
const npdKeep = 24 * time.Hour

func (im *importer) convertNPD(f *npdFile, w *npdRule) (*rule, error) {
	r := &rule{by: []string{"node"}, severity: "warning"}
	switch {
	case w.reason == "":
		return nil, refusef("it has no `reason`")
	case w.kind != "temporary" && w.kind != "permanent":
		return nil, refusef("its type %q is neither temporary nor permanent", redact.Sanitise(w.kind))
	case w.kind == "permanent" && w.condition == "":
		return nil, refusef("it is permanent and names no `condition`")
	}
	identifier, err := f.place(r, w)
	if err != nil {
		return nil, err
	}
	if im.opt.From != "" {
		r.from = im.opt.From
	} else if r.from == "" {
		return nil, refusef("the plugin %q has no streams in crowsnest (%s): state them with --from", redact.Sanitise(f.Plugin), redact.Sanitise(identifier))
	}
	if err := w.match(r, f.SkipList); err != nil {
		return nil, err
	}
	if w.kind == "permanent" {
		r.severity = "critical"
		r.annotate("condition", literal(redact.Sanitise(w.condition)))
	}
	if w.kind == "permanent" && r.keep == 0 {
		r.keep = npdKeep
		r.warn("the condition %s stays until the detector restarts; the alert ends %s after the last line", redact.Sanitise(w.condition), duration(npdKeep))
	}
	r.annotate("summary", literal(redact.Sanitise(w.reason))+" on node {{ $labels.node }}")
	r.annotate("description", "{{ $line }}")
	r.annotate("healthy", literal(redact.Sanitise(f.Conditions[w.condition])))
	r.summary = literal(prose(w.suffix))
	r.comments = append(r.comments, "Problem "+w.reason+" of "+f.Source)
	r.alert = im.alertName(strings.NewReplacer("-", " ", "_", " ").Replace(f.Source)+" "+w.reason, "")
	return r, nil
}

// place sets the streams of a rule. It returns what the plugin reads.
func (f *npdFile) place(r *rule, w *npdRule) (string, error) {
	switch f.Plugin {
	case "kmsg":
		r.from = `{transport="kernel"}`
		return f.LogPath, nil
	case "journald":
		return f.journal(r, f.Settings["source"])
	case "filelog":
		if f.LogPath != "" {
			r.from = "{filename=" + strconv.Quote(f.LogPath) + "}"
		}
		return f.LogPath, nil
	case "custom":
		return f.counter(r, w)
	}
	return f.Plugin, nil
}

func (f *npdFile) journal(r *rule, identifier string) (string, error) {
	switch identifier {
	case "":
		return "", refusef("the plugin journald names no `source`")
	case "kernel":
		r.from = `{transport="kernel"}`
	default:
		r.from = "{identifier=" + strconv.Quote(identifier) + "}"
	}
	return identifier, nil
}

// counter translates the program log-counter, which counts lines. Other programs are refused.
func (f *npdFile) counter(r *rule, w *npdRule) (string, error) {
	if !strings.HasSuffix(w.path, "/log-counter") && w.path != "log-counter" {
		return "", refusef("it runs the program %q, and crowsnest reads logs", redact.Sanitise(shorten(w.path)))
	}
	args := map[string]string{}
	for _, a := range w.args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		args[name] = value
	}
	if args["revert-pattern"] != "" {
		return "", refusef("it subtracts the lines of revert-pattern, and a rule counts lines of one kind")
	}
	n, err := strconv.Atoi(args["count"])
	if err != nil || n < 1 || n > maxCount {
		return "", refusef("it has no `--count` from 1 to %d", maxCount)
	}
	window, err := time.ParseDuration(args["lookback"])
	if err != nil || window <= 0 || window > maxDuration {
		return "", refusef("it has no `--lookback` such as 20m")
	}
	if w.pattern = args["pattern"]; n > 1 {
		r.count, r.within = n, window
	}
	r.keep = window // the program finds the problem for as long
	return f.journal(r, args["journald-source"])
}

// match translates the pattern. It has to match up to the end of the line, as the detector appends
// `\z` to it: the end of the last alternative, if there are several.
func (w *npdRule) match(r *rule, skip []string) error {
	if w.pattern == "" {
		return refusef("it has no `pattern`")
	}
	if err := checkRegex(w.patternAt, w.pattern); err != nil {
		return err
	}
	re, err := syntax.Parse(w.pattern, syntax.Perl)
	if err != nil {
		return refusef("the pattern is not RE2: %v", err)
	}
	if spansLines(re) {
		return refusef("line %d, column %d: the pattern matches several lines together, which crowsnest reads as separate lines", w.patternAt.Line, w.patternAt.Column)
	}
	if strings.HasPrefix(w.pattern, "^") {
		r.warn("`^` is the start of the line; for the detector it is the start of the lines that it buffers")
	}
	m := pattern{regex: w.pattern}
	if !strings.HasSuffix(w.pattern, ".*") || strings.HasSuffix(w.pattern, `\.*`) {
		m.regex += `\s*$`
	}
	conditions := []pattern{m}
	for _, s := range skip {
		if s != "" {
			conditions = append(conditions, pattern{not: &pattern{contains: []string{s}}})
		}
	}
	r.match = all(conditions)
	return nil
}

// spansLines reports whether an expression can match a line break.
func spansLines(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	}
	return slices.ContainsFunc(re.Sub, spansLines)
}
