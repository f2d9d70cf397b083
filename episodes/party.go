package episodes

import "strings"

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
