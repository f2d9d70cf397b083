package rules

import (
	"fmt"
	"slices"
	"time"

	"crowsnest/internal/strictyaml"
)

// compiler compiles the form of a rule to a Rule.
type compiler struct {
	form
	matcherCompiler
	rule    *Rule
	written []written
}

// written is a matcher as written in the pack or in an override, with its compiled form. The compiled rule holds only
// the merged matchers.
type written struct {
	parts    *Parts
	keys     *strictyaml.Keys
	name     string // name of the matcher for people
	compiled Matcher
	sound    bool // whether the compiled form has no errors
}

const (
	nameUnless    = "`unless`"
	nameAddUnless = "`add_unless`"
	fixWithin     = "add how long before the trigger a muting line still mutes: within: 10m"
)

// compileSafely calls compile and turns a panic into a problem of the rule.
func compileSafely(f form) (r *Rule, problems Problems) {
	defer func() {
		if p := recover(); p != nil {
			r, problems = nil, Problems{f.newProblem(f.at, strictyaml.Error, "internal", fmt.Sprintf("the rule cannot be compiled because of a bug in crowsnest: %v", p),
				"remove the rule, and report the bug")}
		}
	}()
	return compileRule(f)
}

// compileRule compiles a rule. The rule is usable if the problems contain no error.
func compileRule(f form) (*Rule, Problems) {
	c := &compiler{form: f, matcherCompiler: matcherCompiler{report{alert: f.Alert}, f.namespace, f.cluster}, rule: &Rule{
		Alert: f.Alert, Pack: f.pack, File: f.file, Line: f.at.Line, Namespace: f.namespace,
		Sequence: f.Keys.Has("sequence"), Count: f.Count, Within: f.Within, Distinct: f.Distinct, By: f.By,
		For: f.For, Silent: f.Silent, KeepFiringFor: f.KeepFiringFor, Expire: f.Expire, Limit: f.Limit,
		Mode: f.Enabled, Severity: f.Severity, Places: PlacesOf(f.origin), Disabled: f.disabled,
		Infrastructure: f.RuleSyntax.Origin == OriginInfrastructure, maxLine: &lineBound{},
	}}
	c.setDefaults()
	c.compileHead()
	c.compileTrigger()
	c.rule.Clear = c.compileClear()
	c.rule.Unless = c.compileUnless()
	c.rule.Scope = computeScope(c.rule)
	c.compileTexts()
	c.checkOwner()
	c.compileCauses()
	c.rule.Tests = (&testCompiler{&c.report, c.causeNames(), c.form.namespace}).compileTests(f.Tests)
	if !f.released {
		(&linter{c}).lint()
	}
	c.rule.CapturedNames = capturedNames(c.rule)
	c.rule.Source = f.ruleText()
	c.rule.Hash = semanticHash(c.rule)
	c.addNamespace(c.rule.Clear)
	c.addNamespace(c.rule.Unless)
	return c.rule, tidyProblems(c.problems)
}

