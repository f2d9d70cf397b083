// Package components is the table of the programs and libraries whose log texts rules match. Each entry has the names
// of the component's images and the locations of its source code.
package components

import (
	_ "embed" // embeds the table
	"fmt"
	"slices"
	"strings"
	"sync"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/versions"
)

//go:embed components.yaml
var text []byte

// Component is a program, or a library that is part of several programs.
type Component struct {
	Name string `yaml:"name" strict:"required"`
	// Images are the names of the images whose tag is the component's version. An entry is one or more whole path
	// components of a repository, as in `affects`. A library has no images.
	Images  []string `yaml:"images"`
	Sources []Source `yaml:"sources" strict:"required"`
	// Coverage is the name of the component's page in docs/coverage. The default is the component's name.
	Coverage string `yaml:"coverage"`
}

// Source is a Git repository that contains log texts of a component.
type Source struct {
	Repo string `yaml:"repo" strict:"required"` // OWNER/NAME on GitHub
	// Paths are the folders and files with the texts. An empty list means the whole repository.
	Paths []string `yaml:"paths"`
}

// All returns the table, sorted by name. The caller must not change it.
var All = sync.OnceValue(func() []Component {
	var file struct {
		Components []Component `yaml:"components"`
	}
	if problems := strictyaml.Decode("components.yaml", text, &file, strictyaml.Options{}); len(problems) > 0 {
		panic(problems.Error()) // the table is part of the program and a test parses it, so there is no error
	}
	slices.SortFunc(file.Components, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	return file.Components
})

// Find returns the component with that name.
func Find(name string) (Component, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Component{}, false
}

// RunningVersions returns the sorted versions of the components that run these images, such as
// map[string][]string{"kubelet": {"v1.33.4", "v1.34.1"}}. A version is the tag of an image. If an image has no tag, the
// version is "".
func RunningVersions(images []string) map[string][]string {
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

// SuggestName returns the fix for a component name that is not in the table.
func SuggestName(name string) string {
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
