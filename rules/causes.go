package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/strictyaml"
)

// Cause is a rule whose failure can cause the failure of another rule, its symptom.
type Cause struct {
	Alert string
	// Same lists the labels whose values must be equal in both alerts. Nil means the names that occur in By of both
	// rules.
	Same []string
	// Lag is the duration by which the cause may begin later than the symptom. Zero means that the cause must begin
	// first.
	Lag time.Duration
	// Pos is the position of the cause's name in the file.
	Pos strictyaml.Pos
}

// SharedLabels returns the labels whose values must be equal in an alert of the rule symptom and an alert of the cause.
// keys are the names in `by` of the cause's rule. SharedLabels returns false if Same is nil and the two rules have no
// name in common, because such alerts cannot be related.
func (c *Cause) SharedLabels(symptom *Rule, keys []string) (names []string, ok bool) {
	if c.Same != nil {
		return c.Same, true
	}
	for _, name := range symptom.By {
		if slices.Contains(keys, name) {
			names = append(names, name)
		}
	}
	return names, len(names) > 0
}

// Text describes to people which alerts of the cause's rule count.
func (c *Cause) Text() string {
	text := "with equal names of by"
	switch {
	case c.Same != nil && len(c.Same) == 0:
		text = "in the same cluster"
	case c.Same != nil:
		text = "with the same " + strings.Join(c.Same, ", ")
	}
	if c.Lag > 0 {
		return text + ", begun earlier or up to " + duration(c.Lag) + " later"
	}
	return text + ", begun earlier"
}

// AlertNames returns the label names that are specific to the rule's alerts. They are the names in By and in Labels,
// without the labels that every alert has.
func (r *Rule) AlertNames() []string {
	out := slices.Clone(r.By)
	for _, l := range r.Labels {
		out = append(out, l.Name)
	}
	return out
}

// compileCauses compiles the parts of `symptom_of` that do not depend on other rules.
func (c *compiler) compileCauses() {
	if c.Keys.IsDecoded("symptom_of") && len(c.SymptomOf) == 0 && c.Keys.Key("symptom_of").File() == c.file {
		c.addError(c.Keys.Key("symptom_of"), "empty-value", "`symptom_of` names no rule", "name the rules whose failures cause this one, or remove the key")
	}
	seen := map[string]bool{}
	for i := range c.SymptomOf {
		s := &c.SymptomOf[i]
		if s.Keys.Pos.IsZero() || s.Keys.HasAnyError() {
			continue
		}
		at := s.Keys.Value("alert")
		switch {
		case s.Alert == "":
			c.addError(at, "empty-value", "`symptom_of` has an empty name", "name a rule")
			continue
		case s.Alert == c.Alert:
			c.addError(at, "cause-circle", fmt.Sprintf("rule %s is named as its own cause", c.Alert), "remove it, or name the rule that reports the cause")
			continue
		case seen[s.Alert]:
			c.addError(at, "duplicate-name", fmt.Sprintf("`symptom_of` has `%s` twice", s.Alert), "keep one of them")
			continue
		}
		seen[s.Alert] = true
		cause := Cause{Alert: s.Alert, Lag: s.Lag, Pos: at}
		if s.Keys.Has("same") {
			c.checkNames(s.Same, &s.Keys, "same")
			c.checkSameOfCause(s)
			cause.Same = append([]string{}, s.Same...)
		}
		c.rule.Causes = append(c.rule.Causes, cause)
	}
}

// checkSameOfCause checks that the rule's alerts have the labels that `same` lists.
func (c *compiler) checkSameOfCause(s *CauseSyntax) {
	if c.Keys.HasError("by") || c.Keys.HasError("labels") {
		return
	}
	for i, name := range s.Same {
		at := s.Keys.Item("same", i)
		switch {
		case name == "" || slices.Contains(DefaultIdentity, name):
		case isReserved(name):
			c.addError(at, "same", fmt.Sprintf("`same` lists `%s`, whose values differ between a cause and its symptom", name), "remove it")
		default:
			if _, has := c.Labels[name]; !has && !slices.Contains(c.By, name) {
				c.addError(at, "same", fmt.Sprintf("`same` has `%s`, which is neither in `by` nor in `labels` of rule %s", name, c.Alert), "list only labels that the alerts of both rules have")
			}
		}
	}
}

func (c *compiler) causeNames() []string {
	out := make([]string, len(c.rule.Causes))
	for i, x := range c.rule.Causes {
		out[i] = x.Alert
	}
	return out
}

// maxSuggested is the maximum number of unknown causes for which a similar name is suggested.
const maxSuggested = 100

func (b *builder) lintCauses() {
	byName := map[string]*packRule{}
	var names []string
	unknown := 0
	for _, r := range b.rules {
		if r.alert != "" && !r.duplicate {
			byName[r.alert] = r
			names = append(names, r.alert)
		}
	}
	for _, r := range b.rules {
		if r.rule == nil {
			continue
		}
		for i := range r.rule.Causes {
			c := &r.rule.Causes[i]
			cause := byName[c.Alert]
			if cause == nil {
				// An installation need not have every cause, because packs are loaded separately.
				fix := "load the pack that has it, or remove it here"
				if unknown++; unknown <= maxSuggested {
					fix = strictyaml.SuggestName(c.Alert, names, fix)
				}
				b.problems = append(b.problems, r.writtenForm().newProblem(c.Pos, strictyaml.Warning, "unknown-cause",
					fmt.Sprintf("rule %s is a symptom of %s, which no loaded pack has", r.alert, c.Alert), fix))
				continue
			}
			if cause.rule != nil {
				b.checkShared(r, c, cause)
			}
		}
	}
	b.findCircles(byName)
}

