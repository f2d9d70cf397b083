package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
)

// report collects the problems of a rule or of a file.
type report struct {
	alert    string // name of the rule's alert; empty for a problem of the file
	problems Problems
}

func (r *report) addProblem(level strictyaml.Level, pos strictyaml.Pos, check, message, fix string) {
	p := pos.Problem(level, check, message, fix)
	p.Rule = r.alert
	r.problems = append(r.problems, p)
}

func (r *report) addError(pos strictyaml.Pos, check, message, fix string) {
	r.addProblem(strictyaml.Error, pos, check, message, fix)
}

func (r *report) addWarning(pos strictyaml.Pos, check, message, fix string) {
	r.addProblem(strictyaml.Warning, pos, check, message, fix)
}

func (r *report) checkLateness(d time.Duration, pos strictyaml.Pos, name string) {
	if d < Lateness {
		r.addWarning(pos, "below-lateness", fmt.Sprintf("%s is %s, shorter than the lateness of sources (%s)", name, duration(d), duration(Lateness)), "use at least "+duration(Lateness))
	}
}

// addInvalid reports an error in a selector, a template or a version constraint. p is the position of the text, and
// name is its name in messages.
func (r *report) addInvalid(p strictyaml.Pos, text, check, name string, err error) {
	message, fix := err.Error(), ""
	var se *expr.SyntaxError
	if errors.As(err, &se) {
		p, message, fix = p.Within(text, se.Offset), se.Message, se.Fix
	}
	r.addError(p, check, name+" is invalid: "+message, fix)
}

// sortedUnique sorts names in place and drops duplicates.
func sortedUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// equalSets reports whether two lists without duplicates have the same names.
func equalSets(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// flowList formats a list as in YAML.
func flowList(list []string) string { return "[" + strings.Join(list, ", ") + "]" }

// duration formats a duration as in packs.
func duration(d time.Duration) string { return model.Duration(d).String() }

func hasBreak(s string) bool { return strings.ContainsAny(s, "\r\n") }
