package rules

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
	"crowsnest/rules/selector"
)

// matcherCompiler compiles selectors and matchers. It does not need the rest of the rule.
type matcherCompiler struct {
	report
	namespace string // only namespace whose streams a selector may select; empty means all
	cluster   string // cluster of namespace; empty means that it is not known
}

// compileSelector compiles the selector of a `from`. name is the name of the selector in messages. ok is false if the
// selector is absent or has an error.
func (c *matcherCompiler) compileSelector(text string, keys *strictyaml.Keys, name string) (s Selector, ok bool) {
	if !keys.IsDecoded("from") {
		return s, false
	}
	at := keys.Value("from")
	s, err := selector.Parse(text)
	if err != nil {
		c.addInvalid(at, text, "selector", name, err)
		return s, false
	}
	ms := s.Matchers()
	for _, m := range ms {
		if m.Op != selector.Equal {
			continue
		}
		if i := slices.IndexFunc(ms, func(o selector.Matcher) bool { return o.Name == m.Name && !o.Matches(m.Value) }); i >= 0 {
			c.addError(at, "never", fmt.Sprintf("no stream satisfies both %s and %s", m, ms[i]), "remove one of them")
			return s, false
		}
	}
	if c.namespace != "" {
		return c.bindSelector(s, at, name)
	}
	return s, true
}

// compileMatcher compiles the conditions of a matcher. If a condition has errors, the other conditions are still
// compiled, but the matcher is not checked as a whole. in is the default of `in`.
func (c *matcherCompiler) compileMatcher(p *Parts, keys *strictyaml.Keys, name string, in In) Matcher {
	m := Matcher{}
	if in != p.In {
		m.In = p.In
	}
	in = p.In.Within(in)
	for i, text := range p.Contains {
		if !keys.HasError("contains") {
			c.checkText(text, keys.Item("contains", i), name)
		}
		m.Contains = append(m.Contains, text)
	}
	if keys.IsDecoded("contains") && len(p.Contains) == 0 {
		c.addError(keys.Key("contains"), "empty-matcher", name+" has an empty `contains`, which every line satisfies", "write the text that the line contains")
	}
	if keys.IsDecoded("regex") {
		m.Regex = c.compileRegex(p.Regex, keys.Value("regex"), name)
	}
	m.Fields = c.compileFields(p, keys, name)
	for i := range p.Any {
		a := &p.Any[i]
		m.Any = append(m.Any, c.compileMatcher(&a.Parts, &a.Keys, fmt.Sprintf("branch %d of `any` in %s", i+1, name), in))
	}
	if keys.IsDecoded("any") && len(p.Any) == 0 {
		c.addError(keys.Key("any"), "empty-matcher", name+" has an empty `any`, which no line satisfies", "list the matchers")
	}
	if p.Not != nil {
		not := c.compileMatcher(&p.Not.Parts, &p.Not.Keys, "`not` in "+name, InAnywhere)
		m.Not = &not
	}
	c.checkParts(p, keys, name)
	return m
}

// checkParts reports a matcher that nearly every line satisfies.
func (c *matcherCompiler) checkParts(p *Parts, keys *strictyaml.Keys, name string) {
	parts := keys.Has("contains") || keys.Has("regex") || keys.Has("field") || keys.Has("any")
	switch {
	case keys.HasAnyError() || len(p.Contains) > 0 || parts || keys.Pos.IsZero():
	case p.Not != nil:
		c.addError(keys.Key("not"), "not-alone", name+" has only `not`, which nearly every line satisfies", "add contains, regex, field or any beside it")
	default:
		c.addError(keys.Pos, "empty-matcher", name+" is empty: every line satisfies it", "add contains, regex, field or any")
	}
}

func (c *matcherCompiler) checkText(text string, pos strictyaml.Pos, name string) {
	switch {
	case text == "":
		c.addError(pos, "empty-matcher", name+" looks for an empty text, which every line contains", "write the text that the line contains")
	case hasBreak(text):
		c.addWarning(pos, "line-break", name+" looks for a text with a line break, which log lines rarely contain", "write the text on one line, in quotes")
	default:
		c.checkPasted(text, pos, name)
		c.checkSyntax(text, pos, name)
	}
}

func (c *matcherCompiler) compileRegex(pattern string, pos strictyaml.Pos, name string) *literals.Expression {
	re, err := literals.NewExpression(pattern)
	switch {
	case err != nil:
		c.addError(pos.Within(pattern, expr.FaultAt(pattern, err)), "regex", fmt.Sprintf("the regex of %s is invalid: %s", name, expr.Reason(err)), expr.SuggestFix(pattern))
		return nil
	case re.MatchesEmpty():
		c.addError(pos, "empty-regex", fmt.Sprintf("the regex of %s matches the empty text, so every line satisfies it", name), "make it require at least one character")
	case hasBreak(pattern):
		c.addWarning(pos, "line-break", fmt.Sprintf("the regex of %s has a line break, which log lines rarely contain", name), "write it on one line, in single quotes")
	}
	c.checkPasted(pattern, pos, "the regex of "+name)
	c.checkDialect(pattern, pos, name)
	c.checkGroups(re, pattern, pos, name)
	return re
}

// checkGroups reports a group name that occurs twice in an expression. re may be nil.
func (c *matcherCompiler) checkGroups(re *literals.Expression, pattern string, pos strictyaml.Pos, name string) {
	if names := expr.Groups(re); len(sortedUnique(names)) == len(names) {
		return
	}
	group, exclusive := expr.DuplicateGroup(pattern)
	switch {
	case group == "":
	case exclusive:
		c.addWarning(pos, "duplicate-name", fmt.Sprintf("the regex of %s has two groups named `%s`, which other RE2 engines refuse", name, group), "use `any` with two expressions")
	default:
		c.addError(pos, "duplicate-name", fmt.Sprintf("the regex of %s has two groups named `%s`", name, group), "rename one of them")
	}
}

func (c *matcherCompiler) compileFields(p *Parts, keys *strictyaml.Keys, name string) []Field {
	if keys.IsDecoded("field") && len(p.Field) == 0 {
		c.addError(keys.Key("field"), "empty-matcher", name+" has an empty `field`", "write {name: value}")
	}
	var out []Field
	for field, value := range p.Field {
		at := keys.EntryValue("field", field)
		f := Field{Name: field, Value: value}
		if field == "" {
			c.addError(keys.EntryKey("field", field), "empty-value", name+" has a field without a name", "write the name of the field")
		}
		if len(value) > 0 && value[0] == '~' {
			re, err := expr.ParseAnchored(value[1:])
			switch {
			case err != nil:
				c.addError(at.Within(value, 1+expr.FaultAt(value[1:], err)), "regex", fmt.Sprintf("the regex of field `%s` in %s is invalid: %s", field, name, expr.Reason(err)), expr.SuggestFix(value[1:]))
			case value == "~":
				c.addError(at, "empty-regex", fmt.Sprintf("the regex of field `%s` in %s is empty", field, name), "write the expression after the ~")
			}
			c.checkGroups(re, value[1:], at, name)
			c.checkDialect(value[1:], at, fmt.Sprintf("field `%s` in %s", field, name))
			f.Value, f.Regex = "", re
		} else if exprSign.MatchString(value) {
			c.addWarning(at, "other-syntax", fmt.Sprintf("field `%s` in %s is compared with this text literally, but the text looks like a regular expression", field, name), "write "+strictyaml.Quote("~"+value))
		}
		c.checkPasted(value, at, fmt.Sprintf("field `%s` in %s", field, name))
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return out
}
