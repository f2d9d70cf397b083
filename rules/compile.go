package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"crowsnest/rules/internal/expr"
	"crowsnest/rules/selector"
	"crowsnest/strictyaml"
)

// compiler compiles a form to a Rule and collects every problem.
type compiler struct {
	form
	rule     *Rule
	problems Problems
}

// compileSafely calls compile and turns a panic into a problem of the rule.
func compileSafely(f form) (r *Rule, problems Problems) {
	defer func() {
		if p := recover(); p != nil {
			r, problems = nil, Problems{f.problem(f.at, strictyaml.Error, "internal", fmt.Sprintf("the rule cannot be compiled because of a bug in crowsnest: %v", p),
				"remove the rule, and report the bug")}
		}
	}()
	return compile(f)
}

// compile checks and compiles a rule. The rule is complete if the problems
// contain no error.
func compile(f form) (*Rule, Problems) {
	c := &compiler{form: f, rule: &Rule{
		Alert: f.Alert, Pack: f.pack, File: f.file, Line: f.at.Line,
		Sequence: f.Keys.Has("sequence"), Count: f.Count, Within: f.Within, Distinct: f.Distinct, By: f.By,
		For: f.For, KeepFiringFor: f.KeepFiringFor, Expire: f.Expire, Limit: f.Limit,
		Mode: f.Enabled, Severity: f.Severity, Origin: f.origin, Disabled: f.disabled,
		Infrastructure: f.RuleSyntax.Origin == OriginInfrastructure,
	}}
	c.setDefaults()
	c.compileHead()
	c.compileTrigger()
	c.rule.Clear = c.compileClear()
	c.rule.Unless = c.compileUnless()
	c.rule.Scope = computeScope(c.rule)
	c.compileTexts()
	c.compileTests()
	c.lint()
	c.rule.CapturedNames = capturedNames(c.rule)
	c.rule.Source = f.source()
	c.rule.Hash = semanticHash(c.rule)
	c.addNamespace(c.rule.Clear)
	c.addNamespace(c.rule.Unless)
	return c.rule, tidy(c.problems)
}

func (c *compiler) setDefaults() {
	r := c.rule
	setDefault(&r.Count, 1, c.Keys.Has("count"))
	setDefault(&r.Limit, defaultLimit, c.Keys.Has("limit"))
	if !c.Keys.Has("clear") {
		setDefault(&r.KeepFiringFor, DefaultKeepFiringFor, c.Keys.Has("keep_firing_for"))
		r.Expire = 0
	} else {
		setDefault(&r.Expire, DefaultExpire, c.Keys.Has("expire"))
		r.KeepFiringFor = 0
	}
	if r.Mode == "" {
		r.Mode = ModeOn
	}
}

func setDefault[T int | time.Duration](v *T, d T, stated bool) {
	if !stated {
		*v = d
	}
}

func (c *compiler) errorAt(at strictyaml.Pos, check, message, fix string) {
	c.problems = append(c.problems, c.problem(at, strictyaml.Error, check, message, fix))
}

func (c *compiler) warnAt(at strictyaml.Pos, check, message, fix string) {
	c.problems = append(c.problems, c.problem(at, strictyaml.Warning, check, message, fix))
}

// missing reports that something is absent. Its position is the rule, or the
// override whose key causes the problem.
func (c *compiler) missing(becauseOf, check, message, fix string) {
	at := c.at
	if becauseOf != "" {
		if p := c.Keys.Key(becauseOf); p.File() != c.file {
			at = p
		} else {
			message += fmt.Sprintf(" (`%s` is at %s)", becauseOf, p)
		}
	}
	c.errorAt(at, check, message, fix)
}

// good reports whether a key is present and was decoded without errors.
func (c *compiler) good(key string) bool { return c.Keys.Has(key) && !c.Keys.Broken(key) }

