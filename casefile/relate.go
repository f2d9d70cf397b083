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

// places are the labels that say where a failure is, and the word for what they name.
var places = map[string]string{
	"namespace": "namespace", "capi_namespace": "namespace", "object_namespace": "namespace", "group_namespace": "namespace",
	"pod": "pod", "node": "node", "node_name": "node",
	"object": "object", "name": "object", "machine": "object", "capi_cluster": "object", "rke_cluster": "object", "lease": "object",
}

// apart are the labels whose values keep places of the same name apart.
var apart = append(slices.Clone(rules.DefaultIdentity), replay.FileLabel)

// shared returns what two failures have in common, the most precise first; nil if they
// are in different places.
func shared(a, b map[string]string) []string {
	for _, name := range apart {
		if a[name] != b[name] {
			return nil
		}
	}
	of := map[string]bool{}
	for name, value := range a {
		if word := places[name]; word != "" && value != "" {
			of[word+" "+value] = true
		}
	}
	var out []string
	for name, value := range b {
		if s := places[name] + " " + value; value != "" && of[s] && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(x, y string) int {
		return cmp.Or(cmp.Compare(breadth(x), breadth(y)), cmp.Compare(x, y))
	})
	return out
}

// breadth orders places: a namespace has more in it than a node, a node more than an object.
func breadth(place string) int {
	word, _, _ := strings.Cut(place, " ")
	return map[string]int{"object": 1, "pod": 2, "node": 3, "namespace": 4}[word]
}

// link numbers the failures in order of time, keeps the subjects and what was open with
// them, and finds the chains. It returns how many failures it left out for their number.
func (c *Case) link() (omitted int) {
	c.keepRelated()
	if omitted = len(c.Failures) - maxFailures; omitted > 0 {
		slices.SortStableFunc(c.Failures, func(a, b Failure) int { return cmp.Compare(weight(b), weight(a)) })
		c.Failures = c.Failures[:maxFailures]
	}
	slices.SortStableFunc(c.Failures, inTime)
	group := make([]int, len(c.Failures)) // the first failure of its chain
	for i := range c.Failures {
		b := &c.Failures[i]
		b.ID, b.After, group[i] = i+1, []Link{}, i
		for k := range c.Failures[:i] {
			a := &c.Failures[k]
			same := together(a, b)
			if same == nil {
				continue
			}
			b.After = append(b.After, Link{ID: k + 1, Same: same})
			from, to := group[i], group[k]
			for m := range group[:i+1] {
				if group[m] == from {
					group[m] = to
				}
			}
		}
		slices.SortStableFunc(b.After, func(x, y Link) int { return cmp.Compare(breadth(x.Same[0]), breadth(y.Same[0])) })
		b.After = b.After[:min(len(b.After), maxLinks)]
	}
	c.joinCauses(group)
	c.Chains = chains(group)
	return max(0, omitted)
}

// inTime orders failures by their beginning.
func inTime(a, b Failure) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Alert, b.Alert), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// weight orders failures by what a reader must not miss.
func weight(f Failure) int {
	w := map[string]int{"critical": 3, "warning": 2, "info": 1}[f.Severity]
	if f.EndsAt == nil {
		w += 4
	}
	if f.Subject {
		w += 8
	}
	return w
}

// together returns what two failures share that were open at the same time; nil if nothing.
func together(a, b *Failure) []string {
	began := times.Later(a.Since, b.Since)
	if a.Since.IsZero() || b.Since.IsZero() || over(a, began) || over(b, began) {
		return nil
	}
	return shared(a.Labels, b.Labels)
}

// over reports whether a failure had ended before a time.
func over(f *Failure, at time.Time) bool { return f.EndsAt != nil && f.EndsAt.Before(at) }

// keepRelated removes the failures that were not open together with a subject.
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
	explained := c.explained()
	for i := range c.Failures {
		f := &c.Failures[i]
		if f.Subject || explained[i] || slices.ContainsFunc(subjects, func(s *Failure) bool { return together(s, f) != nil }) {
			kept = append(kept, *f)
		}
	}
	c.Failures = kept
}

// causeOf returns the index of the failure that is the cause of one; -1: it is not in the
// file. Of several failures with the same alert, it is the last one that was open then.
func (c *Case) causeOf(f *Failure) int {
	if f.Cause == nil {
		return -1
	}
	found := -1
	for i := range c.Failures {
		x := &c.Failures[i]
		if x.Fingerprint == f.Cause.Fingerprint && !over(x, f.Since) && (found < 0 || x.Since.After(c.Failures[found].Since)) {
			found = i
		}
	}
	return found
}

// explained returns, by index, the failures that are causes of a subject, or whose causes are,
// over any number of others.
func (c *Case) explained() []bool {
	out := make([]bool, len(c.Failures))
	for i := range c.Failures {
		var path []int
		reached := false // a subject, on the way from symptom to cause
		for k, steps := i, 0; k >= 0 && steps <= len(c.Failures); k, steps = c.causeOf(&c.Failures[k]), steps+1 {
			path = append(path, k)
			if reached = reached || c.Failures[k].Subject; reached {
				out[k] = true
			}
		}
		if reached {
			for _, k := range path {
				out[k] = true
			}
		}
	}
	return out
}

// joinCauses numbers the causes of the failures, and puts each failure into the chain of its
// cause.
func (c *Case) joinCauses(group []int) {
	for i := range c.Failures {
		k := c.causeOf(&c.Failures[i])
		if k < 0 || k == i {
			continue
		}
		c.Failures[i].Cause.ID = k + 1
		from, to := max(group[i], group[k]), min(group[i], group[k])
		for m := range group {
			if group[m] == from {
				group[m] = to
			}
		}
	}
}

// chains returns the groups of more than one failure. group holds the first failure of the
// group of each.
func chains(group []int) []Chain {
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
