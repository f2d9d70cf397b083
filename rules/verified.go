package rules

import (
	"fmt"
	"slices"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/components"
	"crowsnest/rules/versions"
)

// maxVerified is the maximum number of components in `verified` of one rule.
const maxVerified = 20

// VerifiedList is the written form of `verified`: none, a mapping, or a list of mappings.
type VerifiedList []VerifiedSyntax

// VerifiedSyntax states in which versions of a component the texts of a rule were found.
type VerifiedSyntax struct {
	Verified `yaml:",inline"`
	Keys     strictyaml.Keys `yaml:"-" json:"-"`
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (l *VerifiedList) DecodeYAML(n *strictyaml.Node) {
	switch {
	case n.Kind() == strictyaml.Scalar && n.Raw() == "none":
	case n.Kind() == strictyaml.Map:
		*l = make(VerifiedList, 1)
		n.Decode(&(*l)[0])
	case n.Kind() == strictyaml.List:
		n.Decode((*[]VerifiedSyntax)(l))
		if len(*l) == 0 {
			n.Error("empty-value", n.Name()+" is empty", "write none if the rule could not be verified")
		}
		if found := len(*l); found > maxVerified { // limits the memory, because every rule is compiled with all entries
			n.Error("too-many", fmt.Sprintf("%s has %d entries; allowed are 1 to %d", n.Name(), found, maxVerified), fmt.Sprintf("use at most %d entries", maxVerified))
			*l = nil
		}
	default:
		n.WrongType("none, a mapping, or a list of mappings", `write none, or {component: kubelet, versions: ">=1.33 <1.36"}`)
	}
}

func (r *report) checkVerified(list VerifiedList) {
	seen := map[string]bool{}
	for i := range list {
		v := &list[i]
		if v.Keys.IsDecoded("component") {
			at := v.Keys.Value("component")
			if _, known := components.Find(v.Component); !known {
				r.addError(at, "unknown-component", fmt.Sprintf("there is no component %.60q", v.Component), components.SuggestName(v.Component))
			} else if seen[v.Component] {
				r.addError(at, "duplicate-name", "`verified` has "+v.Component+" twice", "write one range, such as \">=1.9 <1.11 || >=1.12 <1.13\"")
			}
			seen[v.Component] = true
		}
		if v.Keys.IsDecoded("versions") {
			if err := versions.CheckBounded(v.Versions); err != nil {
				r.addInvalid(v.Keys.Value("versions"), v.Versions, "versions", "`versions`", err)
			}
		}
	}
}

// UnverifiedRelease is a running release of a component, with the rules that were not verified for that release.
type UnverifiedRelease struct {
	Component string
	Release   string   // major and minor version number
	Versions  []string // tags of the running images
	Rules     []*Rule
}

// Unverified compares the rules that are on with the running versions, which components.RunningVersions returns. It
// omits versions about which no rule states anything.
func (s *Set) Unverified(running map[string][]string) (out []UnverifiedRelease) {
	for _, r := range s.Rules {
		for _, v := range r.Verified {
			for _, tag := range running[v.Component] {
				if outside, _ := v.Outside(tag); !outside || r.Mode == ModeOff {
					continue
				}
				release := versions.Release(tag)
				i := slices.IndexFunc(out, func(u UnverifiedRelease) bool { return u.Component == v.Component && u.Release == release })
				if i < 0 {
					i = len(out)
					out = append(out, UnverifiedRelease{Component: v.Component, Release: release})
				}
				u := &out[i]
				if !slices.Contains(u.Versions, tag) {
					u.Versions = append(u.Versions, tag)
				}
				if !slices.Contains(u.Rules, r) {
					u.Rules = append(u.Rules, r)
				}
			}
		}
	}
	return out
}
