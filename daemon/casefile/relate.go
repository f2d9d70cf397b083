package casefile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/times"
	"crowsnest/replay"
	"crowsnest/rules"
)

const (
	maxFailures = 200
	maxLinks    = 8
)

// placeNouns maps the labels that state the place of a failure to names for people.
var placeNouns = map[string]string{
	"namespace": "namespace", "capi_namespace": "namespace", "object_namespace": "namespace", "group_namespace": "namespace",
	"pod": "pod", "node": "node", "node_name": "node",
	"object": "object", "name": "object", "machine": "object", "capi_cluster": "object", "rke_cluster": "object", "lease": "object",
}

// apart contains labels that distinguish places with the same name, such as namespaces in different clusters.
var apart = append(slices.Clone(rules.DefaultIdentity), replay.FileLabel)

// sharedLabels returns the place labels that two failures have in common, the most precise label first. It returns nil
// if the failures are in different places.
func sharedLabels(a, b map[string]string) []string {
	for _, name := range apart {
		if a[name] != b[name] {
			return nil
		}
	}
	of := map[string]bool{}
	for name, value := range a {
		if word := placeNouns[name]; word != "" && value != "" {
			of[word+" "+value] = true
		}
	}
	var out []string
	for name, value := range b {
		if s := placeNouns[name] + " " + value; value != "" && of[s] && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(x, y string) int {
		return cmp.Or(cmp.Compare(placeBreadth(x), placeBreadth(y)), cmp.Compare(x, y))
	})
	return out
}

// placeBreadth returns the breadth of a kind of place. A namespace is broader than a node, and a node is broader than
// an object.
func placeBreadth(place string) int {
	word, _, _ := strings.Cut(place, " ")
	return map[string]int{"object": 1, "pod": 2, "node": 3, "namespace": 4}[word]
}

// linkFailures sorts and numbers the failures by time, and finds the chains of causes. It keeps the subjects and the
// failures that were open at the same time. It removes the failures that exceed the maximum number, and returns their
// number.
func (c *Case) linkFailures() (omitted int) {
	c.keepRelated()
	if omitted = len(c.Failures) - maxFailures; omitted > 0 {
		slices.SortStableFunc(c.Failures, func(a, b Failure) int { return cmp.Compare(failureWeight(b), failureWeight(a)) })
		c.Failures = c.Failures[:maxFailures]
	}
	slices.SortStableFunc(c.Failures, inTime)
	group := make([]int, len(c.Failures)) // for each failure, the index of the first failure in its chain
	for i := range c.Failures {
		b := &c.Failures[i]
		b.ID, b.Preceding, group[i] = i+1, []Link{}, i
		for k := range c.Failures[:i] {
			a := &c.Failures[k]
			same := sharedWhileOpen(a, b)
			if same == nil {
				continue
			}
			b.Preceding = append(b.Preceding, Link{ID: k + 1, Same: same})
			joinGroups(group[:i+1], group[i], group[k])
		}
		slices.SortStableFunc(b.Preceding, func(x, y Link) int { return cmp.Compare(placeBreadth(x.Same[0]), placeBreadth(y.Same[0])) })
		b.Preceding = b.Preceding[:min(len(b.Preceding), maxLinks)]
	}
	c.joinCauses(group)
	c.Chains = listChains(group)
	return max(0, omitted)
}

func inTime(a, b Failure) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Alert, b.Alert), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

func failureWeight(f Failure) int {
	w := map[string]int{"critical": 3, "warning": 2, "info": 1}[f.Severity]
	if f.EndsAt == nil {
		w += 4
	}
	if f.Subject {
		w += 8
	}
	return w
}

// sharedWhileOpen returns the place labels that two failures have in common. It returns nil if the failures were not
// open at the same time.
func sharedWhileOpen(a, b *Failure) []string {
	began := times.Max(a.Since, b.Since)
	if a.Since.IsZero() || b.Since.IsZero() || hasEnded(a, began) || hasEnded(b, began) {
		return nil
	}
	return sharedLabels(a.Labels, b.Labels)
}

func hasEnded(f *Failure, t time.Time) bool { return f.EndsAt != nil && f.EndsAt.Before(t) }

// keepRelated removes the failures that are not related to a subject. A failure is related if it is in a chain of
// causes with a subject, or was open in the same place at the same time.
func (c *Case) keepRelated() {
	var subjects []*Failure
	for i := range c.Failures {
		if c.Failures[i].Subject {
			subjects = append(subjects, &c.Failures[i])
		}
	}
	if len(subjects) == len(c.Failures) {
		return
	}
	kept := []Failure{}
	explained := c.explainedFailures()
	for i := range c.Failures {
		f := &c.Failures[i]
		if f.Subject || explained[i] || slices.ContainsFunc(subjects, func(s *Failure) bool { return sharedWhileOpen(s, f) != nil }) {
			kept = append(kept, *f)
		}
	}
	c.Failures = kept
}

// findCause returns the index of the failure that caused f. It returns -1 if the file does not contain this failure. If
// several failures have the fingerprint of the cause, findCause returns the last of these failures that had not ended
// when f began.
func (c *Case) findCause(f *Failure) int {
	if f.Cause == nil {
		return -1
	}
	found := -1
	for i := range c.Failures {
		x := &c.Failures[i]
		if x.Fingerprint == f.Cause.Fingerprint && !hasEnded(x, f.Since) && (found < 0 || x.Since.After(c.Failures[found].Since)) {
			found = i
		}
	}
	return found
}

// explainedFailures returns, for each index of a failure, whether the failure is in a chain of causes with a subject.
func (c *Case) explainedFailures() []bool {
	out := make([]bool, len(c.Failures))
	for i := range c.Failures {
		var path []int // indexes of failures, from a symptom to its cause
		for k := i; k >= 0 && len(path) <= len(c.Failures); k = c.findCause(&c.Failures[k]) {
			path = append(path, k)
		}
		if slices.ContainsFunc(path, func(k int) bool { return c.Failures[k].Subject }) {
			for _, k := range path {
				out[k] = true
			}
		}
	}
	return out
}

// joinCauses sets the number of each failure's cause, and adds each failure to the chain of its cause.
func (c *Case) joinCauses(group []int) {
	for i := range c.Failures {
		k := c.findCause(&c.Failures[i])
		if k < 0 || k == i {
			continue
		}
		c.Failures[i].Cause.ID = k + 1
		joinGroups(group, max(group[i], group[k]), min(group[i], group[k]))
	}
}

func joinGroups(group []int, from, to int) {
	for m := range group {
		if group[m] == from {
			group[m] = to
		}
	}
}

// listChains returns the chains with at least two failures. group contains, for each failure, the index of the first
// failure in its chain.
func listChains(group []int) []Chain {
	members := map[int][]int{}
	for i, of := range group {
		members[of] = append(members[of], i+1)
	}
	out := []Chain{}
	for i := range group {
		if len(members[i]) > 1 {
			out = append(out, Chain{Failures: members[i]})
		}
	}
	return out
}