// compileHead checks the keys that every rule has.
func (c *compiler) compileHead() {
	switch {
	case c.Keys.Missing("alert"):
		c.missing("", "missing-key", "the rule lacks `alert`", "name the alert in CamelCase with its component first")
	case c.good("alert") && c.Alert == "":
		c.errorAt(c.Keys.Value("alert"), "empty-value", "`alert` is empty", "name the alert")
	case len(c.Alert) > maxLabelValue:
		c.errorAt(c.Keys.Value("alert"), "too-long", fmt.Sprintf("`alert` is longer than %d bytes", maxLabelValue), "use a shorter name")
	}
	if c.Keys.Missing("from") {
		c.missing("", "missing-key", "the rule lacks `from`", "add the streams that it reads: from: '{container=\"manager\"}'")
	} else if c.good("from") {
		sel, err := selector.Parse(c.From)
		if err != nil {
			at, message, fix := syntaxAt(c.Keys.Value("from"), c.From, err)
			c.errorAt(at, "selector", "`from` is invalid: "+message, fix)
		}
		c.rule.From = sel
	}
	if c.Keys.Missing("severity") {
		c.missing("", "missing-key", "the rule lacks `severity`", "add severity: critical (page), warning (ticket) or info, here or in `defaults`")
	} else if c.Severity == SeverityNone && c.Keys.Key("severity").File() == c.file {
		c.warnAt(c.Keys.Value("severity"), "severity-none", "severity none sends the alert to nobody", "use enabled: silent to try out a rule; none is meant for overrides")
	}
}

// compileTrigger compiles match or sequence.
func (c *compiler) compileTrigger() {
	both := c.Keys.Has("match") && c.Keys.Has("sequence")
	switch {
	case both:
		later := c.Keys.Key("sequence")
		if m := c.Keys.Key("match"); m.Line > later.Line {
			later = m
		}
		c.errorAt(later, "match-or-sequence", "the rule has both `match` and `sequence`", "keep one of them")
	case c.Keys.Missing("match") && c.Keys.Missing("sequence"):
		c.missing("", "missing-key", "the rule lacks `match` or `sequence`", "add the text of the lines that trigger it: match: \"text of the line\"")
	}
	if c.Match != nil {
		m := c.matcher(&c.Match.Parts, &c.Match.Keys, "`match`")
		c.rule.Steps = append(c.rule.Steps, Step{Matcher: m})
	}
	if c.good("sequence") && len(c.Sequence) == 0 {
		c.errorAt(c.Keys.Key("sequence"), "empty-matcher", "the sequence has no steps", "list the matchers of its lines, in order")
	} else if c.good("sequence") && len(c.Sequence) == 1 {
		c.warnAt(c.Keys.Key("sequence"), "short-sequence", "the sequence has one step", "use `match` for a single line")
	}
	for i := range c.Sequence {
		s := &c.Sequence[i]
		m := c.matcher(&s.Parts, &s.Keys, fmt.Sprintf("step %d of `sequence`", i+1))
		if !both {
			c.rule.Steps = append(c.rule.Steps, Step{Matcher: m, Differs: s.Differs})
		}
	}
}

func (c *compiler) compileClear() *ClearOrUnless {
	if c.Clear == nil {
		return nil
	}
	return &ClearOrUnless{
		Matcher: c.matcher(&c.Clear.Parts, &c.Clear.Keys, "`clear`"),
		Same:    c.same(c.Clear.Same, &c.Clear.Keys),
		At:      c.Keys.Key("clear"),
	}
}

// compileUnless compiles `unless` and merges the `add_unless` of overrides.
func (c *compiler) compileUnless() *ClearOrUnless {
	var out *ClearOrUnless
	all := c.added
	if c.Unless != nil {
		all = append([]*UnlessSyntax{c.Unless}, all...)
	}
	for i, u := range all {
		name := "`unless`"
		if i > 0 || c.Unless == nil {
			name = "`add_unless`"
		}
		a := &ClearOrUnless{
			Matcher: c.matcher(&u.Parts, &u.Keys, name),
			Same:    c.same(u.Same, &u.Keys),
			Within:  u.Within,
		}
		if u == c.Unless {
			a.At = c.Keys.Key("unless")
		}
		c.checkUnlessWithin(u, name)
		out = c.merge(out, a, u)
	}
	return out
}

