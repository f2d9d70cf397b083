package replay

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// mutant is a rule with one part removed or loosened.
type mutant struct {
	part string
	rule rules.Rule
}

// mutateRule runs the tests of a rule with each of its mutants. It returns the number of
// mutants, and those for which all tests pass.
func mutateRule(r *rules.Rule, run *regexp.Regexp) (int, []Survivor, error) {
	all := listMutants(r)
	var out []Survivor
	for _, m := range all {
		set, prog, err := ruleAlone(&m.rule)
		if err != nil {
			return 0, nil, err
		}
		killed := slices.ContainsFunc(r.Tests, func(t rules.Test) bool {
			return (run == nil || run.MatchString(r.Alert+"/"+t.Name)) && len(runTest(set, prog, t)) > 0
		})
		if !killed {
			out = append(out, Survivor{File: r.File, Rule: r.Alert, Part: m.part, Line: r.Line})
		}
	}
	return len(all), out, nil
}

// listMutants returns a mutant for each part of a rule that can be removed or loosened.
func listMutants(r *rules.Rule) []mutant {
	m := &mutator{rule: r}
	m.mutateSelectors()
	for i := range r.Steps {
		name := "match"
		if r.Sequence {
			name = fmt.Sprintf("sequence[%d]", i+1)
			if len(r.Steps) > 1 {
				m.addMutant(name, func(x *rules.Rule) { x.Steps = slices.Delete(slices.Clone(r.Steps), i, i+1) })
			}
		}
		m.mutateMatcher(name, r.Steps[i].Matcher, func(x *rules.Rule, c rules.Matcher) {
			x.Steps = slices.Clone(r.Steps)
			x.Steps[i].Matcher = c
		})
		for k, d := range r.Steps[i].Differs {
			m.addMutant(name+".differs "+d, func(x *rules.Rule) {
				x.Steps = slices.Clone(r.Steps)
				x.Steps[i].Differs = slices.Delete(slices.Clone(r.Steps[i].Differs), k, k+1)
			})
		}
	}
	m.clearOrUnless("clear", r.Clear, func(x *rules.Rule, a *rules.ClearOrUnless) { x.Clear = a })
	m.clearOrUnless("unless", r.Unless, func(x *rules.Rule, a *rules.ClearOrUnless) { x.Unless = a })
	m.mutateScalars()
	m.mutateCauses()
	return m.out
}

// mutateCauses removes each cause, and each label that must agree between the alerts of the
// cause and the rule.
func (m *mutator) mutateCauses() {
	for i, c := range m.rule.Causes {
		name := "symptom_of " + c.Alert
		change := func(part string, f func(*rules.Cause)) {
			m.addMutant(part, func(x *rules.Rule) {
				x.Causes = slices.Clone(m.rule.Causes)
				f(&x.Causes[i])
			})
		}
		m.addMutant(name, func(x *rules.Rule) { x.Causes = slices.Delete(slices.Clone(m.rule.Causes), i, i+1) })
		if c.Same == nil {
			change(name+".same", func(x *rules.Cause) { x.Same = []string{} })
		}
		for k, label := range c.Same {
			if !slices.Contains(rules.DefaultIdentity, label) { // identity labels agree in any case
				change(name+".same "+label, func(x *rules.Cause) { x.Same = slices.Delete(slices.Clone(c.Same), k, k+1) })
			}
		}
		if c.Lag > 0 {
			change(name+".lag", func(x *rules.Cause) { x.Lag *= 100 })
		}
	}
}

// mutateSelectors makes parts of the rule read every stream: those that use the rule's own
// selector, and each part with another selector.
func (m *mutator) mutateSelectors() {
	r := m.rule
	m.addMutant("from", func(x *rules.Rule) { *x = *r.WithFrom(r.From, rules.Selector{}) })
	own := func(name string, from rules.Selector, set func(*rules.Rule)) {
		if !from.Equal(r.From) {
			m.addMutant(name+".from", set)
		}
	}
	for i := range r.Steps {
		own(fmt.Sprintf("sequence[%d]", i+1), r.Steps[i].From, func(x *rules.Rule) {
			x.Steps = slices.Clone(r.Steps)
			x.Steps[i].From = rules.Selector{}
		})
	}
	if r.Clear != nil {
		own("clear", r.Clear.From, func(x *rules.Rule) { x.Clear = anyStream(r.Clear) })
	}
	if r.Unless != nil {
		own("unless", r.Unless.From, func(x *rules.Rule) { x.Unless = anyStream(r.Unless) })
	}
}

// anyStream returns a clear or unless matcher that reads every stream.
func anyStream(a *rules.ClearOrUnless) *rules.ClearOrUnless {
	b := *a
	b.From = rules.Selector{}
	return &b
}

type mutator struct {
	rule *rules.Rule
	out  []mutant
}

func (m *mutator) addMutant(part string, change func(*rules.Rule)) {
	x := mutant{part: part, rule: *m.rule}
	change(&x.rule)
	m.out = append(m.out, x)
}

