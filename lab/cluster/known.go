package cluster

import (
	"slices"
	"strings"
	"unicode"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/selector"
	"crowsnest/sources/kubernetes"
)

// known finds the containers and namespaces that the rules are about.
type known struct {
	trusted    *rules.Namespaces
	components *namespaces.Components
	selectors  []selector.Selector
	// packs are the names of packs with a rule that selects every container. They are about the
	// containers with such a name as a word in their name, image, app or workload.
	packs []string
}

// anybody are the labels of a container that no rule is about.
var anybody = matcher.Labels{
	"namespace": "-", "pod": "-", "container": "-", "node_name": "-", "image": "-", "app": "-", "workload": "-",
}

// newKnown collects from a set of rules which containers they are about. It ignores selectors
// that select every container, and rules that apply only to the infrastructure.
func newKnown(set *rules.Set) *known {
	k := &known{trusted: set.Namespaces, components: namespaces.NewComponents()}
	have := map[string]bool{}
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff || r.LineOrigin() == rules.OriginInfrastructure {
			continue
		}
		for _, step := range r.Steps {
			name, generic := step.From.String(), step.From.Matches(anybody, false)
			switch {
			case generic && !slices.Contains(k.packs, r.Pack):
				k.packs = append(k.packs, r.Pack)
			case !generic && !have[name]:
				have[name] = true
				k.selectors = append(k.selectors, step.From)
			}
		}
	}
	return k
}

// runsComponent reports whether the container runs a component that a rule is about.
func (k *known) runsComponent(c kubernetes.Recorded) bool {
	if k.trusted.Has(c.Namespace) || k.components.OfPod(c.Pod) != "" {
		return true
	}
	for _, s := range k.selectors {
		if s.Matches(c.Labels, false) {
			return true
		}
	}
	words := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, name := range []string{"container", "image", "app", "workload"} {
		for word := range strings.FieldsFuncSeq(c.Labels[name], words) {
			if slices.Contains(k.packs, word) {
				return true
			}
		}
	}
	return false
}
