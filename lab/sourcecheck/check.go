// Package sourcecheck compares the texts in rules with the source code of the components that log these texts. It finds
// texts that a release has changed.
package sourcecheck

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"crowsnest/rules"
	"crowsnest/rules/components"
)

// State says whether the source code contains a text completely, partly or not at all.
type State string

// States of a text. Elsewhere means that the source code does not contain the text, but that the rule names further
// components that may log it.
const (
	Found     State = "found"
	InPart    State = "in part"
	Gone      State = "gone"
	Elsewhere State = "elsewhere"
)

// Answer is the result for one text of a rule.
type Answer struct {
	State State  `json:"state"`
	Alert string `json:"alert"`
	File  string `json:"file"` // file that contains the rule
	Line  int    `json:"line"`
	Part  string `json:"part"` // match, clear, unless, or a step of a sequence
	// Lost reports whether no line can match the part of the rule any more. It is false if the text is one of several
	// alternatives in "any".
	Lost bool   `json:"lost"`
	Text string `json:"text"`
	// Missing contains the parts of the text that the source code does not contain completely.
	Missing []string `json:"missing,omitempty"`
	// Source is FILE:LINE of the literal that contains most of the text. If the text was not found, it is the position
	// of the most similar literal. SourceText is this literal, with "..." in place of values.
	Source     string `json:"source,omitempty"`
	SourceText string `json:"source_text,omitempty"`
}

// Message is the text of a log call of level error, or of a wrapped error.
type Message struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

// Result is the comparison of the rules for one component with the source code of the component.
type Result struct {
	Component string   `json:"component"`
	Rules     int      `json:"rules"` // number of rules that name the component in `verified`
	Literals  int      `json:"literals"`
	Answers   []Answer `json:"texts"`
	// New contains the messages that no rule matches and that the coverage page of the component does not mention. Page
	// is the path of the coverage page, or "" if there is none.
	New  []Message `json:"new"`
	Page string    `json:"page,omitempty"`
}

// Count returns the number of texts in state s.
func (r *Result) Count(s State) (n int) {
	for _, a := range r.Answers {
		if a.State == s {
			n++
		}
	}
	return n
}

// Check searches the source code of c for the texts of the rules that were verified against c.
func Check(set *rules.Set, c components.Component, trees []Tree, coverage string) (*Result, error) {
	x := newIndex()
	for _, t := range trees {
		if err := t.readFiles(c, x.addFile); err != nil {
			return nil, err
		}
	}
	x.prepareSearch()
	res := &Result{Component: c.Name, Literals: len(x.literals)}
	for _, r := range set.Rules {
		if !slices.ContainsFunc(r.Verified, func(v rules.Verified) bool { return v.Component == c.Name }) {
			continue
		}
		res.Rules++
		lost := map[string]bool{}
		for _, p := range ruleParts(r) {
			lost[p.name] = !x.hasTexts(p.matcher)
		}
		for _, t := range ruleTexts(r) {
			a := x.judgeText(t)
			a.Lost = a.State == Gone && lost[t.part]
			res.Answers = append(res.Answers, a)
		}
	}
	order := []State{Gone, InPart, Elsewhere, Found}
	slices.SortStableFunc(res.Answers, func(a, b Answer) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	return res, res.addNew(x, set, coverage, cmp.Or(c.Coverage, c.Name))
}

func (x *index) hasTexts(m *rules.Matcher) bool {
	one := *m
	one.Any = nil
	for _, t := range collectTexts(nil, text{rule: &rules.Rule{}}, &one) {
		if x.judgeText(t).State == Gone {
			return false
		}
	}
	return len(m.Any) == 0 || slices.ContainsFunc(m.Any, func(m rules.Matcher) bool { return x.hasTexts(&m) })
}

// judgeText returns the result for the variant of a text of which the source code contains the largest part. The text
// is gone if more than half of it is missing.
func (x *index) judgeText(t text) Answer {
	a := Answer{Alert: t.rule.Alert, File: t.rule.File, Line: t.rule.Line, Part: t.part}
	at := -1
	for _, v := range t.variants {
		state, where, missing := x.judgeVariant(v)
		var texts []string
		for _, r := range v {
			texts = append(texts, r.text)
		}
		if a.State == "" || rank[state] < rank[a.State] {
			a.State, a.Text, a.Missing, at = state, strings.Join(texts, " ... "), missing, where
		}
	}
	if a.State == Gone && len(t.rule.Verified) > 1 {
		a.State = Elsewhere
	}
	if len(a.Missing) > 0 {
		if near := x.nearestLiteral(strings.Join(a.Missing, " ")); near >= 0 || a.State == Gone {
			at = near
		}
	}
	if at >= 0 {
		a.Source, a.SourceText = x.literalPlace(at), shownText(x.literals[at].text)
	}
	return a
}

// judgeVariant returns how much of the runs of one line the sources contain, in which literal,
// and which runs are missing. Runs that are not all in one literal must each be distinctive
// enough.
func (x *index) judgeVariant(runs []run) (state State, where int, missing []string) {
	if at := x.literalWithAll(runs); at >= 0 {
		return Found, at, nil
	}
	all, gone, vague, worst := 0, 0, 0, 0
	for _, r := range runs {
		f, n := x.findText(r), countLetters(r.text)
		all += n
		switch {
		case f.state == Gone:
			gone += n
		case f.state == Found && n < minDistinctive:
			vague += n
		}
		if f.state != Found {
			missing = append(missing, r.text)
		}
		if n *= 1 + 100*rank[f.state]; n > worst {
			worst, where = n, f.at
		}
	}
	switch {
	case gone*2 >= all:
		return Gone, where, missing
	case len(missing) > 0 || vague*5 > all*2:
		return InPart, where, missing
	}
	return Found, where, nil
}

var rank = map[State]int{Found: 0, InPart: 1, Gone: 2}

func (x *index) literalPlace(i int) string {
	return fmt.Sprintf("%s:%d", x.literals[i].file, x.literals[i].line)
}

func shownText(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), anything, "...")
}

func (r *Result) addNew(x *index, set *rules.Set, folder, name string) error {
	known := []string{}
	for _, rule := range set.Rules {
		for _, t := range ruleTexts(rule) {
			for _, v := range t.variants {
				longest := slices.MaxFunc(v, func(a, b run) int { return len(a.text) - len(b.text) })
				known = append(known, strings.ToLower(longest.text))
			}
		}
	}
	page := folder + "/" + name + ".md"
	data, err := os.ReadFile(page)
	switch {
	case err == nil:
		r.Page = page
		known = append(known, textsOfPage(string(data))...)
	case !os.IsNotExist(err):
		return err
	}
	known = slices.DeleteFunc(known, func(s string) bool { return countLetters(s) < 8 })
	seen := map[string]bool{}
	for i, l := range x.literals {
		text := shownText(l.text)
		low := strings.ToLower(text)
		if !l.failure || countLetters(text) < 8 || seen[low] {
			continue
		}
		seen[low] = true
		if !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(low, k) || strings.Contains(k, strings.Trim(low, ".: ")) }) {
			r.New = append(r.New, Message{text, x.literalPlace(i)})
		}
	}
	return nil
}

var inCode = regexp.MustCompile("`([^`]+)`")

func textsOfPage(page string) (out []string) {
	for _, line := range strings.Split(page, "\n") {
		m := inCode.FindStringSubmatch(line)
		if !strings.HasPrefix(line, "| `") || m == nil {
			continue
		}
		for _, t := range strings.Split(m[1], "; ") {
			out = append(out, strings.ToLower(strings.TrimSpace(t)))
		}
	}
	return out
}
