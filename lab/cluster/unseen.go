package cluster

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"crowsnest/internal/kube"
)

const maxNamed = 5

// UnreadGroup is a group of things in the cluster that were not read for the same reason.
type UnreadGroup struct {
	// Kind is the kind of the things, such as "logs of containers". Names are the first of
	// their names, and Count is their number.
	Kind  string   `json:"what"`
	Names []string `json:"names,omitempty"`
	Count int      `json:"count"`
	// Reason is the reason why the things were not read. Rule is what a role needs to read the things; "" if no role
	// helps.
	Reason string `json:"why"`
	Rule   string `json:"rule,omitempty"`
	// Failed reports whether the objects should have been read, so that the result is incomplete.
	Failed bool `json:"failed,omitempty"`
}

// String returns a description on one line.
func (u UnreadGroup) String() string {
	var b strings.Builder
	b.WriteString(u.Kind)
	if len(u.Names) > 0 {
		b.WriteString(" " + strings.Join(u.Names, ", "))
	}
	if more := u.Count - len(u.Names); more > 0 && len(u.Names) > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	b.WriteString(": " + u.Reason)
	if u.Rule != "" {
		b.WriteString("; a role needs " + u.Rule)
	}
	return b.String()
}

// unreadGroups collects the things that were not read. It is safe for concurrent use.
type unreadGroups struct {
	mu   sync.Mutex
	list []*UnreadGroup
}

// forbidden is the reason for objects that the user has no permission to read.
const forbidden = "forbidden"

// addOptional records that an object was not read, without making this an error. Objects with the same reason share one
// entry.
func (u *unreadGroups) addOptional(subject, name, why, rule string) {
	u.addName(UnreadGroup{Kind: subject, Reason: why, Rule: rule}, name)
}

func (u *unreadGroups) addFailed(subject, name, why string) {
	u.addName(UnreadGroup{Kind: subject, Reason: why, Failed: true}, name)
}

// addRefused records that the objects in a namespace were not read. "" means all namespaces.
func (u *unreadGroups) addRefused(name, namespace, rule string, err error) {
	if kube.StatusCode(err) == http.StatusForbidden {
		u.addOptional(name, namespace, forbidden, rule)
	} else {
		u.addFailed(name, namespace, explainError(err).Error())
	}
}

func (u *unreadGroups) addName(entry UnreadGroup, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.IndexFunc(u.list, func(x *UnreadGroup) bool {
		return x.Kind == entry.Kind && x.Reason == entry.Reason && x.Rule == entry.Rule && x.Failed == entry.Failed
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

// listUnseen returns all entries. Entries for which a Role helps come first.
func (u *unreadGroups) listUnseen() []UnreadGroup {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]UnreadGroup, len(u.list))
	for i, x := range u.list {
		slices.Sort(x.Names)
		out[i] = *x
	}
	slices.SortFunc(out, func(a, b UnreadGroup) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Rule)), min(1, len(a.Rule))), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// roleRule returns the text of the rule that a Role needs for a resource. resource is the name that kubectl uses.
func roleRule(resource, verb string) string {
	name, group, _ := strings.Cut(resource, ".")
	if group == "" {
		group = `""`
	}
	return fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [%s]}", group, name, verb)
}
