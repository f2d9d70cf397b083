package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"

	"crowsnest/internal/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/selector"
	"crowsnest/sources/kubernetes"
	"crowsnest/sources/objects"
)

// findPods lists the pods, selects namespaces, and adds the logs of the pods in them.
func (d *download) findPods(ctx context.Context) error {
	p := &podList{}
	if err := d.listPods(ctx, p); err != nil {
		return err
	}
	d.selectNamespaces(p)
	for _, c := range p.containers {
		if d.selected[c.Namespace] {
			d.addLogs(c)
		}
	}
	if p.bad > 0 {
		d.unseen.addFailed("pods", "", fmt.Sprintf("%d cannot be read", p.bad))
	}
	return nil
}

// listPods lists the pods of all namespaces if the user may do so. Otherwise it lists the pods of each namespace that
// the user named or may read.
func (d *download) listPods(ctx context.Context, p *podList) error {
	names := d.Namespaces
	if len(names) == 0 {
		err := d.listObjects(ctx, coreResources["pods"], "", p.add)
		if d.allNamespaces = err == nil; d.allNamespaces {
			return nil
		}
		if kube.StatusCode(err) != http.StatusForbidden {
			return explainError(err)
		}
		names = d.candidateNamespaces(ctx)
	}
	var mu sync.Mutex
	refused := map[string]error{}
	runConcurrently(len(names), func(i int) {
		err := d.listObjects(ctx, coreResources["pods"], names[i], p.add)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			refused[names[i]] = err
		} else {
			d.selected[names[i]] = true
		}
	})
	return d.judgeRefused(names, refused)
}

// judgeRefused records the namespaces to which access was refused. It returns an error if access to all was refused.
func (d *download) judgeRefused(names []string, refused map[string]error) error {
	const rights = `{apiGroups: [""], resources: [pods], verbs: [list]}, {apiGroups: [""], resources: [pods/log], verbs: [get]}`
	if len(d.selected) == 0 {
		for _, name := range names {
			if err := refused[name]; kube.StatusCode(err) != http.StatusForbidden {
				return explainError(err)
			}
		}
		return fmt.Errorf("pods of %s cannot be listed: %s; a role needs %s; name a namespace that you may read with -n", nameFirst(names), forbidden, rights)
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		err := refused[name]
		switch {
		case len(d.Namespaces) > 0:
			why := explainError(err).Error()
			if kube.StatusCode(err) == http.StatusForbidden {
				why = forbidden
			}
			d.unseen.addName(UnreadGroup{Kind: "pods and logs of namespace", Reason: why, Rule: rights, Failed: true}, name)
		case kube.StatusCode(err) != http.StatusForbidden:
			d.unseen.addFailed("pods and logs of namespace", name, explainError(err).Error())
		}
	}
	if len(d.Namespaces) == 0 {
		d.unseen.addOptional("pods and logs of other namespaces", "", forbidden, "a ClusterRole with "+rights)
	}
	return nil
}

func nameFirst(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more namespaces", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// candidateNamespaces returns the namespaces to try if the pods of all namespaces cannot be listed at once. These are
// all namespaces if their names may be listed, and otherwise likely names.
func (d *download) candidateNamespaces(ctx context.Context) []string {
	var names []string
	err := d.listObjects(ctx, objects.Resource{Path: "/api/v1/namespaces"}, "", func(in json.RawMessage) error {
		names = append(names, decodeIdentity(in).Metadata.Name)
		return nil
	})
	if err == nil {
		return names
	}
	names = []string{d.LikelyNamespace}
	for _, name := range d.Set.Namespaces.List() {
		if name != d.LikelyNamespace && !strings.ContainsRune(name, '*') && name[0] != '-' {
			names = append(names, name)
		}
	}
	return names
}

func (d *download) selectNamespaces(p *podList) {
	if len(d.Namespaces) > 0 {
		return
	}
	may, knows := d.selected, newKnown(d.Set)
	d.selected = map[string]bool{}
	for namespace := range may {
		if d.All || namespace == d.LikelyNamespace || d.Set.Namespaces.Has(namespace) {
			d.selected[namespace] = true
		}
	}
	for _, c := range p.containers {
		if !d.selected[c.Namespace] && (d.All || knows.runsComponent(c)) {
			d.selected[c.Namespace] = true
		}
	}
}

// podList collects the containers of listed pods. It is safe for concurrent use.
type podList struct {
	mu         sync.Mutex
	containers []kubernetes.RecordedContainer
	bad        int
}

func (p *podList) add(in json.RawMessage) error {
	all, err := kubernetes.ReadPod(in)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.bad++
	}
	p.containers = append(p.containers, all...)
	return nil
}

type knownComponents struct {
	trusted    *rules.Namespaces
	components *namespaces.Components
	selectors  []selector.Selector
	// packs contains the names of packs with a rule that selects every container. Such a pack is about the containers
	// that have the name of the pack as a word in their name, image, app or workload.
	packs []string
}

var anybody = matcher.Labels{
	"namespace": "-", "pod": "-", "container": "-", "node_name": "-", "image": "-", "app": "-", "workload": "-",
}

// newKnown determines which containers the rules of a set are about. It ignores selectors that select every container,
// and rules for infrastructure only.
func newKnown(set *rules.Set) *knownComponents {
	k := &knownComponents{trusted: set.Namespaces, components: namespaces.NewComponents()}
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

func (k *knownComponents) runsComponent(c kubernetes.RecordedContainer) bool {
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
