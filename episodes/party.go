package episodes

import "strings"

// partyOf returns the party that is charged for the lines of a stream: the values of
// its identity and its namespace, as the source states it. It is "" if the stream has
// neither.
func partyOf(namespace string, who *identity) string {
	party := truncate(strings.ToValidUTF8(namespace, "\uFFFD"), maxValue)
	for i := len(who.saved()) - 1; i >= 0; i-- {
		if v := who.values[i]; v != "" {
			party = v + "/" + party
		}
	}
	return party
}

// partyOfKey derives the party from the values of `by`, for state that was saved
// without it.
func (rs *ruleState) partyOfKey(values []string) string {
	for i, name := range rs.rule.By {
		if name == "namespace" && i < len(values) {
			return strings.Clone(values[i])
		}
	}
	return ""
}
