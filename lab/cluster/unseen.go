package cluster

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"crowsnest/kube"
)

const maxNamed = 5

// Unseen is a group of things in the cluster that were not read for the same reason.
type Unseen struct {
	// What is the kind of the things, such as "logs of containers". Names are the first of
	// their names, and Count is their number.
	What  string   `json:"what"`
	Names []string `json:"names,omitempty"`
	Count int      `json:"count"`
	// Why is the reason. Rule is what a role needs to read the things; "" if no role helps.
	Why  string `json:"why"`
	Rule string `json:"rule,omitempty"`
	// Failed reports whether the things should have been read.
	Failed bool `json:"failed,omitempty"`
}

// String returns a description on one line.
func (u Unseen) String() string {
	var b strings.Builder
	b.WriteString(u.What)
	if len(u.Names) > 0 {
		b.WriteString(" " + strings.Join(u.Names, ", "))
	}
	if more := u.Count - len(u.Names); more > 0 && len(u.Names) > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	b.WriteString(": " + u.Why)
	if u.Rule != "" {
		b.WriteString("; a role needs " + u.Rule)
	}
	return b.String()
}

// unseen collects the things that were not read. It is safe for concurrent use.
type unseen struct {
	mu   sync.Mutex
	list []*Unseen
}

// forbidden is the reason for things that the user may not read.
const forbidden = "forbidden"

// addOptional records that something was not read and that this is not an error. Things with
// the same reason share one entry.
func (u *unseen) addOptional(subject, name, why, rule string) {
	u.addName(Unseen{What: subject, Why: why, Rule: rule}, name)
}

func (u *unseen) addFailed(subject, name, why string) {
	u.addName(Unseen{What: subject, Why: why, Failed: true}, name)
}

// addRefused records that the objects of a namespace were not read; "" means all namespaces.
func (u *unseen) addRefused(name, namespace, rule string, err error) {
	if kube.StatusCode(err) == http.StatusForbidden {
		u.addOptional(name, namespace, forbidden, rule)
	} else {
		u.addFailed(name, namespace, explainError(err).Error())
	}
}

func (u *unseen) addName(entry Unseen, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.IndexFunc(u.list, func(x *Unseen) bool {
		return x.What == entry.What && x.Why == entry.Why && x.Rule == entry.Rule && x.Failed == entry.Failed
	})
	if i < 0 {
		i = len(u.list)
		u.list = append(u.list, &entry)
	}
	x := u.list[i]
	if x.Count++; name != "" && len(x.Names) < maxNamed && !slices.Contains(x.Names, name) {
		x.Names = append(x.Names, name)
	}
}

// listUnseen returns what was not read. Entries for which a role helps come first.
func (u *unseen) listUnseen() []Unseen {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Unseen, len(u.list))
	for i, x := range u.list {
		slices.Sort(x.Names)
		out[i] = *x
	}
	slices.SortFunc(out, func(a, b Unseen) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Rule)), min(1, len(a.Rule))), cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why))
	})
	return out
}

// roleRule returns the rule that a role needs for a resource, by its name for kubectl.
func roleRule(resource, verb string) string {
	name, group, _ := strings.Cut(resource, ".")
	if group == "" {
		group = `""`
	}
	return fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [%s]}", group, name, verb)
}
