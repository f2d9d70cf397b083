package importer

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"crowsnest/internal/strictyaml"
)

// These types describe a file of CREs. Unknown keys are allowed in parts that only describe a CRE, but not in parts
// that decide when the CRE fires.

type creFile struct {
	Rules   creRules       `yaml:"rules" strict:"anchors"`
	Terms   creTermMap     `yaml:"terms" strict:"anchors"`
	Section strictyaml.Raw `yaml:"section" strict:"anchors"`
	Version strictyaml.Raw `yaml:"version" strict:"anchors"`

	Keys strictyaml.Keys `yaml:"-"`
}

type (
	creRules   []creRule
	creTermMap map[string]creTerm
)

type creRule struct {
	at           strictyaml.Pos
	end          strictyaml.Pos // start of the next rule; zero for the end of the file
	id           string
	title        string
	severity     int // -1 if the CRE states no severity
	description  string
	cause        string
	impact       string
	mitigation   string
	category     string
	tags         []string
	references   []string
	applications []creApplication
	set          *creCondition
	sequence     *creCondition
}

type creApplication struct{ name, container, image, version string }

// creCondition is the condition of a CRE, which is a set or a sequence.
type creCondition struct {
	window       time.Duration
	source       string
	terms        []creTerm // terms in the order of the file, from `match` of a set or `order` of a sequence
	negate       []creTerm
	correlations []string
}

// creTerm is one condition on a line.
type creTerm struct {
	at               strictyaml.Pos
	value, regex, jq string
	valueAt          strictyaml.Pos
	count            int
	otherConstruct   string // name of an unsupported construct, which is not a condition on a line
	window, slide    time.Duration
	anchor           int
	absolute         bool
}

// decoders contains, for each key of a mapping, the function that decodes its value. Null values are skipped.
type decoders map[string]func(*strictyaml.Node)

// decodeKnown decodes the values of the known keys of a mapping. It ignores other keys.
func (known decoders) decodeKnown(n *strictyaml.Node) { known.decode(n.Entries()) }

// decodeAll decodes the values of a mapping. It reports unknown keys as errors.
func (known decoders) decodeAll(n *strictyaml.Node) {
	known.decode(n.EntriesOf(slices.Sorted(maps.Keys(known))))
}

func (known decoders) decode(entries []strictyaml.Entry) {
	for _, e := range entries {
		if f := known[e.Key]; f != nil && !isNull(e.Value) {
			f(e.Value)
		}
	}
}

func ignore(*strictyaml.Node) {}

func isNull(n *strictyaml.Node) bool {
	return n.Kind() == strictyaml.Scalar && !n.IsText() && (n.Raw() == "" || n.Raw() == "~" || n.Raw() == "null")
}

// decodeText decodes a scalar as it was written, because a version may look like a number.
func decodeText(into *string) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		if n.Kind() != strictyaml.Scalar {
			n.WrongType("text", "")
			return
		}
		*into = n.Raw()
	}
}

func decodeTexts(into *[]string) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		for _, item := range n.Items() {
			var s string
			if decodeText(&s)(item); s != "" {
				*into = append(*into, s)
			}
		}
	}
}

func decodeInt(into *int, low, high int) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		v, err := strconv.Atoi(n.Raw())
		if n.Kind() != strictyaml.Scalar || err != nil || v < low || v > high {
			n.Errorf("bad-value", "%s is not a number from %d to %d", n.Name(), low, high)
			return
		}
		*into = v
	}
}

func decodeBool(into *bool) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		if n.Kind() != strictyaml.Scalar || n.Raw() != "true" && n.Raw() != "false" {
			n.Errorf("bad-value", "%s is neither true nor false", n.Name())
			return
		}
		*into = n.Raw() == "true"
	}
}

const maxDuration = 365 * 24 * time.Hour

