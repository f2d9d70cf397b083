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

// minLetters is the minimum number of consecutive letters in a meaningful word.
const minLetters = 4

type run struct {
	text string
	fold bool
}

type text struct {
	rule *rules.Rule
	part string // match, clear, unless, or a step of a sequence
	// own reports whether crowsnest itself writes the lines. These lines describe the states of objects, and only the
	// values in them come from the component.
	own bool
	// variants contains the alternatives of the text. A line must contain all runs of at least one of them.
	variants [][]run
}

// part is a matcher of a rule: match, clear, unless, or a step of a sequence.
type part struct {
	name    string
	matcher *rules.Matcher
	own     bool // like text.own
}

func ruleParts(r *rules.Rule) (out []part) {
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

// isOwn reports whether a selector requires the label component, which only lines that crowsnest writes have.
func isOwn(from rules.Selector) bool {
	return slices.ContainsFunc(from.Matchers(), func(m selector.Matcher) bool { return m.Name == "component" && !m.Matches("") })
}

// ownField matches a field of a line that crowsnest writes, with a value that may come from the component.
var ownField = regexp.MustCompile(`\b(?:(?:reason|type|phase|message)=(?:"([^"\x00]*)|([^"\s\x00]+))|\w+=(?:"[^"\x00]*|[^"\s\x00]+))`)

// sourceValues returns the values in a run that come from the component. If the run contains no fields, it returns the
// run itself.
func sourceValues(r run) (out []run) {
	all := ownField.FindAllStringSubmatch(r.text, -1)
	if len(all) == 0 {
		return []run{r}
	}
	for _, m := range all {
		out = append(out, splitRuns(m[1]+m[2], r.fold)...)
	}
	return out
}

// ruleTexts returns the texts of a rule. It omits the texts that lines must not contain.
func ruleTexts(r *rules.Rule) (out []text) {
	for _, p := range ruleParts(r) {
		out = collectTexts(out, text{rule: r, part: p.name, own: p.own}, p.matcher)
	}
	return out
}

func collectTexts(out []text, t text, m *rules.Matcher) []text {
	add := func(variants [][]run) {
		if t.own {
			for i := range variants {
				var values []run
				for _, r := range variants[i] {
					values = append(values, sourceValues(r)...)
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
		add([][]run{splitRuns(c, false)})
	}
	expression(m.Regex)
	for _, f := range m.Fields {
		add([][]run{splitRuns(f.Value, false)})
		expression(f.Regex)
	}
	for i := range m.Any {
		out = collectTexts(out, t, &m.Any[i])
	}
	return out
}

func splitRuns(text string, fold bool) (out []run) {
	text = strings.NewReplacer(`\"`, `"`, `\n`, anything, `\t`, anything, "\n", anything).Replace(text)
	if fold {
		text = strings.ToLower(text)
	}
	for _, s := range strings.Split(text, anything) {
		if s = strings.TrimFunc(s, isPunctuation); countLetters(s) >= minLetters {
			out = append(out, run{s, fold})
		}
	}
	return out
}

// maxVariants is the maximum number of variants of an expression. Further variants are treated as unknown text.
const maxVariants = 64

func runsOfRegex(expr string) (out [][]run) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil // cannot happen, because the rule was compiled from the expression
	}
	fold := re.Flags&syntax.FoldCase != 0 || strings.Contains(expr, "(?i")
	for _, v := range expandVariants(re) {
		out = append(out, splitRuns(v, fold))
	}
	return out
}

func expandVariants(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpBeginText, syntax.OpEndLine, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}
	case syntax.OpCapture:
		return expandVariants(re.Sub[0])
	case syntax.OpQuest:
		return append([]string{""}, expandVariants(re.Sub[0])...)
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
			all = append(all, expandVariants(sub)...)
		}
		if len(all) <= maxVariants {
			return all
		}
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			next := expandVariants(sub)
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
