package literals

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// MinRun is the minimum number of consecutive letters in a text that counts as characteristic.
const MinRun = 3

// Runs is an expression that also reports where its literal texts were found. A run is a section of the expression that
// contains no part of variable length and is as long as possible. In
//
//	Pod "(?P<pod>[^"]+)" (?:was|is) not ready.*again
//
// the runs are `Pod "`, `" was not ready` or `" is not ready`, and `again`. Runs is immutable.
type Runs struct {
	re     *regexp.Regexp
	groups []int // for each group of the original expression, its index in re
	runs   []int // for each run, the index of its group in re
	// AtStart and AtEnd report whether the expression has an assertion about the start or the end of the text or of a
	// line.
	AtStart, AtEnd bool
}

// Runs returns the expression with its runs.
func (e *Expression) Runs() *Runs {
	if r := e.runs.Load(); r != nil {
		return r
	}
	e.runs.CompareAndSwap(nil, newRuns(e.text))
	return e.runs.Load()
}

const runName = "crowsnest_run_"

func newRuns(text string) *Runs {
	out := &Runs{}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &Runs{re: regexp.MustCompile(text)} // the expression was parsed before, so it compiles
	}
	n := 0
	re = out.markRuns(re, &n)
	out.re = regexp.MustCompile(re.String())
	for i, name := range out.re.SubexpNames() {
		if strings.HasPrefix(name, runName) {
			out.runs = append(out.runs, i)
		} else {
			out.groups = append(out.groups, i)
		}
	}
	return out
}

// markRuns adds a capture group around each run of re.
func (r *Runs) markRuns(re *syntax.Regexp, n *int) *syntax.Regexp {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText:
		r.AtStart = true
	case syntax.OpEndLine, syntax.OpEndText:
		r.AtEnd = true
	}
	if isRigid(re) {
		return r.captureRun(r.noteAssertions(re), n)
	}
	out := *re
	out.Sub = nil
	for i := 0; i < len(re.Sub); {
		k := i
		for re.Op == syntax.OpConcat && k < len(re.Sub) && isRigid(re.Sub[k]) {
			r.noteAssertions(re.Sub[k])
			k++
		}
		if k == i {
			out.Sub = append(out.Sub, r.markRuns(re.Sub[i], n))
			i++
			continue
		}
		run := re.Sub[i]
		if k > i+1 {
			run = &syntax.Regexp{Op: syntax.OpConcat, Flags: re.Flags, Sub: slices.Clone(re.Sub[i:k])}
		}
		out.Sub = append(out.Sub, r.captureRun(run, n))
		i = k
	}
	return &out
}

func (r *Runs) noteAssertions(re *syntax.Regexp) *syntax.Regexp {
	r.AtStart = r.AtStart || contains(re, syntax.OpBeginLine, syntax.OpBeginText)
	r.AtEnd = r.AtEnd || contains(re, syntax.OpEndLine, syntax.OpEndText)
	return re
}

func contains(re *syntax.Regexp, ops ...syntax.Op) bool {
	return slices.Contains(ops, re.Op) || slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return contains(sub, ops...) })
}

// captureRun adds a capture group around a run if the run is characteristic.
func (r *Runs) captureRun(run *syntax.Regexp, n *int) *syntax.Regexp {
	if !isCharacteristic(run) {
		return run
	}
	*n++
	return &syntax.Regexp{Op: syntax.OpCapture, Flags: run.Flags, Name: fmt.Sprint(runName, *n), Sub: []*syntax.Regexp{run}}
}

// isRigid reports whether re consists only of literal text. It contains no part of variable length and no part that
// matches any character.
func isRigid(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpEmptyMatch:
		return true
	case syntax.OpCharClass:
		_, few := langOfClass(re)
		return few
	case syntax.OpCapture, syntax.OpQuest, syntax.OpConcat, syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !isRigid(sub) })
	}
	return zeroWidth(re)
}

// isCharacteristic reports whether re contains a text of at least MinRun letters.
func isCharacteristic(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		n := 0
		for _, c := range re.Rune {
			if n++; !isLetters(string(c)) && c < 0x80 {
				n = 0
			}
			if n >= MinRun {
				return true
			}
		}
	}
	return slices.ContainsFunc(re.Sub, isCharacteristic)
}

// Find returns the positions of the leftmost match in b, or nil if there is none. loc has the positions of the match
// and its groups. runs has the positions of the characteristic runs.
func (r *Runs) Find(b []byte) (loc, runs []int) {
	all := r.re.FindSubmatchIndex(b)
	if all == nil {
		return nil, nil
	}
	for _, i := range r.runs {
		if all[2*i] >= 0 {
			runs = append(runs, all[2*i], all[2*i+1])
		}
	}
	for k, i := range r.groups {
		all[2*k], all[2*k+1] = all[2*i], all[2*i+1]
	}
	return all[:2*len(r.groups)], runs
}
