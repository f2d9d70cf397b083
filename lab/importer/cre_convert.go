package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/redact"
	"crowsnest/rules/versions"
)

func (im *importer) convertCRE(c *creRule, terms creTermMap, sample []byte) (*rule, error) {
	if c.id == "" && c.title == "" {
		return nil, fmt.Errorf("it has neither an id nor a title")
	}
	cond, kind := c.sequence, "sequence"
	r := &rule{}
	switch {
	case c.set == nil && c.sequence == nil:
		return nil, fmt.Errorf("it has no condition: neither `set` nor `sequence`")
	case cond == nil:
		cond, kind = c.set, "set"
	case c.set != nil:
		r.warn("it has a set and a sequence; preq evaluates the sequence only, and so does the rule")
	}
	cond, err := resolveTerms(cond, terms)
	if err != nil {
		return nil, err
	}
	m := &meaning{rule: r, cond: cond, kind: kind, sample: im.sampleLines(r, sample)}
	if err := im.placeCRE(r, c, cond); err != nil {
		return nil, err
	}
	if err := m.translatePositive(); err != nil {
		return nil, err
	}
	if err := m.translateNegative(); err != nil {
		return nil, err
	}
	c.copyDescription(r)
	if err := im.sampleTests(r, m, c.id); err != nil {
		return nil, err
	}
	title := c.title
	if title == "" {
		title = cond.source
	}
	r.alert = im.alertName(title, camelCase(c.id))
	return r, nil
}

// resolveTerms replaces the names of terms by the terms. It refuses conditions that do not concern lines.
func resolveTerms(c *creCondition, terms creTermMap) (*creCondition, error) {
	out := *c
	resolve := func(all []creTerm, negate bool) ([]creTerm, error) {
		all = slices.Clone(all)
		for i, t := range all {
			named, ok := terms[t.value]
			if ok && t.regex == "" && t.jq == "" {
				named.at, named.valueAt = t.at, t.at
				if negate {
					named.window, named.slide, named.anchor, named.absolute = t.window, t.slide, t.anchor, t.absolute
				}
				t = named
			}
			if err := t.check(negate); err != nil {
				return nil, err
			}
			all[i] = t
		}
		return all, nil
	}
	var err error
	if out.terms, err = resolve(c.terms, false); err != nil {
		return nil, err
	}
	if out.negate, err = resolve(c.negate, true); err != nil {
		return nil, err
	}
	if len(out.terms) == 0 {
		return nil, fmt.Errorf("it has no condition that lines must meet")
	}
	return &out, nil
}

func (t *creTerm) check(negate bool) error {
	n := 0
	for _, v := range []string{t.value, t.regex, t.jq} {
		if v != "" {
			n++
		}
	}
	switch {
	case t.otherConstruct == "extract":
		return refuseAt(t.at, "`extract` compares values of several logs, and a rule has one key for all of its lines")
	case t.otherConstruct == "promql":
		return refuseAt(t.at, "`promql` is about metrics, and crowsnest reads logs")
	case t.otherConstruct != "":
		return refuseAt(t.at, "a %s inside of another condition cannot be one rule: a rule has one window", t.otherConstruct)
	case n != 1:
		return refuseAt(t.at, "a condition needs one of `value`, `regex` and `jq`")
	case negate && t.count > 1:
		return refuseAt(t.at, "`count` has no meaning in `negate`")
	case t.regex != "":
		return checkRegex(t.valueAt, t.regex)
	}
	return nil
}

func (t *creTerm) linePattern() (pattern, error) {
	switch {
	case t.value != "":
		return pattern{text: t.value}, nil
	case t.regex != "":
		if text, ok := plainText(t.regex); ok {
			return pattern{text: text}, nil
		}
		return pattern{regex: t.regex}, nil
	}
	return pattern{}, refuseAt(t.valueAt, "`jq` is a program; write a rule whose `match` has `field`")
}

// text returns the text or expression that the term searches for, for messages.
func (t *creTerm) text() string { return shorten(t.value + t.regex + t.jq) }

// creSeverities are severities by the number of a CRE's severity.
var creSeverities = []string{"critical", "warning", "warning", "info", "info"}

var creSeverityNames = []string{"critical", "high", "medium", "low", "info"}

