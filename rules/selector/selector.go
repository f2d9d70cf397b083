// Package selector selects log streams by their labels, as LogQL and PromQL do.
package selector

import (
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/rules/internal/expr"
)

// Op is the operator of a label matcher.
type Op string

// The operators. The regular ones match the whole value.
const (
	Equal     Op = "="
	NotEqual  Op = "!="
	Regexp    Op = "=~"
	NotRegexp Op = "!~"
)

// Matcher is a condition on one label. It is immutable and safe for
// concurrent use.
type Matcher struct {
	Name  string
	Op    Op
	Value string
	re    *literals.Expression // anchored expression of the operators =~ and !~
}

// Matches reports whether a label with this value satisfies the matcher. A label
// that is absent has the value "".
func (m Matcher) Matches(value string) bool {
	switch m.Op {
	case Equal:
		return value == m.Value
	case NotEqual:
		return value != m.Value
	case Regexp:
		return m.re != nil && m.found(value)
	case NotRegexp:
		return m.re != nil && !m.found(value)
	}
	return false
}

func (m Matcher) found(value string) bool {
	if value == "" { // asked of each selector when it is read
		return m.re.MatchesEmpty()
	}
	return m.re.MatchString(value)
}

// String formats the matcher as in a selector.
func (m Matcher) String() string {
	return m.Name + string(m.Op) + strconv.Quote(m.Value)
}

// Selector selects log streams by their labels, as in LogQL and PromQL. It is
// immutable and safe for concurrent use. The zero value matches everything.
type Selector struct {
	matchers []Matcher
	text     string // String, of a parsed one
}

// Matchers returns a copy of the conditions in the order in which they were
// written.
func (s Selector) Matchers() []Matcher {
	return slices.Clone(s.matchers)
}

// Size returns about how many instructions the regular expressions have.
func (s Selector) Size() (n int) {
	for _, m := range s.matchers {
		if m.re != nil {
			n += expr.Size(m.Value)
		}
	}
	return n
}

// Equal reports whether both selectors have the same conditions in the same order.
func (s Selector) Equal(o Selector) bool {
	return len(s.matchers) == len(o.matchers) && (len(s.matchers) == 0 || &s.matchers[0] == &o.matchers[0] ||
		slices.EqualFunc(s.matchers, o.matchers, func(a, b Matcher) bool { return a.Name == b.Name && a.Op == b.Op && a.Value == b.Value }))
}

// String formats the selector so that Parse returns an equal one. The zero
// value is "{}", which Parse refuses.
func (s Selector) String() string {
	if s.text != "" {
		return s.text
	}
	parts := make([]string, len(s.matchers))
	for i, m := range s.matchers {
		parts[i] = m.String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Matches reports whether the selector selects a stream with these labels. A label
// with an empty value is absent. An absent label counts as "", or, if lenient is
// set, satisfies every condition.
func (s Selector) Matches(labels map[string]string, lenient bool) bool {
	return !slices.ContainsFunc(s.matchers, func(m Matcher) bool {
		v := labels[m.Name]
		return !(v == "" && lenient) && !m.Matches(v)
	})
}

// MaySelect reports whether the selector may select a stream with these labels, if the
// values of the labels named unknown are not known.
func (s Selector) MaySelect(labels map[string]string, unknown []string) bool {
	return !slices.ContainsFunc(s.matchers, func(m Matcher) bool {
		return !slices.Contains(unknown, m.Name) && !m.Matches(labels[m.Name])
	})
}

// componentLabel is the label of the lines that crowsnest writes itself, such as those
// about the state of objects. They state all their labels.
const componentLabel = "component"

// States are the values of the label component of the lines that crowsnest writes about
// the state of objects, and of Events, sorted.
func States() []string {
	return []string{"conditions", "deleting", "events", "leases", "machines", "phases"}
}

// Demands reports whether the selector requires a value of some label, as Loki's queries
// must. Others select by component="" logs with and without other labels.
func (s Selector) Demands() bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool { return !m.Matches("") })
}

// OfContainers reports whether the selector demands a label that only streams of containers
// have.
func (s Selector) OfContainers() bool { return s.demands("container") || s.demands("pod") }

// StatesPlace reports whether name is a label that says where the program runs whose lines the
// selector selects: every such stream of a cluster has it.
func (s Selector) StatesPlace(name string) bool {
	switch name {
	case "namespace", "pod", "container", "node_name", "image":
		return s.OfContainers() || s.demands(name)
	}
	return false
}

// demands reports whether the selector requires a value of a label.
func (s Selector) demands(label string) bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool { return m.Name == label && !m.Matches("") })
}

// WantsStates reports whether the selector demands lines about the state of objects, or
// Events. No log of a container has them.
func (s Selector) WantsStates() bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool {
		return m.Name == componentLabel && !m.Matches("") && slices.ContainsFunc(States(), m.Matches)
	})
}

// MayMatch reports whether the selector may select a recorded log, of which only these
// labels are known: as Matches with lenient, but such a log has no label component unless
// it states one, and then has no others.
func (s Selector) MayMatch(labels map[string]string) bool {
	stated := labels[componentLabel] != ""
	return !slices.ContainsFunc(s.matchers, func(m Matcher) bool {
		v := labels[m.Name]
		unknown := v == "" && !stated && m.Name != componentLabel
		return !unknown && !m.Matches(v)
	})
}