func goDurationOf(into *time.Duration) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		d, err := time.ParseDuration(n.Raw())
		if n.Kind() != strictyaml.Scalar || err != nil || d.Abs() > maxDuration {
			n.Errorf("bad-duration", "%s is not a duration such as 30s or 5m", n.Name())
			return
		}
		*into = d
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (rs *creRules) DecodeYAML(n *strictyaml.Node) {
	for _, item := range n.Items() {
		if last := len(*rs) - 1; last >= 0 {
			(*rs)[last].end = item.Pos()
		}
		r := creRule{at: item.Pos(), severity: -1}
		r.decode(item)
		*rs = append(*rs, r)
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (ts *creTermMap) DecodeYAML(n *strictyaml.Node) {
	*ts = creTermMap{}
	for _, e := range n.Entries() {
		var t creTerm
		t.decode(e.Value)
		(*ts)[e.Key] = t
	}
}

func (r *creRule) decode(n *strictyaml.Node) {
	decoders{
		"cre": decoders{
			"id": decodeText(&r.id), "title": decodeText(&r.title), "severity": decodeInt(&r.severity, 0, 4),
			"description": decodeText(&r.description), "cause": decodeText(&r.cause), "impact": decodeText(&r.impact),
			"mitigation": decodeText(&r.mitigation), "category": decodeText(&r.category),
			"tags": decodeTexts(&r.tags), "references": decodeTexts(&r.references),
			"applications": func(n *strictyaml.Node) {
				for _, item := range n.Items() {
					var a creApplication
					decoders{
						"name": decodeText(&a.name), "containerName": decodeText(&a.container),
						"imageUrl": decodeText(&a.image), "version": decodeText(&a.version),
					}.decodeKnown(item)
					r.applications = append(r.applications, a)
				}
			},
		}.decodeKnown,
		"rule": func(n *strictyaml.Node) {
			for _, e := range n.EntriesOf([]string{"sequence", "set"}) {
				c := &creCondition{}
				if e.Key == "set" {
					r.set = c
					c.decode(e.Value, "match")
				} else {
					r.sequence = c
					c.decode(e.Value, "order")
				}
			}
		},
	}.decodeKnown(n)
}

// decode decodes a condition whose terms are the value of the key terms.
func (c *creCondition) decode(n *strictyaml.Node, terms string) {
	decoders{
		"window": goDurationOf(&c.window), "correlations": decodeTexts(&c.correlations), "origin": ignore,
		"event": decoders{"origin": ignore, "source": decodeText(&c.source)}.decodeAll,
		terms:   decodeTerms(&c.terms), "negate": decodeTerms(&c.negate),
	}.decodeAll(n)
}

func decodeTerms(into *[]creTerm) func(*strictyaml.Node) {
	return func(n *strictyaml.Node) {
		for _, item := range n.Items() {
			var t creTerm
			t.decode(item)
			*into = append(*into, t)
		}
	}
}

func (t *creTerm) decode(n *strictyaml.Node) {
	t.at, t.valueAt = n.Pos(), n.Pos()
	if n.Kind() == strictyaml.Scalar {
		t.value = n.Raw()
		return
	}
	value := func(into *string) func(*strictyaml.Node) {
		return func(n *strictyaml.Node) {
			t.valueAt = n.Pos()
			decodeText(into)(n)
		}
	}
	keys := decoders{
		"value": value(&t.value), "regex": value(&t.regex), "jq": value(&t.jq), "count": decodeInt(&t.count, 0, 10_000),
		"window": goDurationOf(&t.window), "slide": goDurationOf(&t.slide), "anchor": decodeInt(&t.anchor, 0, 255),
		"absolute": decodeBool(&t.absolute),
		"field":    ignore, // ignored, because the engine of CREs searches the whole line for every field
	}
	for _, other := range []string{"extract", "promql", "sequence", "set"} {
		keys[other] = func(*strictyaml.Node) { t.otherConstruct = other }
	}
	keys.decodeAll(n)
}

func (im *importer) readCRE(f File) {
	doc, ps := strictyaml.Parse(f.Name, f.Data, strictyaml.Options{MaxBytes: MaxFileBytes})
	if doc == nil {
		im.refuseFile(f, ps)
		return
	}
	if !doc.Has("rules") {
		im.skip(f, doc.Start().Line, "the file has no `rules`: it is not a file of CREs")
		return
	}
	var file creFile
	ps = doc.Decode(&file)
	if len(file.Rules) == 0 {
		im.refuseFile(f, append(ps, doc.KeyPos("rules").Problem(strictyaml.Error, "no-rules", "`rules` has no rule", "")))
		return
	}
	last := &file.Rules[len(file.Rules)-1]
	if terms := doc.KeyPos("terms"); doc.Has("terms") && terms.Line > last.at.Line {
		last.end = terms
	}
	if blame(ps, strictyaml.Pos{}, file.Rules[0].at) != nil || !last.end.IsZero() && blame(ps, last.end, strictyaml.Pos{}) != nil {
		im.refuseFile(f, ps) // a problem without a position may concern any rule of the file
		return
	}
	for i := range file.Rules {
		r := &file.Rules[i]
		err := blame(ps, r.at, r.end)
		var out *rule
		if err == nil {
			out, err = im.convertCRE(r, file.Terms, f.Sample)
		}
		im.add(r, out, err)
	}
}