// checkShared checks that alerts of the cause have the labels that must be equal.
func (b *builder) checkShared(r *packRule, c *Cause, cause *packRule) {
	if _, ok := c.SharedLabels(r.rule, cause.rule.By); !ok {
		at, where := b.blamePlace(c.Pos, r, cause)
		b.problems = append(b.problems, r.writtenForm().newProblem(at, strictyaml.Error, "no-shared-label",
			fmt.Sprintf("the keys of rules %s and %s have no name in common, so nothing says which alerts belong together%s", r.alert, c.Alert, where),
			fmt.Sprintf("state the labels that must agree: {alert: %s, same: [...]}; same: [] relates all of its alerts in the same cluster", c.Alert)))
		return
	}
	unknown := func(name string) bool {
		return name != "" && !isReserved(name) && !slices.Contains(DefaultIdentity, name) && !slices.Contains(cause.rule.AlertNames(), name)
	}
	if !slices.ContainsFunc(c.Same, unknown) {
		return
	}
	for i := range r.writtenForm().SymptomOf {
		s := &r.writtenForm().SymptomOf[i]
		if s.Alert != c.Alert || s.Keys.HasError("same") {
			continue
		}
		for k, name := range s.Same {
			if !unknown(name) {
				continue
			}
			at, where := b.blamePlace(s.Keys.Item("same", k), cause)
			b.problems = append(b.problems, r.writtenForm().newProblem(at, strictyaml.Error, "same",
				fmt.Sprintf("`same` has `%s`, which is neither in `by` nor in `labels` of rule %s%s", name, c.Alert, where), "list only labels that the alerts of both rules have"))
		}
	}
}

// blamePlace returns the position for an error about the `by` of rules. If an override changes `by` of one of the
// rules, blamePlace returns the position in the override, and where mentions pos. Otherwise it returns pos. If pos is
// in the file of a namespace, it always returns pos, because this file is refused.
func (b *builder) blamePlace(pos strictyaml.Pos, rules ...*packRule) (_ strictyaml.Pos, where string) {
	if b.isOwned(pos.File()) {
		return pos, ""
	}
	for _, r := range rules {
		if !r.overridden {
			continue
		}
		if by := r.writtenForm().Keys.Key("by"); r.writtenForm().Keys.Has("by") && by.File() != r.doc.file {
			return by, fmt.Sprintf(" (%s)", pos)
		}
	}
	return pos, ""
}

// findCircles reports rules that are symptoms of themselves through a chain of other rules.
func (b *builder) findCircles(byName map[string]*packRule) {
	done := map[*packRule]bool{}
	var path []*packRule
	var visit func(r *packRule)
	visit = func(r *packRule) {
		path = append(path, r)
		for i := range r.rule.Causes {
			c := &r.rule.Causes[i]
			cause := byName[c.Alert]
			if cause == nil || cause.rule == nil || done[cause] {
				continue
			}
			if at := slices.Index(path, cause); at >= 0 {
				var steps []string
				for k, x := range path[at:] {
					of := append(path[at+1:len(path):len(path)], cause)[k]
					steps = append(steps, fmt.Sprintf("%s is a symptom of %s", x.alert, of.alert))
				}
				b.problems = append(b.problems, r.writtenForm().newProblem(c.Pos, strictyaml.Error, "cause-circle",
					"`symptom_of` leads in a circle: "+strings.Join(steps, ", "), "keep the direction from the symptom to the cause"))
				continue
			}
			visit(cause)
		}
		path = path[:len(path)-1]
		done[r] = true
	}
	for _, r := range b.rules {
		if r.rule != nil && !done[r] {
			visit(r)
		}
	}
}

// An alert named CauseKnown makes Alertmanager inhibit the notification of a symptom, because Alertmanager notifies of
// the cause. The alert has the labels of the symptom. The labels below replace the labels that every alert has.
const (
	CauseKnown = "CrowsnestCauseKnown"

	LabelSymptom         = "symptom"          // alertname of the symptom
	LabelSymptomSeverity = "symptom_severity" // severity of the symptom
	LabelCauseSeverity   = "cause_severity"   // severity of the cause
)

// Covers reports whether an alert of severity s may suppress an alert of severity o. Severity s must be at least as
// severe as o, and both must notify somebody.
func (s Severity) Covers(o Severity) bool {
	rank := map[Severity]int{SeverityCritical: 3, SeverityWarning: 2, SeverityInfo: 1}
	return rank[o] > 0 && rank[s] >= rank[o]
}

// Inhibits reports whether an alert of r may suppress the alerts of symptom.
func (r *Rule) Inhibits(symptom *Rule) bool {
	return r.Mode == ModeOn && symptom.Mode == ModeOn && r.Severity.Covers(symptom.Severity)
}
