package replay

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// mutant is a copy of a rule with one key or condition removed or loosened.
type mutant struct {
	part string
	rule rules.Rule
}

// mutateRule runs the tests of a rule with each of its mutants. It returns the number of mutants, and the mutants for
// which all tests pass.
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

// listMutants returns a mutant for each key and condition of a rule that can be removed or loosened.
func listMutants(r *rules.Rule) []mutant {
	m := &mutator{rule: r}
	m.addMutant("from", func(x *rules.Rule) { *x = *r.WithFrom(r.From, rules.Selector{}) })
	for i := range r.Steps {
		name := "match"
		if r.Sequence {
			name = fmt.Sprintf("sequence[%d]", i+1)
			if len(r.Steps) > 1 {
				m.addMutant(name, func(x *rules.Rule) { x.Steps = without(r.Steps, i) })
			}
			if !r.Steps[i].From.Equal(r.From) {
				m.addMutant(name+".from", func(x *rules.Rule) { changeStep(x, i).From = rules.Selector{} })
			}
		}
		m.mutateMatcher(name, r.Steps[i].Matcher, func(x *rules.Rule, c rules.Matcher) { changeStep(x, i).Matcher = c })
		for k, d := range r.Steps[i].Differs {
			m.addMutant(name+".differs "+d, func(x *rules.Rule) {
				s := changeStep(x, i)
				s.Differs = without(s.Differs, k)
			})
		}
	}
	m.mutatePart("clear", r.Clear, func(x *rules.Rule) **rules.ClearOrUnless { return &x.Clear })
	m.mutatePart("unless", r.Unless, func(x *rules.Rule) **rules.ClearOrUnless { return &x.Unless })
	m.mutateScalars()
	m.mutateCauses()
	return m.out
}

func without[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// changeStep copies step i of a rule and returns the copy, which can be changed without changing other rules.
func changeStep(x *rules.Rule, i int) *rules.Step {
	x.Steps = slices.Clone(x.Steps)
	return &x.Steps[i]
}

// copyPart replaces a part by a copy and returns the copy, which can be changed without changing other rules.
func copyPart(part **rules.ClearOrUnless) *rules.ClearOrUnless {
	a := **part
	*part = &a
	return &a
}

// mutateCauses removes each cause, and each label that must be equal in the cause's alerts.
func (m *mutator) mutateCauses() {
	for i, c := range m.rule.Causes {
		name := "symptom_of " + c.Alert
		change := func(part string, f func(*rules.Cause)) {
			m.addMutant(part, func(x *rules.Rule) {
				x.Causes = slices.Clone(x.Causes)
				f(&x.Causes[i])
			})
		}
		m.addMutant(name, func(x *rules.Rule) { x.Causes = without(x.Causes, i) })
		if c.Same == nil {
			change(name+".same", func(x *rules.Cause) { x.Same = []string{} })
		}
		for k, label := range c.Same {
			if !slices.Contains(rules.DefaultIdentity, label) { // identity labels are always compared
				change(name+".same "+label, func(x *rules.Cause) { x.Same = without(c.Same, k) })
			}
		}
		if c.Lag > 0 {
			change(name+".lag", func(x *rules.Cause) { x.Lag *= 100 })
		}
	}
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
	x.By = without(x.By, i)
	// CapturedNames must begin with the names in `by`. Therefore a name that is removed from `by` moves to the end.
	isName := func(s string) bool { return s == name }
	x.CapturedNames = append(slices.DeleteFunc(slices.Clone(x.CapturedNames), isName), name)
	for _, part := range []**rules.ClearOrUnless{&x.Clear, &x.Unless} {
		if *part != nil {
			a := copyPart(part)
			a.Same = slices.DeleteFunc(slices.Clone(a.Same), isName)
		}
	}
}

// mutatePart removes or loosens a, the clear or unless matcher. find returns the field of a rule that holds it.
func (m *mutator) mutatePart(name string, a *rules.ClearOrUnless, find func(*rules.Rule) **rules.ClearOrUnless) {
	if a == nil {
		return
	}
	m.addMutant(name, func(x *rules.Rule) {
		*find(x) = nil
		if !x.Expires() && x.KeepFiringFor == 0 {
			x.KeepFiringFor = 24 * time.Hour
		}
	})
	if !a.From.Equal(m.rule.From) {
		m.addMutant(name+".from", func(x *rules.Rule) { copyPart(find(x)).From = rules.Selector{} })
	}
	m.mutateMatcher(name, a.Matcher, func(x *rules.Rule, c rules.Matcher) { copyPart(find(x)).Matcher = c })
	for i, same := range a.Same {
		m.addMutant(name+".same "+same, func(x *rules.Rule) { copyPart(find(x)).Same = without(a.Same, i) })
	}
	if a.Within > 0 {
		m.addMutant(name+".within", func(x *rules.Rule) { copyPart(find(x)).Within *= 100 })
	}
}

// anything is an expression that every line matches, for a matcher whose only condition was removed.
var anything = literals.MustExpression(``)

// mutateMatcher removes each condition of a matcher in turn.
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
		change(fmt.Sprintf("%s.contains %q", name, text), func(b *rules.Matcher) { b.Contains = without(c.Contains, i) })
	}
	if c.Regex != nil {
		change(name+".regex", func(b *rules.Matcher) { b.Regex = nil })
	}
	for i, f := range c.Fields {
		change(name+".field "+f.Name, func(b *rules.Matcher) { b.Fields = without(c.Fields, i) })
	}
	for i := range c.Any {
		part := fmt.Sprintf("%s.any[%d]", name, i+1)
		change(part, func(b *rules.Matcher) { b.Any = without(c.Any, i) })
		m.mutateMatcher(part, c.Any[i], func(x *rules.Rule, branch rules.Matcher) {
			b := c
			b.Any = slices.Clone(c.Any)
			b.Any[i] = branch
			set(x, b)
		})
	}
	if c.Not == nil {
		return
	}
	change(name+".not", func(b *rules.Matcher) { b.Not = nil })
	for i := range c.Not.Any {
		if len(c.Not.Any) > 1 { // a test must fail without each branch of `not`
			change(fmt.Sprintf("%s.not.any[%d]", name, i+1), func(b *rules.Matcher) {
				n := *c.Not
				n.Any = without(n.Any, i)
				b.Not = &n
			})
		}
	}
}
