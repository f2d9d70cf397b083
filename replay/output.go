package replay

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the results as text. These are the failures with the difference between expected and actual alerts,
// the parts of rules that no test protects, and a last line with counts.
func (r TestReport) WriteText(w io.Writer, verbose bool) error {
	var b strings.Builder
	for _, t := range r.Results {
		switch {
		case len(t.Failures) > 0:
			fmt.Fprintf(&b, "FAIL %s:%d: %s / %s\n", t.File, t.Line, t.Rule, t.Test)
			for _, f := range t.Failures {
				fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(f, "\n", "\n  "))
			}
		case verbose:
			fmt.Fprintf(&b, "ok   %s:%d: %s / %s\n", t.File, t.Line, t.Rule, t.Test)
		}
	}
	for _, s := range r.Survivors {
		fmt.Fprintf(&b, "UNPROTECTED %s:%d: %s: without %s all tests still pass; add a test that fails without it\n", s.File, s.Line, s.Rule, s.Part)
	}
	fmt.Fprintf(&b, "%d tests, %d failed", len(r.Results), r.Failed())
	if r.Mutants > 0 {
		fmt.Fprintf(&b, "; %d mutants, %d survived", r.Mutants, len(r.Survivors))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the results as JUnit XML. There is a suite for each file, and a case for each test and for each
// part of a rule that no test protects.
func (r TestReport) WriteJUnit(w io.Writer) error {
	var all junitSuites
	index := map[string]int{}
	add := func(file string, c junitCase) {
		i, ok := index[file]
		if !ok {
			i = len(all.Suites)
			index[file] = i
			all.Suites = append(all.Suites, junitSuite{Name: file})
		}
		s := &all.Suites[i]
		s.Tests++
		all.Tests++
		if c.Failure != nil {
			s.Failures++
			all.Failures++
		}
		s.Cases = append(s.Cases, c)
	}
	for _, t := range r.Results {
		c := junitCase{Class: t.Rule, Name: t.Test, File: t.File, Line: t.Line, Seconds: fmt.Sprintf("%.6f", t.Duration.Seconds())}
		if len(t.Failures) > 0 {
			c.Failure = &junitFailure{Message: fmt.Sprintf("%d differences", len(t.Failures)), Text: strings.Join(t.Failures, "\n")}
		}
		add(t.File, c)
	}
	for _, s := range r.Survivors {
		add(s.File, junitCase{
			Class: s.Rule, Name: "mutant: " + s.Part, File: s.File, Line: s.Line, Seconds: "0",
			Failure: &junitFailure{Message: "no test protects " + s.Part},
		})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