func (c *creRule) copyDescription(r *rule) {
	r.severity = "warning"
	if c.severity >= 0 {
		r.severity = creSeverities[c.severity]
	}
	r.annotate("summary", escapeLiteral(redact.Sanitise(c.title)))
	r.annotate("description", escapeLiteral(cleanProse(c.description)))
	r.annotate("cause", escapeLiteral(cleanProse(c.cause)))
	r.annotate("impact", escapeLiteral(cleanProse(c.impact)))
	r.annotate("cre", escapeLiteral(redact.Sanitise(c.id)))
	if c.severity >= 0 {
		r.annotate("cre_severity", creSeverityNames[c.severity])
	}
	r.annotate("category", escapeLiteral(redact.Sanitise(c.category)))
	r.annotate("tags", escapeLiteral(joinList(c.tags, ", ")))
	r.annotate("references", escapeLiteral(joinList(c.references, "\n")))
	if i := slices.IndexFunc(c.references, isLink); i >= 0 {
		r.runbook = c.references[i]
	}
	mitigation := cleanProse(c.mitigation)
	if all, ok := splitSteps(mitigation); ok {
		for _, s := range all {
			r.steps = append(r.steps, escapeLiteral(s))
		}
	} else {
		r.summary = escapeLiteral(mitigation)
	}
	var others []string
	for _, a := range c.applications[:min(len(c.applications), maxListed)] {
		if a.image != "" && a.version != "" && !strings.Contains(a.version, "{{") && versions.Check(a.version) == nil {
			r.affects = append(r.affects, affects{redact.Sanitise(a.name), redact.Sanitise(a.image), a.version})
			continue
		}
		others = append(others, strings.TrimSpace(a.name+" "+strings.TrimPrefix(a.version, "*")))
	}
	r.annotate("applications", escapeLiteral(joinList(others, ", ")))
}

func joinList(all []string, sep string) string {
	var out []string
	for _, s := range all[:min(len(all), maxListed)] {
		if s = redact.Sanitise(strings.TrimSpace(s)); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, sep)
}

type meaning struct {
	rule   *rule
	cond   *creCondition
	kind   string
	sample []string

	terms    []term // terms in the order of the CRE; terms of a set that follow from other terms are removed
	single   bool   // whether a single line makes the rule fire
	clearing bool   // whether a line that matches `negate`, between the first and the last line, resets the count
}

// term is a condition on a line that must occur, and the pattern that expresses the condition in the rule language.
type term struct {
	pattern
	cre   creTerm
	texts [][]string // only in a set; result of requiredTexts
	lines int        // only in a set; number of lines of the sample that match
}

// defaultKeep is how long an alert without `clear` lasts after its last line.
const defaultKeep = 15 * time.Minute

// translatePositive translates the conditions on lines that must occur.
func (m *meaning) translatePositive() error {
	for _, t := range m.cond.terms {
		p, err := t.linePattern()
		if err != nil {
			return err
		}
		m.terms = append(m.terms, term{pattern: p, cre: t})
	}
	if m.kind == "sequence" && len(m.terms) > 1 {
		return m.translateSequence()
	}
	if m.kind == "set" {
		if err := m.dropImplied(); err != nil {
			return err
		}
	}
	if len(m.terms) > 1 {
		return m.translateSet()
	}
	r, t := m.rule, m.terms[0].cre
	r.match = m.terms[0].pattern
	if t.count > 1 {
		if m.cond.window <= 0 {
			return fmt.Errorf("it counts %d lines without a `window`", t.count)
		}
		r.count, r.within = t.count, m.cond.window
		return nil
	}
	m.single = true
	return nil
}

// maxSequence is the maximum length of a sequence in the rule language.
const maxSequence = 32

func (m *meaning) translateSequence() error {
	if m.cond.window <= 0 {
		return fmt.Errorf("a sequence needs a `window`")
	}
	n := 0
	for _, t := range m.terms {
		for range max(t.cre.count, 1) {
			n++
			m.rule.sequence = append(m.rule.sequence, t.pattern)
		}
		if n > maxSequence {
			return fmt.Errorf("the sequence has more than %d lines, which is the maximum; only a single condition may have a larger count, up to 10000", maxSequence)
		}
	}
	m.rule.within = m.cond.window
	return nil
}
