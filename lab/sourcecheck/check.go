// Package sourcecheck compares the texts of rules with the sources of the components that
// write them, and finds the texts that a release has changed.
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

// State says how much of a text the sources have.
type State string

// The states of a text. A text that is Elsewhere is not in the sources that were read, and
// its rule names further components that may write it.
const (
	Found     State = "found"
	InPart    State = "in part"
	Gone      State = "gone"
	Elsewhere State = "elsewhere"
)

// Answer is what the sources say about one text of a rule.
type Answer struct {
	State State  `json:"state"`
	Alert string `json:"alert"`
	File  string `json:"file"` // file of the rule
	Line  int    `json:"line"`
	Part  string `json:"part"` // match, clear, unless, or a step of a sequence
	// Lost says that no line can satisfy the part any more. Otherwise the text is one of
	// several alternatives in "any".
	Lost bool   `json:"lost"`
	Text string `json:"text"`
	// Missing are the runs of the text that the sources do not have, or only in part.
	Missing []string `json:"missing,omitempty"`
	// Source is FILE:LINE of the literal with most of the text, and of one that is not found
	// the literal that is most like it. SourceText is that literal, with "..." for values.
	Source     string `json:"source,omitempty"`
	SourceText string `json:"source_text,omitempty"`
}

// Message is the text of an error-level log call, or of a wrapped error.
type Message struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

// Result compares the rules of one component with its sources.
type Result struct {
	Component string   `json:"component"`
	Rules     int      `json:"rules"` // those that name the component in `verified`
	Literals  int      `json:"literals"`
	Answers   []Answer `json:"texts"`
	// New are messages that no rule matches, and that the page about the component in the
	// folder of coverage does not name. Page is that page, "" if there is none.
	New  []Message `json:"new"`
	Page string    `json:"page,omitempty"`
}

// Count returns the number of texts in a state.
func (r *Result) Count(s State) (n int) {
	for _, a := range r.Answers {
		if a.State == s {
			n++
		}
	}
	return n
}

// Check looks for the texts of the rules that were verified against c in its sources.
func Check(set *rules.Set, c components.Component, trees []Tree, coverage string) (*Result, error) {
	x := newIndex()
	for _, t := range trees {
		if err := t.read(c, x.addFile); err != nil {
			return nil, err
		}
	}
	x.build()
	res := &Result{Component: c.Name, Literals: len(x.literals)}
	for _, r := range set.Rules {
		if !slices.ContainsFunc(r.Verified, func(v rules.Verified) bool { return v.Component == c.Name }) {
			continue
		}
		res.Rules++
		lost := map[string]bool{}
		for _, p := range partsOf(r) {
			lost[p.name] = !x.has(p.matcher)
		}
		for _, t := range textsOf(r) {
			a := x.answer(t)
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

// has reports whether the sources have enough texts to satisfy a matcher.
func (x *index) has(m *rules.Matcher) bool {
	one := *m
	one.Any = nil
	for _, t := range collect(nil, text{rule: &rules.Rule{}}, &one) {
		if x.answer(t).State == Gone {
			return false
		}
	}
	return len(m.Any) == 0 || slices.ContainsFunc(m.Any, func(m rules.Matcher) bool { return x.has(&m) })
}

// answer judges a text by the variant of which the sources have most. It is gone if more than
// half of it is.
func (x *index) answer(t text) Answer {
	a := Answer{Alert: t.rule.Alert, File: t.rule.File, Line: t.rule.Line, Part: t.part}
	at := -1
	for _, v := range t.variants {
		state, where, missing := x.variant(v)
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
		if near := x.nearest(strings.Join(a.Missing, " ")); near >= 0 || a.State == Gone {
			at = near
		}
	}
	if at >= 0 {
		a.Source, a.SourceText = x.place(at), show(x.literals[at].text)
	}
	return a
}

// variant says how much of the runs of one line the sources have, in which literal, and
// which runs are missing. Runs that are not together in one literal must say enough.
func (x *index) variant(runs []run) (state State, where int, missing []string) {
	if at := x.together(runs); at >= 0 {
		return Found, at, nil
	}
	all, gone, vague, worst := 0, 0, 0, 0
	for _, r := range runs {
		f, n := x.find(r), letters(r.text)
		all += n
		switch {
		case f.state == Gone:
			gone += n
		case f.state == Found && n < minFirm:
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

func (x *index) place(i int) string {
	return fmt.Sprintf("%s:%d", x.literals[i].file, x.literals[i].line)
}

func show(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), anything, "...")
}

// addNew adds the messages that neither a rule nor the page of the component has.
func (r *Result) addNew(x *index, set *rules.Set, folder, name string) error {
	known := []string{}
	for _, rule := range set.Rules {
		for _, t := range textsOf(rule) {
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
	known = slices.DeleteFunc(known, func(s string) bool { return letters(s) < 8 })
	seen := map[string]bool{}
	for i, l := range x.literals {
		text := show(l.text)
		low := strings.ToLower(text)
		if !l.failure || letters(text) < 8 || seen[low] {
			continue
		}
		seen[low] = true
		if !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(low, k) || strings.Contains(k, strings.Trim(low, ".: ")) }) {
			r.New = append(r.New, Message{text, x.place(i)})
		}
	}
	return nil
}

var inCode = regexp.MustCompile("`([^`]+)`")

// textsOfPage returns the texts of the first column of a page of docs/coverage.
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
