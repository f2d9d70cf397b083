package rules

import (
	"errors"
	"fmt"
	"time"

	"crowsnest/rules/internal/expr"
	"crowsnest/strictyaml"
)

// report collects the problems of a rule or of a file.
type report struct {
	alert    string // name of the rule's alert; empty for a file
	problems Problems
}

func (r *report) add(level strictyaml.Level, at strictyaml.Pos, check, message, fix string) {
	p := at.Problem(level, check, message, fix)
	p.Rule = r.alert
	r.problems = append(r.problems, p)
}

func (r *report) errorAt(at strictyaml.Pos, check, message, fix string) {
	r.add(strictyaml.Error, at, check, message, fix)
}

func (r *report) warnAt(at strictyaml.Pos, check, message, fix string) {
	r.add(strictyaml.Warning, at, check, message, fix)
}

// checkLateness reports a duration that is shorter than the lateness of sources.
func (r *report) checkLateness(d time.Duration, at strictyaml.Pos, name string) {
	if d < Lateness {
		r.warnAt(at, "below-lateness", fmt.Sprintf("%s is %s, shorter than the lateness of sources (%s)", name, duration(d), duration(Lateness)), "use at least "+duration(Lateness))
	}
}

// invalid reports the error of a selector, a template or a version constraint that a
// text at p has. what names the text.
func (r *report) invalid(p strictyaml.Pos, text, check, what string, err error) {
	message, fix := err.Error(), ""
	var se *expr.SyntaxError
	if errors.As(err, &se) {
		p, message, fix = p.Within(text, se.Offset), se.Message, se.Fix
	}
	r.errorAt(p, check, what+" is invalid: "+message, fix)
}
