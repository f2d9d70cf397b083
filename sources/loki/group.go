package loki

import (
	"maps"
	"regexp"
	"slices"

	"crowsnest/rules"
)

const (
	// manyTexts in one query cost Loki more than another query: it searches each line for
	// one text after the other, some 50 ns each.
	manyTexts = 400
	// maxGroups is how many queries are made to avoid that.
	maxGroups = 5
)

// group is what one query asks for: lines with one of the texts, in streams that one of the
// selectors selects.
type group struct {
	of    []rules.Selector
	texts []text
}

func (g *group) add(other group) {
	g.of, g.texts = append(g.of, other.of...), append(g.texts, other.texts...)
}

// split divides what rules ask for, one group a rule, among as few queries as possible. If
// there are many texts, rules for certain containers, or whatever label most rules state,
// have queries of their own: Loki searches the lines of all other streams for the few texts
// of the other rules.
func (p planner) split(wanted []group) []group {
	var all, rest group
	for _, g := range wanted {
		all.add(g)
	}
	name := p.commonLabel(wanted)
	if len(all.texts) <= manyTexts || name == "" {
		return []group{all}
	}
	var out []group
	var last group
	for _, g := range wanted {
		if !states(g, name) {
			rest.add(g)
			continue
		}
		next := group{slices.Concat(last.of, g.of), slices.Concat(last.texts, g.texts)}
		full := len(next.texts) > max(manyTexts, len(all.texts)/(maxGroups-1))
		if len(last.of) > 0 && (full || len(p.conditions(next.of)) == 0) {
			out, last = append(out, last), g
			continue
		}
		last = next
	}
	out = append(out, last)
	if len(rest.of) > 0 {
		out = append(out, rest)
	}
	if len(out) > maxGroups {
		return []group{all}
	}
	return out
}

// commonLabel returns the label that the most rules state, of those that streams have; "":
// none.
func (p planner) commonLabel(wanted []group) string {
	count := map[string]int{}
	for _, g := range wanted {
		for name := range wantedValues(g.of[0]) {
			if p.naming.provider(name) != "" && states(g, name) {
				count[name]++
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[name] > count[best] {
			best = name
		}
	}
	return best
}

// states reports whether all selectors of a group want certain values of a label: not any.
func states(g group, name string) bool {
	for _, from := range g.of {
		want := wantedValues(from)[name]
		if any, err := regexp.MatchString("^(?:"+want+")$", unlikely); want == "" || any || err != nil {
			return false
		}
	}
	return true
}

// unlikely is a value that no label has.
const unlikely = "\x01"
