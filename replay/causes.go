package replay

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// causeStubs returns a substitute rule for each cause in a test, by name, because only the tested rule takes part in a
// test. A substitute has the name of the cause and the labels of its alerts.
func causeStubs(t rules.Test) map[string]*rules.Rule {
	names := map[string][]string{}
	for _, in := range t.Input {
		if in.Cause != "" {
			names[in.Cause] = slices.AppendSeq(names[in.Cause], maps.Keys(in.Labels))
		}
	}
	out := map[string]*rules.Rule{}
	for alert, labels := range names {
		labels = slices.Compact(slices.Sorted(slices.Values(labels)))
		labels = slices.DeleteFunc(labels, func(name string) bool { return slices.Contains(rules.DefaultIdentity, name) })
		out[alert] = &rules.Rule{
			Alert: alert, Severity: rules.SeverityCritical, Mode: rules.ModeOn, Infrastructure: true, Count: 1, Limit: len(t.Input),
			Steps: make([]rules.Step, 1), By: labels, CapturedNames: labels,
			Clear: &rules.ClearOrUnless{Same: labels}, Expire: 100 * 365 * 24 * time.Hour, Hash: "stub",
		}
	}
	return out
}

func withStubs(set *rules.Set, causes map[string]*rules.Rule) *rules.Set {
	if len(causes) == 0 {
		return set
	}
	out := *set
	out.Rules = slices.Clone(set.Rules)
	for _, name := range slices.Sorted(maps.Keys(causes)) {
		out.Rules = append(out.Rules, causes[name])
	}
	return &out
}

func (s *session) applyCause(st step) {
	r := s.stubs[st.in.Cause]
	part, ts := matcher.Part(0), st.ts
	if st.ends {
		part, ts = matcher.PartClear, st.at
	}
	values := make([]string, len(r.By))
	for i, name := range r.By {
		values[i] = st.in.Labels[name]
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d %q", r.Alert, part, ts, st.in.Labels) // %q prints the labels sorted by name
	s.engine.Take([]matcher.Hit{{
		Rule: r, Part: part, Time: testStart.Add(ts), Line: "alert " + r.Alert, Values: values, Labels: matcher.Labels(st.in.Labels), ID: h.Sum64(),
	}}, testStart.Add(st.at))
}
