package rules

import (
	"fmt"
	"slices"

	"crowsnest/strictyaml"
)

// lintSteps checks where the steps of a remediation show values of log lines:
// people paste steps into a shell.
func (c *compiler) lintSteps() {
	steps := c.rule.Remediation.Steps
	if len(steps) != len(c.RuleSyntax.Remediation.Steps) {
		return // one of them cannot be read
	}
	for i, s := range steps {
		at := c.RuleSyntax.Remediation.Keys.Item("steps", i)
		name := fmt.Sprintf("step %d of `remediation`", i+1)
		if free := c.freeText(s); free != "" {
			c.errorAt(at, "step-free-text", fmt.Sprintf("%s shows %s, which is free text of a log line: no command can be made of it", name, free), "show it in an annotation, or capture a name, such as \\S+")
			continue
		}
		c.lintStep(s, at, name)
	}
}

func (c *compiler) lintStep(s *Template, at strictyaml.Pos, name string) {
	for _, value := range []string{"x", ""} { // for both sides of a condition
		text, hosts := s.withMarks(value)
		if hosts {
			c.errorAt(at, "step-link", name+" has a value as the host of a URL: a log line would choose where the link leads", "write the value without https://, such as curl --proto-default https VALUE/readyz")
			return
		}
		w := parseShell(text)
		if w.problem != "" {
			report := c.warnAt
			if len(w.places) > 0 {
				report = c.errorAt
			}
			report(at, "step-shell", name+" is no whole command: "+w.problem, "close it; write prose into `summary`")
			return
		}
		for _, p := range w.places {
			if message, fix := p.danger(); message != "" {
				c.errorAt(at, "step-value", name+" "+message, fix)
				return
			}
		}
	}
}

// danger says why a value must not stand at this place, or "".
func (p shellPlace) danger() (message, fix string) {
	switch {
	case p.command:
		return "starts a command with a value of a log line, which would choose the program", "name the program in the step"
	case p.code:
		return "has a value in a text that a shell or an interpreter reads as a program", "pass the value as an argument of its own"
	case p.redirect:
		return "reads or writes a file that a value of a log line names", "name the file in the step"
	case p.glob:
		return "has a value in a word with an unquoted *, ? or [", "write the word in single quotes"
	}
	return "", ""
}

// freeText returns the first name in a step that can hold any text, "" if none.
func (c *compiler) freeText(s *Template) string {
	if s.UsesLine() {
		return "$line"
	}
	for _, kind := range []struct {
		prefix string
		names  []string
	}{{"$labels.", s.labels}, {"$vars.", s.vars}} {
		for _, name := range kind.names {
			base := name
			if c.rule.Sequence && withoutStep(name) != "" {
				base = withoutStep(name)
			}
			if c.isFreeText(base) {
				return kind.prefix + name
			}
		}
	}
	return ""
}

// isFreeText reports whether a group takes in any text, or whether the name is
// that of a field for text.
func (c *compiler) isFreeText(name string) bool {
	captured := false
	for _, m := range matchersOf(c.rule) {
		if captureWidth(m, name) == unlimited {
			return true
		}
		captured = captured || contains(possibleCaptures(m), name)
	}
	return !captured && slices.Contains([]string{"err", "error", "msg", "message", "reason", "cause", "stacktrace", "stack", "warning", "output", "body"}, name)
}
