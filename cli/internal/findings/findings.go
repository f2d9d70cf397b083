// Package findings writes problems of rules as workflow commands of GitHub.
package findings

import (
	"cmp"
	_ "embed" // checks.md
	"fmt"
	"io"
	"strings"

	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/strictyaml"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Notice  Level = "notice" // nothing is wrong
)

// The checks that are not about the content of a file.
const (
	testFailed   = "test-failed"
	unprotected  = "unprotected"
	AlertsDiffer = "alerts-differ"
	NoLine       = "no-line"
	Verdict      = "verdict"
)

// checks describes every check, in tables.
//
//go:embed checks.md
var checks string

// Checks returns the section on all checks of the reference of the rule language, in
// Markdown.
func Checks() string { return checks }

// Finding is a remark about a place in a file.
type Finding struct {
	File    string
	Line    int // number of the line, from 1; 0 means the whole file
	Column  int // number of the column, from 1; 0 means the whole line
	Level   Level
	Check   string // stable identifier, a row of checks.md
	Rule    string
	Message string
	Fix     string
}

// text returns the message with the fix, without control characters. It may have
// several lines.
func (f Finding) text() string {
	message := f.Message
	if f.Fix != "" {
		message += "\nfix: " + f.Fix
	}
	lines := strings.Split(message, "\n")
	for i, l := range lines {
		lines[i] = redact.Sanitise(l)
	}
	return strings.Join(lines, "\n")
}

// OfProblems turns problems of files into findings.
func OfProblems(problems strictyaml.Problems) []Finding {
	out := make([]Finding, len(problems))
	for i, p := range problems {
		out[i] = Finding{File: p.File, Line: p.Line, Column: p.Column, Level: Error, Check: p.Check, Rule: p.Rule, Message: p.Message, Fix: p.Fix}
		if p.Level == strictyaml.Warning {
			out[i].Level = Warning
		}
	}
	return out
}

// OfTests turns failed tests, and parts of rules that no test protects, into
// findings.
func OfTests(report replay.TestReport) []Finding {
	var out []Finding
	for _, t := range report.Results {
		if len(t.Failures) > 0 {
			out = append(out, Finding{
				File: t.File, Line: t.Line, Level: Error, Check: testFailed, Rule: t.Rule,
				Message: fmt.Sprintf("test %q of rule %s failed\n%s", t.Test, t.Rule, strings.Join(t.Failures, "\n")),
			})
		}
	}
	for _, s := range report.Survivors {
		out = append(out, Finding{
			File: s.File, Line: s.Line, Level: Error, Check: unprotected, Rule: s.Rule,
			Message: fmt.Sprintf("rule %s: without %s all of its tests still pass", s.Rule, s.Part), Fix: "add a test that fails without it",
		})
	}
	return out
}

// GitHub writes workflow commands, which GitHub shows as annotations of the lines,
// ten of each level per step.
func GitHub(w io.Writer, all []Finding) error {
	for _, f := range all {
		var place string
		if f.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,col=%d,", property(f.File), max(f.Line, 1), max(f.Column, 1))
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", f.Level, place, property(title(f)), data(f.text())); err != nil {
			return err
		}
	}
	return nil
}

func title(f Finding) string { return cmp.Or(f.Check, "crowsnest") }

// data escapes the text of a workflow command.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// property escapes a property of a workflow command.
func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
