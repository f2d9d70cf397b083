package importer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/strictyaml"
)

// These types describe a file of CREs. A part that only describes a CRE may have unknown keys,
// but a part that decides when the CRE fires may not.

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
	severity     int // -1 if it is not stated
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
	terms        []creTerm // terms under `match` of a set or `order` of a sequence
	negate       []creTerm
	correlations []string
}

// creTerm is one condition on a line.
type creTerm struct {
	at                 strictyaml.Pos
	value, regex, jq   string
	valueAt            strictyaml.Pos
	count              int
	other              string // name of a construct that is not a condition on a line
	window, slide      time.Duration
	anchor             int
	absolute, anywhere bool // anywhere is set if a field is named. The engine of CREs ignores the field and searches the whole line.
}

// eachKey calls the function for each known key of a mapping. It ignores other keys.
func eachKey(n *strictyaml.Node, known map[string]func(*strictyaml.Node)) {
	for _, e := range n.Entries() {
		if f := known[e.Key]; f != nil && !isNull(e.Value) {
			f(e.Value)
		}
	}
}

func isNull(n *strictyaml.Node) bool {
	return n.Kind() == strictyaml.Scalar && !n.IsText() && (n.Raw() == "" || n.Raw() == "~" || n.Raw() == "null")
}

// decodeText decodes a scalar as it was written, because a version or an id may look like a
// number.
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
	eachKey(n, map[string]func(*strictyaml.Node){
		"cre": func(n *strictyaml.Node) {
			eachKey(n, map[string]func(*strictyaml.Node){
				"id": decodeText(&r.id), "title": decodeText(&r.title), "severity": decodeInt(&r.severity, 0, 4),
				"description": decodeText(&r.description), "cause": decodeText(&r.cause), "impact": decodeText(&r.impact),
				"mitigation": decodeText(&r.mitigation), "category": decodeText(&r.category),
				"tags": decodeTexts(&r.tags), "references": decodeTexts(&r.references),
				"applications": func(n *strictyaml.Node) {
					for _, item := range n.Items() {
						var a creApplication
						eachKey(item, map[string]func(*strictyaml.Node){
							"name": decodeText(&a.name), "containerName": decodeText(&a.container),
							"imageUrl": decodeText(&a.image), "version": decodeText(&a.version),
						})
						r.applications = append(r.applications, a)
					}
				},
			})
		},
		"rule": func(n *strictyaml.Node) {
			for _, e := range n.EntriesOf([]string{"sequence", "set"}) {
				c := &creCondition{}
				c.decode(e.Value, e.Key)
				if e.Key == "set" {
					r.set = c
				} else {
					r.sequence = c
				}
			}
		},
	})
}

func (c *creCondition) decode(n *strictyaml.Node, kind string) {
	terms := "match"
	if kind == "sequence" {
		terms = "order"
	}
	keys := []string{"correlations", "event", "negate", "origin", "window", terms}
	slices.Sort(keys)
	for _, e := range n.EntriesOf(keys) {
		if isNull(e.Value) {
			continue
		}
		switch e.Key {
		case "window":
			goDurationOf(&c.window)(e.Value)
		case "correlations":
			decodeTexts(&c.correlations)(e.Value)
		case "event":
			for _, e := range e.Value.EntriesOf([]string{"origin", "source"}) {
				if e.Key == "source" {
					decodeText(&c.source)(e.Value)
				}
			}
		case terms:
			c.terms = creTerms(e.Value)
		case "negate":
			c.negate = creTerms(e.Value)
		}
	}
}

func creTerms(n *strictyaml.Node) []creTerm {
	var out []creTerm
	for _, item := range n.Items() {
		var t creTerm
		t.decode(item)
		out = append(out, t)
	}
	return out
}

var creTermKeys = []string{"absolute", "anchor", "count", "extract", "field", "jq", "promql", "regex", "sequence", "set", "slide", "value", "window"}

func (t *creTerm) decode(n *strictyaml.Node) {
	t.at, t.valueAt = n.Pos(), n.Pos()
	if n.Kind() == strictyaml.Scalar {
		t.value = n.Raw()
		return
	}
	for _, e := range n.EntriesOf(creTermKeys) {
		if isNull(e.Value) {
			continue
		}
		switch e.Key {
		case "value":
			decodeText(&t.value)(e.Value)
		case "regex":
			decodeText(&t.regex)(e.Value)
		case "jq":
			decodeText(&t.jq)(e.Value)
		case "count":
			decodeInt(&t.count, 0, 10_000)(e.Value)
		case "window":
			goDurationOf(&t.window)(e.Value)
		case "slide":
			goDurationOf(&t.slide)(e.Value)
		case "anchor":
			decodeInt(&t.anchor, 0, 255)(e.Value)
		case "absolute":
			decodeBool(&t.absolute)(e.Value)
		case "field":
			t.anywhere = true
		default:
			t.other = e.Key
		}
		if e.Key == "value" || e.Key == "regex" || e.Key == "jq" {
			t.valueAt = e.Value.Pos()
		}
	}
}

// readCRE translates a file of CREs.
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
		im.refuseFile(f, ps) // the problem may concern any rule of the file
		return
	}
	for i := range file.Rules {
		r := &file.Rules[i]
		s := source{at: r.at, id: r.id, title: strings.TrimSpace(r.title)}
		err := blame(ps, r.at, r.end)
		var out *rule
		if err == nil {
			out, err = im.convertCRE(r, file.Terms, f.Sample)
		}
		im.add(s, out, err)
	}
}