// merge returns one condition from two: a line that satisfies either one mutes.
func (c *compiler) merge(a, b *ClearOrUnless, u *UnlessSyntax) *ClearOrUnless {
	if a == nil {
		return b
	}
	if !equalSets(a.Same, b.Same) {
		c.errorAt(u.Keys.At, "add-unless", fmt.Sprintf("rule %s already has an `unless` with another `same`", c.Alert),
			fmt.Sprintf("use same: %s, or copy the rule", flowList(a.Same)))
		return a
	}
	if a.Within != b.Within && b.Within > 0 {
		c.warnAt(u.Keys.At, "add-unless", fmt.Sprintf("rule %s already has an `unless` with within: %s; both now mute for %s",
			c.Alert, duration(a.Within), duration(max(a.Within, b.Within))), "use within: "+duration(a.Within))
	}
	return &ClearOrUnless{Matcher: Matcher{Any: []Matcher{a.Matcher, b.Matcher}}, Same: a.Same, Within: max(a.Within, b.Within), At: a.At}
}

func (c *compiler) checkUnlessWithin(u *UnlessSyntax, name string) {
	switch {
	case u.Keys.Missing("within") && !u.Keys.Damaged():
		if u.Keys.At.File() != c.file {
			c.errorAt(u.Keys.At, "needs-within", name+" lacks `within`", "add how long before the trigger a muting line still mutes: within: 10m")
			return
		}
		c.missing("unless", "needs-within", "`unless` lacks `within`", "add how long before the trigger a muting line still mutes: within: 10m")
	case u.Keys.Has("within") && !u.Keys.Broken("within"):
		c.checkWithin(u.Within, u.Keys.Value("within"), name+".within")
	}
}

// same returns the names whose values a clear or unless line must share with the
// trigger.
func (c *compiler) same(names []string, keys *strictyaml.Keys) []string {
	if !keys.Has("same") {
		return c.By
	}
	c.checkNames(names, keys, "same")
	for i, name := range names {
		if name != "" && !slices.Contains(c.By, name) && !c.Keys.Broken("by") {
			c.errorAt(keys.Item("same", i), "same", fmt.Sprintf("`same` has `%s`, which is not in `by`", name), c.sameFix())
		}
	}
	if len(names) == 0 && len(c.By) == 0 && !keys.Broken("same") && !c.Keys.Broken("by") {
		c.errorAt(keys.Key("same"), "no-effect", "`same` has no effect: the rule has no `by`", "remove it")
	}
	return names
}

func (c *compiler) sameFix() string {
	if len(c.By) == 0 {
		return "remove it: the rule has no `by`, so all lines have one key"
	}
	return "list only names of by: " + flowList(c.By)
}

// checkNames reports empty and repeated names in a list.
func (c *compiler) checkNames(names []string, keys *strictyaml.Keys, key string) {
	if keys.Broken(key) {
		return
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "":
			c.errorAt(keys.Item(key, i), "empty-value", fmt.Sprintf("`%s` has an empty name", key), "remove it")
		case seen[name]:
			c.errorAt(keys.Item(key, i), "duplicate-name", fmt.Sprintf("`%s` has `%s` twice", key, name), "remove one")
		}
		seen[name] = true
	}
}

// matcher compiles the parts of a matcher. If some parts have errors, it compiles
// the others and does not check the matcher as a whole.
func (c *compiler) matcher(p *Parts, keys *strictyaml.Keys, name string) Matcher {
	m := Matcher{}
	for i, text := range p.Contains {
		if !keys.Broken("contains") {
			c.checkText(text, keys.Item("contains", i), name)
		}
		m.Contains = append(m.Contains, text)
	}
	if keys.Has("contains") && !keys.Broken("contains") && len(p.Contains) == 0 {
		c.errorAt(keys.Key("contains"), "empty-matcher", name+" has an empty `contains`, which every line satisfies", "write the text that the line contains")
	}
	if keys.Has("regex") && !keys.Broken("regex") {
		m.Regex = c.regex(p.Regex, keys.Value("regex"), name)
	}
	m.Fields = c.fields(p, keys, name)
	for i := range p.Any {
		a := &p.Any[i]
		m.Any = append(m.Any, c.matcher(&a.Parts, &a.Keys, fmt.Sprintf("branch %d of `any` in %s", i+1, name)))
	}
	if keys.Has("any") && !keys.Broken("any") && len(p.Any) == 0 {
		c.errorAt(keys.Key("any"), "empty-matcher", name+" has an empty `any`, which no line satisfies", "list the matchers")
	}
	if p.Not != nil {
		not := c.matcher(&p.Not.Parts, &p.Not.Keys, "`not` in "+name)
		m.Not = &not
	}
	c.checkParts(p, keys, name)
	return m
}

