package loki

import (
	"maps"
	"regexp"
	"slices"

	"crowsnest/rules"
)

const (
	// manyTexts is the number of texts from which on one query is more expensive for Loki than
	// two queries with fewer texts. Loki searches each line for one text after the other,
	// which takes about 50 ns per text.
	manyTexts = 400
	// maxGroups is the largest number of queries into which the texts are divided.
	maxGroups = 5
)

// group is the content of one query. The query requests the lines that contain one of the
// texts, in streams that one of the selectors selects.
type group struct {
	selectors []rules.Selector
	texts     []text
}

func (g *group) add(other group) {
	g.selectors, g.texts = append(g.selectors, other.selectors...), append(g.texts, other.texts...)
}

// divideGroups divides the lines that rules need among as few queries as possible. wanted has
// one group for each rule. If there are many texts, some rules get their own queries, namely
// those that state a value of the most common label, such as the container. Loki then searches
// other streams only for the few texts of the other rules.
func (p planner) divideGroups(wanted []group) []group {
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
		if !wantsLabel(g, name) {
			rest.add(g)
			continue
		}
		next := group{slices.Concat(last.selectors, g.selectors), slices.Concat(last.texts, g.texts)}
		full := len(next.texts) > max(manyTexts, len(all.texts)/(maxGroups-1))
		if len(last.selectors) > 0 && (full || len(p.commonConditions(next.selectors)) == 0) {
			out, last = append(out, last), g
			continue
		}
		last = next
	}
	out = append(out, last)
	if len(rest.selectors) > 0 {
		out = append(out, rest)
	}
	if len(out) > maxGroups {
		return []group{all}
	}
	return out
}

// commonLabel returns the label of streams for which most rules require a value, or "" if
// there is none.
func (p planner) commonLabel(wanted []group) string {
	count := map[string]int{}
	for _, g := range wanted {
		for name := range wantedValues(g.selectors[0]) {
			if p.naming.lokiLabel(name) != "" && wantsLabel(g, name) {
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

// wantsLabel reports whether every selector of a group requires specific values of a label.
func wantsLabel(g group, name string) bool {
	for _, from := range g.selectors {
		want := wantedValues(from)[name]
		if any, err := regexp.MatchString("^(?:"+want+")$", unlikely); want == "" || any || err != nil {
			return false
		}
	}
	return true
}

// unlikely is a value that no label has.
const unlikely = "\x01"