// mutateScalars loosens the numbers and durations of the rule.
func (m *mutator) mutateScalars() {
	r := m.rule
	if r.Count > 1 {
		m.addMutant(fmt.Sprintf("count %d", r.Count), func(x *rules.Rule) { x.Count-- })
	}
	if r.Within > 0 {
		m.addMutant("within", func(x *rules.Rule) { x.Within *= 100 })
	}
	if r.Distinct != "" {
		m.addMutant("distinct", func(x *rules.Rule) { x.Distinct = "" })
	}
	for i, name := range r.By {
		m.addMutant("by "+name, func(x *rules.Rule) { removeBy(x, i) })
	}
	if r.For > 0 {
		m.addMutant("for", func(x *rules.Rule) { x.For = 0 })
	}
	if r.Silent > 0 {
		m.addMutant("silent", func(x *rules.Rule) { x.Silent /= 2 })
	}
	stated := func(key string, change func(*rules.Rule)) {
		if _, ok := r.SetBy()[key]; ok {
			m.addMutant(key, change)
		}
	}
	if !r.Expires() {
		stated("keep_firing_for", func(x *rules.Rule) { x.KeepFiringFor = 100 * x.KeepFiringFor })
	} else {
		stated("expire", func(x *rules.Rule) { x.Expire = 100 * x.Expire })
	}
	stated("limit", func(x *rules.Rule) { x.Limit *= 100 })
}

func removeBy(x *rules.Rule, i int) {
	name := x.By[i]
	x.By = slices.Delete(slices.Clone(x.By), i, i+1)
	// CapturedNames begins with the names of the key, so this name is appended.
	wants := slices.DeleteFunc(slices.Clone(x.CapturedNames), func(w string) bool { return w == name })
	x.CapturedNames = append(wants, name)
	for _, a := range []**rules.ClearOrUnless{&x.Clear, &x.Unless} {
		if *a != nil {
			c := **a
			c.Same = slices.DeleteFunc(slices.Clone(c.Same), func(s string) bool { return s == name })
			*a = &c
		}
	}
}

// clearOrUnless removes or loosens a clear or unless matcher.
func (m *mutator) clearOrUnless(name string, a *rules.ClearOrUnless, set func(*rules.Rule, *rules.ClearOrUnless)) {
	if a == nil {
		return
	}
	m.addMutant(name, func(x *rules.Rule) {
		set(x, nil)
		if !x.Expires() && x.KeepFiringFor == 0 {
			x.KeepFiringFor = 24 * time.Hour
		}
	})
	m.mutateMatcher(name, a.Matcher, func(x *rules.Rule, c rules.Matcher) {
		b := *a
		b.Matcher = c
		set(x, &b)
	})
	for i, same := range a.Same {
		m.addMutant(name+".same "+same, func(x *rules.Rule) {
			b := *a
			b.Same = slices.Delete(slices.Clone(a.Same), i, i+1)
			set(x, &b)
		})
	}
	if a.Within > 0 {
		m.addMutant(name+".within", func(x *rules.Rule) {
			b := *a
			b.Within *= 100
			set(x, &b)
		})
	}
}

// anything is an expression for a matcher whose only part was removed.
var anything = literals.MustExpression(``)

// mutateMatcher removes each part of a matcher in turn.
func (m *mutator) mutateMatcher(name string, c rules.Matcher, set func(*rules.Rule, rules.Matcher)) {
	change := func(part string, f func(*rules.Matcher)) {
		m.addMutant(part, func(x *rules.Rule) {
			b := c
			f(&b)
			if len(b.Contains) == 0 && b.Regex == nil && len(b.Fields) == 0 && len(b.Any) == 0 {
				b.Regex = anything
			}
			set(x, b)
		})
	}
	if c.In != rules.InSpoken {
		change(name+".in "+string(c.In), func(b *rules.Matcher) { b.In = rules.InSpoken })
	}
	for i, text := range c.Contains {
		change(fmt.Sprintf("%s.contains %q", name, text), func(b *rules.Matcher) {
			b.Contains = slices.Delete(slices.Clone(c.Contains), i, i+1)
		})
	}
	if c.Regex != nil {
		change(name+".regex", func(b *rules.Matcher) { b.Regex = nil })
	}
	for i, f := range c.Fields {
		change(name+".field "+f.Name, func(b *rules.Matcher) {
			b.Fields = slices.Delete(slices.Clone(c.Fields), i, i+1)
		})
	}
	for i := range c.Any {
		part := fmt.Sprintf("%s.any[%d]", name, i+1)
		change(part, func(b *rules.Matcher) { b.Any = slices.Delete(slices.Clone(c.Any), i, i+1) })
		m.mutateMatcher(part, c.Any[i], func(x *rules.Rule, branch rules.Matcher) {
			b := c
			b.Any = slices.Clone(c.Any)
			b.Any[i] = branch
			set(x, b)
		})
	}
	if c.Not != nil {
		change(name+".not", func(b *rules.Matcher) { b.Not = nil })
		m.mutateNot(name+".not", c, set)
	}
}

// mutateNot loosens a rule by restricting what its matcher excludes. So the tests must need
// each branch of `not`.
func (m *mutator) mutateNot(name string, c rules.Matcher, set func(*rules.Rule, rules.Matcher)) {
	for i := range c.Not.Any {
		if len(c.Not.Any) == 1 {
			return
		}
		m.addMutant(fmt.Sprintf("%s.any[%d]", name, i+1), func(x *rules.Rule) {
			n := *c.Not
			n.Any = slices.Delete(slices.Clone(n.Any), i, i+1)
			b := c
			b.Not = &n
			set(x, b)
		})
	}
}