// checkParts reports matchers that nearly every line satisfies.
func (c *compiler) checkParts(p *Parts, keys *strictyaml.Keys, name string) {
	parts := keys.Has("contains") || keys.Has("regex") || keys.Has("field") || keys.Has("any")
	switch {
	case keys.Damaged() || len(p.Contains) > 0 || parts || keys.At.IsZero():
	case p.Not != nil:
		c.errorAt(keys.Key("not"), "not-alone", name+" has only `not`, which nearly every line satisfies", "add contains, regex, field or any beside it")
	default:
		c.errorAt(keys.At, "empty-matcher", name+" is empty: every line satisfies it", "add contains, regex, field or any")
	}
}

func (c *compiler) checkText(text string, at strictyaml.Pos, name string) {
	switch {
	case text == "":
		c.errorAt(at, "empty-matcher", name+" looks for an empty text, which every line contains", "write the text that the line contains")
	case hasBreak(text):
		c.warnAt(at, "line-break", name+" looks for a text with a line break, which log lines rarely contain", "write the text on one line, in quotes")
	}
}

// regex compiles an expression that may match anywhere in a line.
func (c *compiler) regex(pattern string, at strictyaml.Pos, name string) *regexp.Regexp {
	re, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		c.errorAt(at, "regex", fmt.Sprintf("the regex of %s is invalid: %s", name, expr.Reason(err)), expr.Fix(pattern))
		return nil
	case re.MatchString(""):
		c.errorAt(at, "empty-regex", fmt.Sprintf("the regex of %s matches the empty text, so every line satisfies it", name), "make it require at least one character")
	case hasBreak(pattern):
		c.warnAt(at, "line-break", fmt.Sprintf("the regex of %s has a line break, which log lines rarely contain", name), "write it on one line, in single quotes")
	}
	c.checkGroups(pattern, at, name)
	return re
}

// checkGroups reports a group name that an expression has twice.
func (c *compiler) checkGroups(pattern string, at strictyaml.Pos, name string) {
	group, exclusive := expr.DuplicateGroup(pattern)
	switch {
	case group == "":
	case exclusive:
		c.warnAt(at, "duplicate-name", fmt.Sprintf("the regex of %s has two groups named `%s`, which other RE2 engines refuse", name, group), "use `any` with two expressions")
	default:
		c.errorAt(at, "duplicate-name", fmt.Sprintf("the regex of %s has two groups named `%s`", name, group), "rename one of them")
	}
}

// fields compiles the conditions on fields, sorted by name.
func (c *compiler) fields(p *Parts, keys *strictyaml.Keys, name string) []Field {
	if keys.Has("field") && !keys.Broken("field") && len(p.Field) == 0 {
		c.errorAt(keys.Key("field"), "empty-matcher", name+" has an empty `field`", "write {name: value}")
	}
	var out []Field
	for field, value := range p.Field {
		at := keys.EntryValue("field", field)
		f := Field{Name: field, Value: value}
		if field == "" {
			c.errorAt(keys.EntryKey("field", field), "empty-value", name+" has a field without a name", "write the name of the field")
		}
		if len(value) > 0 && value[0] == '~' {
			re, err := expr.Anchored(value[1:])
			switch {
			case err != nil:
				c.errorAt(at, "regex", fmt.Sprintf("the regex of field `%s` in %s is invalid: %s", field, name, expr.Reason(err)), expr.Fix(value[1:]))
			case value == "~":
				c.errorAt(at, "empty-regex", fmt.Sprintf("the regex of field `%s` in %s is empty", field, name), "write the expression after the ~")
			}
			c.checkGroups(value[1:], at, name)
			f.Value, f.Regex = "", re
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return out
}
