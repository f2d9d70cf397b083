package sourcecheck

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// minLetters is the least number of letters of a run that says something.
const minLetters = 4

// run is a literal text that a line must contain.
type run struct {
	text string
	fold bool
}

// text is one text or expression of a rule.
type text struct {
	rule *rules.Rule
	part string // match, clear, unless, or a step
	// own says that crowsnest writes the lines, about the states of objects. Their messages are
	// its own, and only the values come from the component.
	own bool
	// variants are the ways to satisfy it, each by all of its runs.
	variants [][]run
}

// part is a matcher of a rule: match, clear, unless, or a step of a sequence.
type part struct {
	name    string
	matcher *rules.Matcher
	own     bool // see text
}

func partsOf(r *rules.Rule) (out []part) {
	for i := range r.Steps {
		name := "match"
		if r.Sequence {
			name = fmt.Sprintf("step %d", i+1)
		}
		out = append(out, part{name, &r.Steps[i].Matcher, isOwn(r.Steps[i].From)})
	}
	if r.Clear != nil {
		out = append(out, part{"clear", &r.Clear.Matcher, isOwn(r.Clear.From)})
	}
	if r.Unless != nil {
		out = append(out, part{"unless", &r.Unless.Matcher, isOwn(r.Unless.From)})
	}
	return out
}

// isOwn reports whether a selector accepts only lines that crowsnest writes itself, which have
// the label component.
func isOwn(from rules.Selector) bool {
	return slices.ContainsFunc(from.Matchers(), func(m selector.Matcher) bool { return m.Name == "component" && !m.Matches("") })
}

// ownField matches a field of such a line, and the values that come from the component.
var ownField = regexp.MustCompile(`\b(?:(?:reason|type|phase|message)=(?:"([^"\x00]*)|([^"\s\x00]+))|\w+=(?:"[^"\x00]*|[^"\s\x00]+))`)

// valuesOf returns the values of a run of such a line that come from the component, or the
// run if it has no fields.
func valuesOf(r run) (out []run) {
	all := ownField.FindAllStringSubmatch(r.text, -1)
	if len(all) == 0 {
		return []run{r}
	}
	for _, m := range all {
		out = append(out, runsOf(m[1]+m[2], r.fold)...)
	}
	return out
}

// textsOf returns the texts of the parts of a rule, without those that lines must not have.
func textsOf(r *rules.Rule) (out []text) {
	for _, p := range partsOf(r) {
		out = collect(out, text{rule: r, part: p.name, own: p.own}, p.matcher)
	}
	return out
}

func collect(out []text, t text, m *rules.Matcher) []text {
	add := func(variants [][]run) {
		if t.own {
			for i := range variants {
				var values []run
				for _, r := range variants[i] {
					values = append(values, valuesOf(r)...)
				}
				variants[i] = values
			}
		}
		variants = slices.DeleteFunc(variants, func(v []run) bool { return len(v) == 0 })
		same := func(o text) bool {
			return o.part == t.part && slices.EqualFunc(o.variants, variants, slices.Equal[[]run])
		}
		if len(variants) > 0 && !slices.ContainsFunc(out, same) {
			t.variants = variants
			out = append(out, t)
		}
	}
	expression := func(e *literals.Expression) {
		if e != nil {
			add(runsOfRegex(e.String()))
		}
	}
	for _, c := range m.Contains {
		add([][]run{runsOf(c, false)})
	}
	expression(m.Regex)
	for _, f := range m.Fields {
		add([][]run{runsOf(f.Value, false)})
		expression(f.Regex)
	}
	for i := range m.Any {
		out = collect(out, t, &m.Any[i])
	}
	return out
}

// runsOf returns the runs of a text, in which anything separates them.
func runsOf(text string, fold bool) (out []run) {
	text = strings.NewReplacer(`\"`, `"`, `\n`, anything, `\t`, anything, "\n", anything).Replace(text)
	if fold {
		text = strings.ToLower(text)
	}
	for _, s := range strings.Split(text, anything) {
		if s = strings.TrimFunc(s, punctuation); letters(s) >= minLetters {
			out = append(out, run{s, fold})
		}
	}
	return out
}

// maxVariants bounds the variants of an expression. Further ones count as anything.
const maxVariants = 64

// runsOfRegex returns the variants of an expression with the runs of each.
func runsOfRegex(expr string) (out [][]run) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil // the rule was compiled from it
	}
	fold := re.Flags&syntax.FoldCase != 0 || strings.Contains(expr, "(?i")
	for _, v := range variantsOf(re) {
		out = append(out, runsOf(v, fold))
	}
	return out
}

func variantsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpBeginText, syntax.OpEndLine, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}
	case syntax.OpCapture:
		return variantsOf(re.Sub[0])
	case syntax.OpQuest:
		return append([]string{""}, variantsOf(re.Sub[0])...)
	case syntax.OpCharClass:
		var all []string
		for i := 0; i+1 < len(re.Rune) && len(all) <= 4; i += 2 {
			for c := re.Rune[i]; c <= re.Rune[i+1] && len(all) <= 4; c++ {
				all = append(all, string(c))
			}
		}
		if len(all) <= 4 {
			return all
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, variantsOf(sub)...)
		}
		if len(all) <= maxVariants {
			return all
		}
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			next := variantsOf(sub)
			if len(all)*len(next) > maxVariants {
				next = []string{anything}
			}
			var joined []string
			for _, a := range all {
				for _, b := range next {
					joined = append(joined, a+b)
				}
			}
			all = joined
		}
		return all
	}
	return []string{anything}
}
