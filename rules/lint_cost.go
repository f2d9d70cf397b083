package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"crowsnest/rules/internal/expr"
	"crowsnest/strictyaml"
)

// maxLineCost bounds the time that the expressions of a rule may take for the longest
// line.
const maxLineCost = 100 * time.Millisecond

// lintCost reports an error for rules that could stall the daemon, and a warning
// for rules that must be tried on every line. For the latter it uses the size of
// the programs, because they cost time even where no line is the worst.
func (c *compiler) lintCost() {
	var cost expr.Cost
	total, worst, worstAt := 0, 0, c.at
	visit := func(p *Parts, keys *strictyaml.Keys, m Matcher, name string) {
		addCost(&cost, &m)
		if keys.At.IsZero() || keys.Damaged() {
			return
		}
		if _, largest, at := c.programs(p, keys, true); largest > worst {
			worst, worstAt = largest, at
		}
		if gated(m) {
			return
		}
		n, _, _ := c.programs(p, keys, false)
		total += n
		if len(p.Contains) > 0 || n > 0 || len(p.Field) > 0 || len(p.Any) > 0 {
			c.warnAt(keys.At, "no-literal", fmt.Sprintf("%s requires no text of %d bytes or more: it is tried on every line of its streams, for up to %s on a line of 16 KiB",
				name, minLiteral, shortTime(expr.SizeCost(max(n, 1)))), "add a fixed text of its lines with `contains`")
		}
	}
	c.eachMatcher(visit)
	c.rule.MaxLineTime = cost.Time()
	most, fix := c.rule.MaxLineTime, "use smaller repetitions and classes, or split the rule in two"
	if every := expr.SizeCost(total); every > maxLineCost {
		most, fix = every, fmt.Sprintf("add a fixed text of %d bytes or more with `contains`, or use smaller repetitions and classes", minLiteral)
	}
	if most > maxLineCost {
		c.errorAt(worstAt, "too-costly", fmt.Sprintf("the regular expressions of the rule may take %s for one line of %d KiB, more than %s",
			shortTime(most), expr.MaxLine>>10, maxLineCost), fix)
	}
}

// addCost adds what a matcher may cost.
func addCost(cost *expr.Cost, m *Matcher) {
	cost.Texts(len(m.Contains))
	cost.Expression(m.Regex, false)
	for _, f := range m.Fields {
		cost.Texts(1) // to find it
		cost.Expression(f.Regex, true)
	}
	for i := range m.Any {
		addCost(cost, &m.Any[i])
	}
	if m.Not != nil {
		addCost(cost, m.Not)
	}
}

// eachMatcher visits the matchers that are tried independently of each other.
func (c *compiler) eachMatcher(visit func(*Parts, *strictyaml.Keys, Matcher, string)) {
	one := func(p *Parts, keys *strictyaml.Keys, name string) {
		quiet := &compiler{form: c.form, rule: &Rule{}}
		// Other errors of the matcher have already been reported.
		if m := quiet.matcher(p, keys, name); len(quiet.problems.Errors()) == 0 {
			visit(p, keys, m, name)
		}
	}
	if c.Match != nil {
		one(&c.Match.Parts, &c.Match.Keys, "`match`")
	}
	for i := range c.Sequence {
		one(&c.Sequence[i].Parts, &c.Sequence[i].Keys, fmt.Sprintf("step %d of `sequence`", i+1))
	}
	if c.Clear != nil {
		one(&c.Clear.Parts, &c.Clear.Keys, "`clear`")
	}
	if c.Unless != nil {
		one(&c.Unless.Parts, &c.Unless.Keys, "`unless`")
	}
	for _, u := range c.added {
		one(&u.Parts, &u.Keys, "`add_unless`")
	}
}

// programs counts the instructions of a matcher's expressions and finds the
// largest expression: of all of them, or of those without a required literal.
func (c *compiler) programs(p *Parts, keys *strictyaml.Keys, all bool) (total, largest int, at strictyaml.Pos) {
	at = keys.At
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
	quiet := &compiler{form: c.form, rule: &Rule{}}
	inner := func(m *MatcherSyntax) {
		if !all && gated(quiet.matcher(&m.Parts, &m.Keys, "")) {
			return
		}
		n, l, where := c.programs(&m.Parts, &m.Keys, all)
		total += n
		if l > largest {
			largest, at = l, where
		}
	}
	for i := range p.Any {
		inner(&p.Any[i])
	}
	if p.Not != nil {
		inner(p.Not)
	}
	return total, largest, at
}

func shortTime(d time.Duration) string {
	if d == math.MaxInt64 {
		return "far too long"
	}
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	if d >= time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
