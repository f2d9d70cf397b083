// Package selector selects log streams by their labels like LogQL and PromQL.
package selector

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/codec"
	"crowsnest/internal/literals"
	"crowsnest/rules/internal/expr"
)

// Op is the operator of a label matcher.
type Op string

// The operators. The regular expressions must match the whole value.
const (
	Equal     Op = "="
	NotEqual  Op = "!="
	Regexp    Op = "=~"
	NotRegexp Op = "!~"
)

// Matcher is a condition on one label. It is immutable and safe for concurrent use.
type Matcher struct {
	Name  string
	Op    Op
	Value string
	re    *literals.Expression // expression of the operators =~ and !~ for the whole value; otherwise nil
}

// Matches reports whether a label's value satisfies the matcher. The value of an absent label is "".
func (m Matcher) Matches(value string) bool {
	switch m.Op {
	case Equal:
		return value == m.Value
	case NotEqual:
		return value != m.Value
	case Regexp:
		return m.re != nil && m.searchValue(value)
	case NotRegexp:
		return m.re != nil && !m.searchValue(value)
	}
	return false
}

func (m Matcher) searchValue(value string) bool {
	if value == "" { // cached, because every selector that is read needs it
		return m.re.MatchesEmpty()
	}
	return m.re.MatchString(value)
}

// String formats the matcher as in a selector.
func (m Matcher) String() string {
	return m.Name + string(m.Op) + strconv.Quote(m.Value)
}

// Selector selects log streams by their labels like LogQL and PromQL. It is immutable and safe
// for concurrent use. The zero value matches everything.
type Selector struct {
	matchers []Matcher
	text     string // cached result of String; empty if the selector was not parsed
}

// Matchers returns a copy of the conditions in the order of the text.
func (s Selector) Matchers() []Matcher {
	return slices.Clone(s.matchers)
}

// Size returns approximately how many instructions the regular expressions of the selector have.
func (s Selector) Size() (n int) {
	for _, m := range s.matchers {
		if m.re != nil {
			n += expr.Size(m.Value)
		}
	}
	return n
}

// WithEqual returns the selector with the additional condition that a label has a value.
func (s Selector) WithEqual(name, value string) Selector {
	out := Selector{matchers: append(slices.Clip(s.matchers), Matcher{Name: name, Op: Equal, Value: value})}
	out.text = out.String()
	return out
}

// WithEqualOrAbsent returns the selector with the additional condition that a label has a value or is absent.
func (s Selector) WithEqualOrAbsent(name, value string) (Selector, error) {
	m := Matcher{Name: name, Op: Regexp, Value: regexp.QuoteMeta(value) + "|"}
	var err error
	if m.re, err = expr.ParseAnchored(m.Value); err != nil {
		return s, err
	}
	out := Selector{matchers: append(slices.Clip(s.matchers), m)}
	out.text = out.String()
	return out, nil
}

// Equal reports whether both selectors have the same conditions in the same order.
func (s Selector) Equal(o Selector) bool {
	return len(s.matchers) == len(o.matchers) && (len(s.matchers) == 0 || &s.matchers[0] == &o.matchers[0] ||
		slices.EqualFunc(s.matchers, o.matchers, func(a, b Matcher) bool { return a.Name == b.Name && a.Op == b.Op && a.Value == b.Value }))
}

// String returns the selector in the syntax of Parse. The zero value becomes "{}", which Parse refuses.
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

// Matches reports whether the selector selects a stream with these labels. A label with an
// empty value is absent. An absent label counts as "". If lenient is set, an absent label
// satisfies every condition instead.
func (s Selector) Matches(labels map[string]string, lenient bool) bool {
	return s.matchesUnknown(labels, func(name string) bool { return lenient && labels[name] == "" })
}

// matchesUnknown reports whether the labels satisfy all conditions on labels for which unknown returns false.
func (s Selector) matchesUnknown(labels map[string]string, unknown func(name string) bool) bool {
	for _, m := range s.matchers {
		if !unknown(m.Name) && !m.Matches(labels[m.Name]) {
			return false
		}
	}
	return true
}

// MaySelect reports whether the selector selects a stream with these labels for some values of the labels that unknown
// lists.
func (s Selector) MaySelect(labels map[string]string, unknown []string) bool {
	return s.matchesUnknown(labels, func(name string) bool { return slices.Contains(unknown, name) })
}

// componentLabel is the label of the lines that crowsnest itself writes, such as lines about the state of objects. All
// labels of these lines are known.
const componentLabel = "component"

// States returns the sorted values of the label component on lines about the state of objects and about Events.
// crowsnest writes these lines itself.
func States() []string {
	return []string{"conditions", "deleting", "events", "leases", "machines", "phases"}
}

// DemandsAny reports whether the selector requires a non-empty value of some label, which Loki demands of every query.
// A selector for which it returns false contains component="", which matches logs of every kind.
func (s Selector) DemandsAny() bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool { return !m.Matches("") })
}

// OfContainers reports whether the selector requires a label that only containers have.
func (s Selector) OfContainers() bool { return s.demandsLabel("container") || s.demandsLabel("pod") }

// StatesPlace reports whether the label name describes where a program runs, and every stream that the selector selects
// has this label.
func (s Selector) StatesPlace(name string) bool {
	switch name {
	case "namespace", "pod", "container", "node_name", "image":
		return s.OfContainers() || s.demandsLabel(name)
	}
	return false
}

// demandsLabel reports whether the selector requires a non-empty value of a label.
func (s Selector) demandsLabel(label string) bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool { return m.Name == label && !m.Matches("") })
}

// WantsStates reports whether the selector requires lines about the state of objects, or Events. Container logs contain
// no such lines.
func (s Selector) WantsStates() bool {
	return slices.ContainsFunc(s.matchers, func(m Matcher) bool {
		return m.Name == componentLabel && !m.Matches("") && slices.ContainsFunc(States(), m.Matches)
	})
}

// MayMatch reports whether the selector may select a recorded log of which only these labels are known. It works like
// Matches with lenient, with two exceptions. A log without the label component is known to have no such label. A log
// with the label component is known to have no labels other than the given ones.
func (s Selector) MayMatch(labels map[string]string) bool {
	stated := labels[componentLabel] != ""
	return s.matchesUnknown(labels, func(name string) bool { return labels[name] == "" && !stated && name != componentLabel })
}

// Serialize reads or writes a parsed selector.
func Serialize(c *codec.Codec, s *Selector) {
	codec.Text(c, &s.text)
	codec.List(c, &s.matchers, func(c *codec.Codec, m *Matcher) {
		codec.Text(c, &m.Name)
		codec.Text(c, &m.Op)
		codec.Text(c, &m.Value)
		codec.Pointer(c, &m.re, literals.Code)
	})
}
