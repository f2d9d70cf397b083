package episodes

import (
	"reflect"
	"strings"

	"crowsnest/matcher"
)

// sender is the party of the line that is taken. The labels of a stream are one
// map, so that nearly all lines have the party of the one before.
type sender struct {
	labels matcher.Labels
	party  string
}

// partyOf returns who is charged for a line: the namespace of its stream, as the
// source states it, "" if it states none.
func (e *Engine) partyOf(l matcher.Labels) string {
	s := &e.sender
	if reflect.ValueOf(l).Pointer() != reflect.ValueOf(s.labels).Pointer() {
		s.labels, s.party = l, cut(strings.ToValidUTF8(l["namespace"], "\uFFFD"), maxValue)
	}
	return s.party
}

// partyOfKey is what the values of `by` say of a party: for state that was saved
// without it.
func (rs *ruleState) partyOfKey(values []string) string {
	for i, name := range rs.rule.By {
		if name == "namespace" && i < len(values) {
			return strings.Clone(values[i])
		}
	}
	return ""
}
