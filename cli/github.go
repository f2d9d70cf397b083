package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/strictyaml"
)

// Names of the checks that do not concern the content of a file.
const (
	testFailed  = "test-failed"
	unprotected = "unprotected"
)

// testProblems returns a problem for each failed test, and for each part of a rule that no test
// protects.
func testProblems(report replay.TestReport) (out strictyaml.Problems) {
	for _, t := range report.Results {
		if len(t.Failures) > 0 {
			out = append(out, strictyaml.Problem{
				File: t.File, Line: t.Line, Check: testFailed, Rule: t.Rule,
				Message: fmt.Sprintf("test %q of rule %s failed\n%s", t.Test, t.Rule, strings.Join(t.Failures, "\n")),
			})
		}
	}
	for _, s := range report.Survivors {
		out = append(out, strictyaml.Problem{
			File: s.File, Line: s.Line, Check: unprotected, Rule: s.Rule,
			Message: fmt.Sprintf("rule %s: without %s all of its tests still pass", s.Rule, s.Part), Fix: "add a test that fails without it",
		})
	}
	return out
}

// writeGitHub writes problems as workflow commands, which GitHub shows as annotations of lines
// (at most ten of each level per step). Paths are relative to the working directory, which is
// assumed to be the root of the repository.
func writeGitHub(w io.Writer, problems strictyaml.Problems) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := func(s string) string {
		return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data.Replace(s))
	}
	dir, _ := os.Getwd() // if this fails, paths stay absolute
	for _, p := range problems {
		if rel, err := filepath.Rel(dir, p.File); filepath.IsAbs(p.File) && err == nil && filepath.IsLocal(rel) {
			p.File = rel
		}
		place := ""
		if p.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,col=%d,", property(p.File), max(p.Line, 1), max(p.Column, 1))
		}
		if p.Fix != "" {
			p.Message += "\nfix: " + p.Fix
		}
		lines := strings.Split(p.Message, "\n")
		for i, l := range lines {
			lines[i] = redact.Sanitise(l)
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", p.Level, place, property(cmp.Or(p.Check, "crowsnest")), data.Replace(strings.Join(lines, "\n"))); err != nil {
			return err
		}
	}
	return nil
}
