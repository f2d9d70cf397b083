// Package namespaces decides which log lines rules trust, by the namespaces in which the
// infrastructure runs. It also recognizes components by their workloads.
package namespaces

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// Set is the list of namespaces whose logs rules with `origin: infrastructure` trust. A nil Set contains every
// namespace. It is immutable and safe for concurrent use.
type Set struct {
	names   map[string]bool
	globs   []string // patterns that contain a *
	removed []string // removed names and globs, which take precedence over names and globs
}

// maxEntries is the maximum number of entries of a list.
const maxEntries = 1000

var namespaceEntry = lazyre.New(`^[+-]?[a-z0-9*]([a-z0-9*-]{0,61}[a-z0-9*])?$`)

// Parse parses a list of namespaces. An entry is a name or a glob in which * matches any text. `+NAME` adds to the
// built-in list. `-NAME` removes from the list and takes precedence over every other entry. A plain NAME replaces the
// built-in list. An empty list means the built-in list. It is an error if no namespace remains.
func Parse(entries []string) (*Set, error) {
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("there are %d entries, more than %d; use globs", len(entries), maxEntries)
	}
	n := &Set{names: map[string]bool{}}
	plain := false
	for _, e := range entries {
		if err := Check(e); err != nil {
			return nil, err
		}
		switch name := strings.TrimLeft(e, "+-"); e[0] {
		case '-':
			n.removed = append(n.removed, name)
		default:
			plain = plain || e[0] != '+'
			n.add(name)
		}
	}
	if !plain {
		for _, c := range infrastructure() {
			for _, name := range c.namespaces {
				n.add(name)
			}
		}
	}
	if len(n.List()) == 0 {
		return nil, errors.New("no namespace remains, so no rule with `origin: infrastructure` could match a line; list a namespace, or remove the key to use the built-in list")
	}
	return n, nil
}

// Check returns an error if an entry of a list is invalid. In the error's text, the fix follows the last "; ".
func Check(entry string) error {
	if !namespaceEntry.MatchString(entry) {
		return fmt.Errorf("%.70q is not the name of a namespace; use lower-case letters, digits, - and *, with a leading + to add or - to remove", entry)
	}
	return nil
}

func (n *Set) add(name string) {
	switch {
	case !strings.Contains(name, "*"):
		n.names[name] = true
	case !slices.Contains(n.globs, name):
		n.globs = append(n.globs, name)
	}
}

// Has reports whether a namespace is in the list. The empty name never is.
func (n *Set) Has(namespace string) bool {
	if n == nil {
		return true
	}
	if namespace == "" || n.Removed(namespace) {
		return false
	}
	return n.names[namespace] || matchesAny(n.globs, namespace)
}

// Removed reports whether the list excludes a namespace by name or glob.
func (n *Set) Removed(namespace string) bool {
	return n != nil && matchesAny(n.removed, namespace)
}

// All reports whether every namespace is in the list.
func (n *Set) All() bool {
	return n == nil || slices.Contains(n.globs, "*") && len(n.removed) == 0
}

// List returns the effective names and globs, sorted, followed by the entries -NAME that remove something from the
// globs.
func (n *Set) List() []string {
	if n == nil {
		return []string{"*"}
	}
	var out, removed []string
	for name := range n.names {
		if !matchesAny(n.removed, name) {
			out = append(out, name)
		}
	}
	for _, g := range n.globs {
		// An entry -NAME also removes a glob that it equals or includes.
		if !matchesAny(n.removed, g) {
			out = append(out, g)
			removed = n.removed
		}
	}
	slices.Sort(out)
	for _, r := range removed {
		out = append(out, "-"+r)
	}
	return out
}

// Patterns returns two regular expressions for a whole name. in matches every namespace of the list and the empty name.
// out matches the names that are removed from the globs of the list. out is "" if no name is removed.
func (n *Set) Patterns() (in, out string) {
	var names, removed []string
	for _, name := range n.List() {
		to := &names
		switch {
		case strings.HasPrefix(name, "-"):
			to = &removed
		case n != nil && n.names[name] && matchesAny(n.globs, name):
			continue
		}
		*to = append(*to, strings.ReplaceAll(strings.TrimPrefix(name, "-"), "*", ".*"))
	}
	return strings.Join(names, "|") + "|", strings.Join(removed, "|")
}

// matchesAny reports whether one of the globs matches a whole name. A name with a slash matches none.
func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		matches, _ := path.Match(glob, name) // a * is the only special character of a glob, so there is no error
		return matches
	})
}

//go:embed infrastructure.txt
var infrastructureList string

// component is a program whose failures the shipped rules detect.
type component struct {
	namespaces []string // names and globs of the namespaces in which it runs
	name       string
	workloads  []string
}

// infrastructure returns the components whose namespaces are the built-in list.
func infrastructure() []component {
	var out []component
	for line := range strings.Lines(infrastructureList) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if line[0] == '#' || len(fields) < 2 {
			continue
		}
		c := component{namespaces: strings.Fields(fields[0]), name: strings.TrimSpace(fields[1])}
		if len(fields) > 2 {
			c.workloads = strings.Fields(fields[2])
		}
		out = append(out, c)
	}
	return out
}

// Components finds components by the names of their pods. It is immutable and safe for concurrent use.
type Components struct {
	byWorkload map[string]component
}

// NewComponents returns the components that are built into the program.
func NewComponents() *Components {
	c := &Components{byWorkload: map[string]component{}}
	for _, known := range infrastructure() {
		for _, w := range known.workloads {
			c.byWorkload[w] = known
		}
	}
	return c
}

// OfPod returns the name of the component whose Deployment, DaemonSet or StatefulSet created a pod, or "" if the
// component is not known. A pod can have any name, so the result is a hint, not a proof.
func (c *Components) OfPod(pod string) string {
	workload, last, ok := cutLastDash(pod)
	if !ok || len(last) != 5 && strings.Trim(last, "0123456789") != "" {
		return ""
	}
	if known, ok := c.byWorkload[workload]; ok {
		return known.name
	}
	// The name of a Deployment's pod also contains the hash of its ReplicaSet.
	if workload, hash, ok := cutLastDash(workload); ok && len(hash) >= 6 && len(hash) <= 10 {
		return c.byWorkload[workload].name
	}
	return ""
}

func cutLastDash(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
