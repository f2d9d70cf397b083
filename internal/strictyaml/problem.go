package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Level states whether a problem prevents loading.
type Level int

// The levels of problems.
const (
	Error Level = iota
	Warning
)

// String returns "error" or "warning".
func (l Level) String() string {
	if l == Warning {
		return "warning"
	}
	return "error"
}

// Problem is a problem of a file, with its position and the fix.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // line number, counted from 1; zero if the problem concerns the whole file
	Column  int    `json:"column"` // number of the byte in the line, counted from 1
	Level   Level  `json:"-"`
	Check   string `json:"check"` // stable ID of the kind of problem, such as "unknown-key"
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Snippet string `json:"snippet,omitempty"` // line of the file with the problem
}

// String returns the problem with its snippet and a caret, without a final newline.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, max(p.Column, 1))
	}
	fmt.Fprintf(&b, ": %s: %s [%s]", p.Level, p.Message, p.Check)
	if p.Snippet != "" {
		fmt.Fprintf(&b, "\n  %s\n  %s^", p.Snippet, indentLike(p.Snippet, p.Column-1))
	}
	if p.Fix != "" {
		fmt.Fprintf(&b, "\n  fix: %s", p.Fix)
	}
	return b.String()
}

// indentLike returns white space as wide as the first n bytes of s, for the position of a caret. Tabs are kept.
func indentLike(s string, n int) string {
	var b strings.Builder
	for i, r := range s {
		if i >= n {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// Problems are the problems that were found while loading files, ordered by file, line and column. They count as an
// error if one of them has the level Error.
type Problems []Problem

// Error returns the texts of all problems, separated by newlines.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the problems of level Error.
func (ps Problems) Errors() Problems { return ps.ofLevel(Error) }

// Warnings returns the problems of level Warning.
func (ps Problems) Warnings() Problems { return ps.ofLevel(Warning) }

func (ps Problems) ofLevel(l Level) Problems {
	var out Problems
	for _, p := range ps {
		if p.Level == l {
			out = append(out, p)
		}
	}
	return out
}

// Sort sorts the problems by file, line and column.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
