package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
)

// maxLineCost is the maximum time that a rule's expressions may take on the longest line.
const maxLineCost = 100 * time.Millisecond

// lintCost reports an error for a rule that could stall the daemon, and a warning for a rule that must be tried on
// every line. The warning depends on the number of instructions of the expressions, because these instructions cost
// time on ordinary lines too.
func (l *linter) lintCost() {
	var cost expr.Cost
	total := 0
	for _, w := range l.written {
		if !w.sound {
			continue
		}
		addCost(&cost, &w.compiled)
		if !w.isIntact() || isPrefiltered(&w.compiled) {
			continue
		}
		n, _, _ := programSizes(w.parts, w.keys, &w.compiled, false)
		total += n
		if p := w.parts; len(p.Contains) > 0 || n > 0 || len(p.Field) > 0 || len(p.Any) > 0 {
			l.addWarning(w.keys.Pos, "no-literal", fmt.Sprintf("%s requires no text of %d bytes or more: it is tried on every line of its streams, for up to %s on a line of 16 KiB",
				w.name, minLiteral, shortTime(expr.SizeCost(max(n, 1)))), "add a fixed text of its lines with `contains`")
		}
	}
	most, fix := cost.Most(), "use smaller repetitions and classes, or split the rule in two"
	if most > maxLineCost {
		most = cost.Time()
	}
	l.rule.maxLine.most = most
	if every := expr.SizeCost(total); every > maxLineCost {
		most, fix = every, fmt.Sprintf("add a fixed text of %d bytes or more with `contains`, or use smaller repetitions and classes", minLiteral)
	}
	if most > maxLineCost {
		l.addError(l.largestExpression(), "too-costly", fmt.Sprintf("the regular expressions of the rule may take %s for one line of %d KiB, more than %s",
			shortTime(most), expr.MaxLine>>10, maxLineCost), fix)
	}
}

// largestExpression returns the position of the largest expression of the rule, or of the rule if it has none.
func (l *linter) largestExpression() strictyaml.Pos {
	worst, at := 0, l.at
	for _, w := range l.written {
		if !w.isIntact() {
			continue
		}
		if _, largest, where := programSizes(w.parts, w.keys, &w.compiled, true); largest > worst {
			worst, at = largest, where
		}
	}
	return at
}

// isIntact reports whether the matcher has no errors and keys with positions.
func (w *written) isIntact() bool { return w.sound && !w.keys.Pos.IsZero() && !w.keys.HasAnyError() }

func maxLineTime(r *Rule) time.Duration {
	var cost expr.Cost
	for i := range r.Steps {
		addCost(&cost, &r.Steps[i].Matcher)
	}
	for _, c := range []*ClearOrUnless{r.Clear, r.Unless} {
		if c != nil {
			addCost(&cost, &c.Matcher)
		}
	}
	return cost.Time()
}

// addCost adds the highest possible cost of a matcher.
func addCost(cost *expr.Cost, m *Matcher) {
	cost.AddTexts(len(m.Contains))
	cost.AddExpression(m.Regex, false)
	for _, f := range m.Fields {
		cost.AddTexts(1) // cost of searching for the field
		cost.AddExpression(f.Regex, true)
	}
	for i := range m.Any {
		addCost(cost, &m.Any[i])
	}
	if m.Not != nil {
		addCost(cost, m.Not)
	}
}

// programSizes returns the total number of instructions of a matcher's expressions, and the size and position of the
// largest expression. Unless all is set, it omits expressions with a required literal. m is the compiled form of p.
func programSizes(p *Parts, keys *strictyaml.Keys, m *Matcher, all bool) (total, largest int, at strictyaml.Pos) {
	at = keys.Pos
	add := func(pattern string, where strictyaml.Pos) {
		n := expr.Size(pattern)
		total += n
		if n > largest {
			largest, at = n, where
		}
	}
	if p.Regex != "" {
		add(p.Regex, keys.Value("regex"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Field)) {
		if v := p.Field[name]; len(v) > 1 && v[0] == '~' {
			add(v[1:], keys.EntryValue("field", name))
		}
	}
	inner := func(s *MatcherSyntax, m *Matcher) {
		if !all && isPrefiltered(m) {
			return
		}
		n, size, where := programSizes(&s.Parts, &s.Keys, m, all)
		total += n
		if size > largest {
			largest, at = size, where
		}
	}
	for i := range p.Any {
		inner(&p.Any[i], &m.Any[i])
	}
	if p.Not != nil {
		inner(p.Not, m.Not)
	}
	return total, largest, at
}

func shortTime(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "far too long"
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
