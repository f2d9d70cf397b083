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

// maxNamed bounds the names of what was not seen for one reason.
const maxNamed = 5

// Unseen is something of the cluster that was not read.
type Unseen struct {
	// What it is, such as "logs of containers", and the first names, of Count.
	What  string   `json:"what"`
	Names []string `json:"names,omitempty"`
	Count int      `json:"count"`
	// Why is the reason, and Rule what a role needs so that it is seen; empty if no role helps.
	Why  string `json:"why"`
	Rule string `json:"rule,omitempty"`
	// Failed means that it should have been read.
	Failed bool `json:"failed,omitempty"`
}

// String returns it on one line.
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

// unseen collects what was not read. It is safe for concurrent use.
type unseen struct {
	mu   sync.Mutex
	list []*Unseen
}

// forbidden is the reason of what the person has no right to.
const forbidden = "forbidden"

// add notes that something was not read, which is no error. Things with the same reason are
// one entry.
func (u *unseen) add(what, name, why, rule string) {
	u.note(Unseen{What: what, Why: why, Rule: rule}, name)
}

// failed notes what should have been read.
func (u *unseen) failed(what, name, why string) {
	u.note(Unseen{What: what, Why: why, Failed: true}, name)
}

// refused notes that objects of a namespace, "" for all, were not read because of an error.
func (u *unseen) refused(what, namespace, rule string, err error) {
	if kube.Code(err) == http.StatusForbidden {
		u.add(what, namespace, forbidden, rule)
	} else {
		u.failed(what, namespace, explain(err).Error())
	}
}

func (u *unseen) note(of Unseen, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.IndexFunc(u.list, func(x *Unseen) bool {
		return x.What == of.What && x.Why == of.Why && x.Rule == of.Rule && x.Failed == of.Failed
	})
	if i < 0 {
		i = len(u.list)
		u.list = append(u.list, &of)
	}
	x := u.list[i]
	if x.Count++; name != "" && len(x.Names) < maxNamed && !slices.Contains(x.Names, name) {
		x.Names = append(x.Names, name)
	}
}

// all returns what was not read: first what a role would show.
func (u *unseen) all() []Unseen {
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

// ruleOf returns the rule of a role for a resource with a name as in kubectl.
func ruleOf(resource, verb string) string {
	name, group, _ := strings.Cut(resource, ".")
	if group == "" {
		group = `""`
	}
	return fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [%s]}", group, name, verb)
}