func (c *compiler) setDefaults() {
	r := c.rule
	setDefault(&r.Count, 1, c.Keys.Has("count"))
	setDefault(&r.Limit, defaultLimit, c.Keys.Has("limit"))
	switch {
	case c.Keys.Has("silent"):
		setDefault(&r.Expire, DefaultSilentExpire, c.Keys.Has("expire"))
		r.KeepFiringFor = 0
	case c.Keys.Has("clear"):
		setDefault(&r.Expire, DefaultExpire, c.Keys.Has("expire"))
		r.KeepFiringFor = 0
	default:
		setDefault(&r.KeepFiringFor, DefaultKeepFiringFor, c.Keys.Has("keep_firing_for"))
		r.Expire = 0
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

// reportMissing reports that a key or label is absent. The problem has the position of the rule, or of the key
// becauseOf if an override set that key.
func (c *compiler) reportMissing(becauseOf, check, message, fix string) {
	at := c.at
	if becauseOf != "" {
		if p := c.Keys.Key(becauseOf); p.File() != c.file {
			at = p
		} else {
			message += fmt.Sprintf(" (`%s` is at %s)", becauseOf, p)
		}
	}
	c.addError(at, check, message, fix)
}

func (c *compiler) compileHead() {
	switch {
	case c.Keys.Lacks("alert"):
		c.reportMissing("", "missing-key", "the rule lacks `alert`", "name the alert in CamelCase with its component first")
	case c.Keys.IsDecoded("alert") && c.Alert == "":
		c.addError(c.Keys.Value("alert"), "empty-value", "`alert` is empty", "name the alert")
	case len(c.Alert) > maxLabelValue:
		c.addError(c.Keys.Value("alert"), "too-long", fmt.Sprintf("`alert` is longer than %d bytes", maxLabelValue), "use a shorter name")
	}
	if c.Keys.Lacks("from") {
		c.reportMissing("", "missing-key", "the rule lacks `from`", "add the streams that it reads: from: '{container=\"manager\"}'")
	} else {
		c.rule.From, _ = c.compileSelector(c.From, &c.Keys, "`from`")
		c.rule.FromAt = c.Keys.Value("from")
	}
	if c.Keys.Lacks("severity") {
		c.reportMissing("", "missing-key", "the rule lacks `severity`", "add severity: critical (page), warning (ticket) or info, here or in `defaults`")
	} else if c.Severity == SeverityNone && c.Keys.Key("severity").File() == c.file {
		c.addWarning(c.Keys.Value("severity"), "severity-none", "severity none sends the alert to nobody", "use enabled: silent to try out a rule; none is meant for overrides")
	}
}

func (c *compiler) compileTrigger() {
	both := c.Keys.Has("match") && c.Keys.Has("sequence")
	switch {
	case both:
		later := c.Keys.Key("sequence")
		if m := c.Keys.Key("match"); m.Line > later.Line {
			later = m
		}
		c.addError(later, "match-or-sequence", "the rule has both `match` and `sequence`", "keep one of them")
	case c.Keys.Lacks("match") && c.Keys.Lacks("sequence"):
		c.reportMissing("", "missing-key", "the rule lacks `match` or `sequence`", "add the text of the lines that trigger it: match: \"text of the line\"")
	}
	if c.Match != nil {
		c.rule.Steps = append(c.rule.Steps, Step{From: c.rule.From, Matcher: c.compilePart(&c.Match.Parts, &c.Match.Keys, "`match`", InSpoken)})
	}
	if c.Keys.IsDecoded("sequence") && len(c.Sequence) == 0 {
		c.addError(c.Keys.Key("sequence"), "empty-matcher", "the sequence has no steps", "list the matchers of its lines, in order")
	} else if c.Keys.IsDecoded("sequence") && len(c.Sequence) == 1 {
		c.addWarning(c.Keys.Key("sequence"), "short-sequence", "the sequence has one step", "use `match` for a single line")
	}
	for i := range c.Sequence {
		s := &c.Sequence[i]
		m := c.compilePart(&s.Parts, &s.Keys, fmt.Sprintf("step %d of `sequence`", i+1), InSpoken)
		if !both {
			c.rule.Steps = append(c.rule.Steps, Step{From: c.compileFrom(s.From, &s.Keys, fmt.Sprintf("step %d", i+1)), Matcher: m, Differs: s.Differs})
		}
	}
}

func (c *compiler) compilePart(p *Parts, keys *strictyaml.Keys, name string, in In) Matcher {
	before := len(c.problems.Errors())
	m := c.compileMatcher(p, keys, name, in)
	c.written = append(c.written, written{p, keys, name, m, len(c.problems.Errors()) == before})
	return m
}

// compileFrom compiles the selector of a part. The default is the selector of the rule.
func (c *compiler) compileFrom(text string, keys *strictyaml.Keys, name string) Selector {
	if s, ok := c.compileSelector(text, keys, "`from` of "+name); ok {
		return s
	}
	return c.rule.From
}

func (c *compiler) compileClear() *ClearOrUnless {
	if c.Clear == nil {
		return nil
	}
	return &ClearOrUnless{
		From:    c.compileFrom(c.Clear.From, &c.Clear.Keys, "`clear`"),
		Matcher: c.compilePart(&c.Clear.Parts, &c.Clear.Keys, "`clear`", InMessage),
		Same:    c.sharedNames(c.Clear.Same, &c.Clear.Keys),
		Pos:     c.Keys.Key("clear"),
	}
}

// compileUnless compiles `unless` and merges the `add_unless` of overrides.
func (c *compiler) compileUnless() *ClearOrUnless {
	var out *ClearOrUnless
	all := c.addedUnless
	if c.Unless != nil {
		all = append([]*UnlessSyntax{c.Unless}, all...)
	}
	for i, u := range all {
		name := nameUnless
		if i > 0 || c.Unless == nil {
			name = nameAddUnless
		}
		a := &ClearOrUnless{
			From:    c.compileFrom(u.From, &u.Keys, name),
			Matcher: c.compilePart(&u.Parts, &u.Keys, name, InMessage),
			Same:    c.sharedNames(u.Same, &u.Keys),
			Within:  u.Within,
		}
		if u == c.Unless {
			a.Pos = c.Keys.Key("unless")
		}
		c.checkUnlessWithin(u, name)
		out = c.mergeConditions(out, a, u)
	}
	return out
}

// mergeConditions merges the `unless` of a rule and an `add_unless`. A line that satisfies one of the two conditions
// mutes.
func (c *compiler) mergeConditions(a, b *ClearOrUnless, u *UnlessSyntax) *ClearOrUnless {
	if a == nil {
		return b
	}
	if !a.From.Equal(b.From) {
		c.addError(u.Keys.Pos, "add-unless", fmt.Sprintf("`from` differs from the `from` in the `unless` that rule %s already has: %s", c.Alert, a.From),
			"use the same `from`, or copy the rule")
		return a
	}
	if !equalSets(a.Same, b.Same) {
		c.addError(u.Keys.Pos, "add-unless", fmt.Sprintf("`same` differs from the `same` in the `unless` that rule %s already has", c.Alert),
			fmt.Sprintf("use same: %s, or copy the rule", flowList(a.Same)))
		return a
	}
	if a.Within != b.Within && b.Within > 0 {
		c.addWarning(u.Keys.Pos, "add-unless", fmt.Sprintf("rule %s already has an `unless` with within: %s; both now mute for %s",
			c.Alert, duration(a.Within), duration(max(a.Within, b.Within))), "use within: "+duration(a.Within))
	}
	return &ClearOrUnless{From: a.From, Matcher: Matcher{Any: []Matcher{a.Matcher, b.Matcher}}, Same: a.Same, Within: max(a.Within, b.Within), Pos: a.Pos}
}

func (c *compiler) checkUnlessWithin(u *UnlessSyntax, name string) {
	switch {
	case u.Keys.Lacks("within") && !u.Keys.HasAnyError():
		if u.Keys.Pos.File() != c.file {
			c.addError(u.Keys.Pos, "needs-within", name+" lacks `within`", fixWithin)
			return
		}
		c.reportMissing("unless", "needs-within", name+" lacks `within`", fixWithin)
	case u.Keys.IsDecoded("within"):
		c.checkLateness(u.Within, u.Keys.Value("within"), name+".within")
	}
}

// sharedNames returns the names in `same`, or all names in `by` if the key is missing. The values of these names must
// be equal in the clear or unless line and in the alert's key.
func (c *compiler) sharedNames(names []string, keys *strictyaml.Keys) []string {
	if !keys.Has("same") {
		return c.By
	}
	c.checkNames(names, keys, "same")
	for i, name := range names {
		if name != "" && !slices.Contains(c.By, name) && !c.Keys.HasError("by") {
			c.addError(keys.Item("same", i), "same", fmt.Sprintf("`same` has `%s`, which is not in `by`", name), c.sameFix())
		}
	}
	if len(names) == 0 && len(c.By) == 0 && !keys.HasError("same") && !c.Keys.HasError("by") {
		c.addError(keys.Key("same"), "no-effect", "`same` has no effect: the rule has no `by`", "remove it")
	}
	return names
}

func (c *compiler) sameFix() string {
	if len(c.By) == 0 {
		return "remove it: the rule has no `by`, so all lines have one key"
	}
	return "list only names of by: " + flowList(c.By)
}

func (c *compiler) checkNames(names []string, keys *strictyaml.Keys, key string) {
	if keys.HasError(key) {
		return
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "":
			c.addError(keys.Item(key, i), "empty-value", fmt.Sprintf("`%s` has an empty name", key), "remove it")
		case seen[name]:
			c.addError(keys.Item(key, i), "duplicate-name", fmt.Sprintf("`%s` has `%s` twice", key, name), "remove one")
		}
		seen[name] = true
	}
}
