// Package namespaces decides which log lines rules trust, by the namespaces in which the
// infrastructure runs. It also recognizes components by their workloads.
package namespaces

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// Set is the list of namespaces whose logs rules with `origin:
// infrastructure` read. It is immutable and safe for concurrent use. A nil list
// trusts every namespace.
type Set struct {
	names   map[string]bool
	globs   []string // patterns that contain a *
	removed []string // removed names and globs; they take precedence over names and globs
}

// maxEntries bounds the entries of a list.
const maxEntries = 1000

var namespaceEntry = lazyre.New(`^[+-]?[a-z0-9*]([a-z0-9*-]{0,61}[a-z0-9*])?$`)

// Parse parses a list of namespaces. An entry is a name or a glob in
// which * matches any text. `+NAME` adds to the built-in list, `-NAME` removes
// from the list and takes precedence over every other entry, and a plain NAME
// replaces the built-in list. An empty list is the built-in one. It is an error if
// no namespace remains.
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

// Check returns an error if an entry of a list is invalid. The text after
// the last "; " of the error is the fix.
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

// Has reports whether a namespace is in the list. The empty name is never in it.
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

// List returns the effective names and globs, sorted. If there are globs, the removed entries
// follow, each with a leading -.
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
		// A removed entry also removes a glob that is equal to it or that it includes.
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

// Patterns returns two regular expressions for a whole name. in matches every namespace of the
// list and the empty name. out matches the names that the list excludes from its globs, or is
// "" if there are none.
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

func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return matchGlob(g, name) })
}

// matchGlob matches a whole name. The text after the last * must end the name. Each of the
// other texts matches as early as possible.
func matchGlob(glob, name string) bool {
	first, rest, starred := strings.Cut(glob, "*")
	if !starred {
		return glob == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	texts := strings.Split(rest, "*")
	last := texts[len(texts)-1]
	for _, text := range texts[:len(texts)-1] {
		_, after, found := strings.Cut(name, text)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, last)
}

//go:embed infrastructure.txt
var infrastructureList string

// component is a program whose failures the shipped rules detect.
type component struct {
	namespaces []string // names and globs of the namespaces in which it runs
	name       string
	workloads  []string
}

// infrastructure returns the built-in list.
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
