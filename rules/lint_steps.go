package rules

import (
	"fmt"
	"slices"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
	"crowsnest/rules/internal/shell"
)

// lintSteps checks remediation steps that contain values from log lines, because people paste steps into a shell.
func (l *linter) lintSteps() {
	steps := l.rule.Remediation.Steps
	if len(steps) != len(l.RuleSyntax.Remediation.Steps) {
		return // one of the templates has an error
	}
	for i, s := range steps {
		at := l.RuleSyntax.Remediation.Keys.Item("steps", i)
		name := fmt.Sprintf("step %d of `remediation`", i+1)
		if free := l.freeText(s); free != "" {
			l.addError(at, "step-free-text", fmt.Sprintf("%s shows %s, which is free text of a log line and cannot be part of a command", name, free), "show it in an annotation, or capture a name, such as \\S+")
			continue
		}
		l.lintStep(s, at, name)
	}
}

func (l *linter) lintStep(s *Template, pos strictyaml.Pos, name string) {
	defer s.Release() // frees the compiled form, because few rules ever fire
	before := ""
	for i, value := range []string{"x", ""} { // the two values select different branches of `if`
		text, hosts := s.WithMarks(value)
		if hosts {
			l.addError(pos, "step-link", name+" has a value as the host of a URL: a log line would choose where the link leads", "write the value without https://, such as curl --proto-default https VALUE/readyz")
			return
		}
		if i > 0 && text == before {
			return // the step has no `if`, or both branches are equal
		}
		before = text
		w := shell.Parse(text)
		if w.Problem != "" {
			report := l.addWarning
			if len(w.Places) > 0 {
				report = l.addError
			}
			report(pos, "step-shell", name+" is not a complete command: "+w.Problem, "close it; write prose into `summary`")
			return
		}
		for _, p := range w.Places {
			if message, fix := p.Danger(); message != "" {
				l.addError(pos, "step-value", name+" "+message, fix)
				return
			}
		}
	}
}

// freeText returns the first name in a remediation step whose value can be any text, or "" if there is none.
func (l *linter) freeText(s *Template) string {
	switch {
	case s.UsesLine():
		return "$line"
	case s.UsesError():
		return "$error"
	}
	for _, kind := range []struct {
		prefix string
		names  []string
	}{{"$labels.", s.Labels()}, {"$vars.", s.Vars()}} {
		for _, name := range kind.names {
			base := name
			if l.rule.Sequence && withoutStep(name) != "" {
				base = withoutStep(name)
			}
			if l.isFreeText(base) {
				return kind.prefix + name
			}
		}
	}
	return ""
}

// isFreeText reports whether a group that matches any text captures the name, or the name is the name of a field with
// prose.
func (l *linter) isFreeText(name string) bool {
	captured := false
	for _, p := range ruleParts(l.rule) {
		if captureWidth(*p.matcher, name) == expr.Unlimited {
			return true
		}
		captured = captured || slices.Contains(possibleCaptures(*p.matcher), name)
	}
	return !captured && slices.Contains([]string{"err", "error", "msg", "message", "reason", "cause", "stacktrace", "stack", "warning", "output", "body"}, name)
}
