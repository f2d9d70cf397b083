// Package components is the table of the programs and libraries whose texts rules match:
// under which images they run, and where their sources are.
package components

import (
	_ "embed" // the table
	"fmt"
	"slices"
	"strings"
	"sync"

	"crowsnest/rules/versions"
	"crowsnest/strictyaml"
)

//go:embed components.yaml
var text []byte

// Component is a program, or a library that is part of several programs.
type Component struct {
	Name string `yaml:"name" strict:"required"`
	// Images are whole components of repository paths, as in `affects`, of the images whose
	// tag is the component's version. A library has none.
	Images  []string `yaml:"images"`
	Sources []Source `yaml:"sources" strict:"required"`
	// Coverage is the name of the page in docs/coverage, "" if it is that of the component.
	Coverage string `yaml:"coverage"`
}

// Source is a Git repository that has texts of a component.
type Source struct {
	Repo string `yaml:"repo" strict:"required"` // OWNER/NAME on GitHub
	// Paths are the folders and files that have the texts. None means all of the repository.
	Paths []string `yaml:"paths"`
}

// All returns the table in the order of names. The caller must not change it.
var All = sync.OnceValue(func() []Component {
	var file struct {
		Components []Component `yaml:"components"`
	}
	if problems := strictyaml.Decode("components.yaml", text, &file, strictyaml.Options{}); len(problems) > 0 {
		panic(problems.Error()) // the table is part of the program, and a test reads it
	}
	slices.SortFunc(file.Components, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	return file.Components
})

// Find returns the component of that name.
func Find(name string) (Component, bool) {
	i, known := slices.BinarySearchFunc(All(), name, func(c Component, name string) int { return strings.Compare(c.Name, name) })
	if !known {
		return Component{}, false
	}
	return All()[i], true
}

// Running returns the versions of the components that run these images, which are their tags
// in order: map[string][]string{"kubelet": {"v1.33.4", "v1.34.1"}}. An image without a tag has
// the version "".
func Running(images []string) map[string][]string {
	out := map[string][]string{}
	for _, image := range images {
		for _, c := range All() {
			if tag, ok := versions.Tag(image, c.Images); ok && !slices.Contains(out[c.Name], tag) {
				out[c.Name] = append(out[c.Name], tag)
			}
		}
	}
	for _, tags := range out {
		slices.Sort(tags)
	}
	return out
}

// Nearest returns what to write instead of a name that is not in the table.
func Nearest(name string) string {
	var names, near []string
	for _, c := range All() {
		names = append(names, c.Name)
	}
	if best := strictyaml.Closest(name, names); best != "" {
		near = append(near, best)
	}
	for _, n := range names {
		if len(name) > 2 && strings.Contains(n, name) && len(near) < 5 && !slices.Contains(near, n) {
			near = append(near, n)
		}
	}
	if len(near) == 0 {
		return "use one of " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
}
