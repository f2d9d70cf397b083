package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/strictyaml"
)

// Cause is a rule that a rule is a symptom of.
type Cause struct {
	Alert string
	// Same are the labels that both alerts have with equal values; nil means the names that
	// are in By of both rules.
	Same []string
	// Lag is how long after the symptom the cause may begin; zero if it begins earlier.
	Lag time.Duration
	// At is the place of the name.
	At strictyaml.Pos
}

// Shared returns the labels of an alert of symptom that must agree with those of the cause,
// an alert of a rule with the key by. It returns false if the two are not related, because
// Same is not stated and their keys have no name in common.
func (c *Cause) Shared(symptom *Rule, by []string) (names []string, ok bool) {
	if c.Same != nil {
		return c.Same, true
	}
	for _, name := range symptom.By {
		if slices.Contains(by, name) {
			names = append(names, name)
		}
	}
	return names, len(names) > 0
}

// Text says for people which alerts of the rule are causes.
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

// AlertNames returns the names that the rule's alerts have as labels: by and labels, without
// those that every alert has.
func (r *Rule) AlertNames() []string {
	out := slices.Clone(r.By)
	for _, l := range r.Labels {
		out = append(out, l.Name)
	}
	return out
}

// compileCauses compiles `symptom_of`, as far as it does not depend on other rules.
func (c *compiler) compileCauses() {
	if c.Keys.Good("symptom_of") && len(c.SymptomOf) == 0 && c.Keys.Key("symptom_of").File() == c.file {
		c.errorAt(c.Keys.Key("symptom_of"), "empty-value", "`symptom_of` names no rule", "name the rules whose failures cause this one, or remove the key")
	}
	seen := map[string]bool{}
	for i := range c.SymptomOf {
		s := &c.SymptomOf[i]
		if s.Keys.At.IsZero() || s.Keys.Damaged() {
			continue
		}
		at := s.Keys.Value("alert")
		switch {
		case s.Alert == "":
			c.errorAt(at, "empty-value", "`symptom_of` has an empty name", "name a rule")
			continue
		case s.Alert == c.Alert:
			c.errorAt(at, "cause-circle", fmt.Sprintf("rule %s is named as its own cause", c.Alert), "remove it, or name the rule that reports the cause")
			continue
		case seen[s.Alert]:
			c.errorAt(at, "duplicate-name", fmt.Sprintf("`symptom_of` has `%s` twice", s.Alert), "keep one of them")
			continue
		}
		seen[s.Alert] = true
		cause := Cause{Alert: s.Alert, Lag: s.Lag, At: at}
		if s.Keys.Has("same") {
			c.checkNames(s.Same, &s.Keys, "same")
			c.checkSameOfCause(s)
			cause.Same = append([]string{}, s.Same...)
		}
		c.rule.Causes = append(c.rule.Causes, cause)
	}
}

// checkSameOfCause checks that the rule's alerts have the labels that must agree.
func (c *compiler) checkSameOfCause(s *CauseSyntax) {
	if c.Keys.Broken("by") || c.Keys.Broken("labels") {
		return
	}
	for i, name := range s.Same {
		at := s.Keys.Item("same", i)
		switch {
		case name == "" || slices.Contains(DefaultIdentity, name):
		case isReserved(name):
			c.errorAt(at, "same", fmt.Sprintf("`same` has `%s`, which differs between a cause and its symptom", name), "remove it")
		default:
			if _, has := c.Labels[name]; !has && !slices.Contains(c.By, name) {
				c.errorAt(at, "same", fmt.Sprintf("`same` has `%s`, which is neither in `by` nor in `labels` of rule %s", name, c.Alert), "list only labels that the alerts of both rules have")
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

// maxSuggested is how many unknown causes are compared with the names of all rules.
const maxSuggested = 100

// lintCauses checks the causes of all rules against each other.
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
				// Packs are loaded separately, so a rule may name a cause that this
				// installation does not have.
				fix := "load the pack that has it, or remove it here"
				if unknown++; unknown <= maxSuggested {
					if best := strictyaml.Closest(c.Alert, names); best != "" {
						fix = "did you mean " + best + "?"
					}
				}
				b.problems = append(b.problems, r.form().problem(c.At, strictyaml.Warning, "unknown-cause",
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

// checkShared checks that alerts of the cause have the labels that must agree.
func (b *builder) checkShared(r *packRule, c *Cause, cause *packRule) {
	if _, ok := c.Shared(r.rule, cause.rule.By); !ok {
		at, where := blamed(c.At, r, cause)
		b.problems = append(b.problems, r.form().problem(at, strictyaml.Error, "no-shared-label",
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
	for i := range r.form().SymptomOf {
		s := &r.form().SymptomOf[i]
		if s.Alert != c.Alert || s.Keys.Broken("same") {
			continue
		}
		for k, name := range s.Same {
			if !unknown(name) {
				continue
			}
			at, where := blamed(s.Keys.Item("same", k), cause)
			b.problems = append(b.problems, r.form().problem(at, strictyaml.Error, "same",
				fmt.Sprintf("`same` has `%s`, which is neither in `by` nor in `labels` of rule %s%s", name, c.Alert, where), "list only labels that the alerts of both rules have"))
		}
	}
}

// blamed returns the place of an error about the keys of rules: that of the override which
// changes one of them, else at. where names at in the first case.
func blamed(at strictyaml.Pos, rules ...*packRule) (_ strictyaml.Pos, where string) {
	for _, r := range rules {
		if !r.overridden {
			continue
		}
		if by := r.form().Keys.Key("by"); r.form().Keys.Has("by") && by.File() != r.doc.file {
			return by, fmt.Sprintf(" (%s)", at)
		}
	}
	return at, ""
}

// findCircles reports rules that are, over others, symptoms of themselves.
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
				b.problems = append(b.problems, r.form().problem(c.At, strictyaml.Error, "cause-circle",
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
