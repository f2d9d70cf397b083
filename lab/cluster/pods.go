package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"crowsnest/kube"
	"crowsnest/sources/kubernetes"
	"crowsnest/sources/objects"
)

var podsOf = objects.Resource{Path: "/api/v1/pods", APIVersion: "v1", Kind: "Pod", Namespaced: true}

// findPods lists the pods, selects namespaces, and keeps the pods of these and their logs.
func (d *download) findPods(ctx context.Context) error {
	f, err := os.CreateTemp(d.Dir, "pods-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	p := &podList{f: f}
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
		d.unseen.failed("pods", "", fmt.Sprintf("%d cannot be read", p.bad))
	}
	if !d.Until.IsZero() {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.keepPods(f)
}

// listPods lists the pods of all namespaces, or of those that the person names or may list.
func (d *download) listPods(ctx context.Context, p *podList) error {
	names := d.Namespaces
	if len(names) == 0 {
		err := d.list(ctx, podsOf, "", p.add)
		if d.wide = err == nil; d.wide {
			return nil
		}
		if kube.Code(err) != http.StatusForbidden {
			return explain(err)
		}
		names = d.candidates(ctx)
	}
	var mu sync.Mutex
	refused := map[string]error{}
	each(len(names), func(i int) {
		err := d.list(ctx, podsOf, names[i], p.add)
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

// judgeRefused notes the namespaces whose pods cannot be listed. It returns an error if there
// are no others.
func (d *download) judgeRefused(names []string, refused map[string]error) error {
	const rights = `{apiGroups: [""], resources: [pods], verbs: [list]}, {apiGroups: [""], resources: [pods/log], verbs: [get]}`
	if len(d.selected) == 0 {
		for _, name := range names {
			if err := refused[name]; kube.Code(err) != http.StatusForbidden {
				return explain(err)
			}
		}
		return fmt.Errorf("pods of %s cannot be listed: %s; a role needs %s; name a namespace that you may read with -n", someOf(names), forbidden, rights)
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		err := refused[name]
		switch {
		case len(d.Namespaces) > 0:
			why := explain(err).Error()
			if kube.Code(err) == http.StatusForbidden {
				why = forbidden
			}
			d.unseen.note(Unseen{What: "pods and logs of namespace", Why: why, Rule: rights, Failed: true}, name)
		case kube.Code(err) != http.StatusForbidden:
			d.unseen.failed("pods and logs of namespace", name, explain(err).Error())
		}
	}
	if len(d.Namespaces) == 0 {
		d.unseen.add("pods and logs of other namespaces", "", forbidden, "a ClusterRole with "+rights)
	}
	return nil
}

// someOf names the first of a list.
func someOf(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more namespaces", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// candidates returns the namespaces that are tried if not all can be read at once: all, if
// their names may be listed.
func (d *download) candidates(ctx context.Context) []string {
	var names []string
	err := d.list(ctx, objects.Resource{Path: "/api/v1/namespaces"}, "", func(in json.RawMessage) error {
		names = append(names, named(in).Name)
		return nil
	})
	if err == nil {
		return names
	}
	names = []string{d.Home}
	for _, name := range d.Set.Namespaces.List() {
		if name != d.Home && !strings.ContainsRune(name, '*') && name[0] != '-' {
			names = append(names, name)
		}
	}
	return names
}

// selectNamespaces decides of which namespaces logs and objects are read.
func (d *download) selectNamespaces(p *podList) {
	if len(d.Namespaces) > 0 {
		return
	}
	may, knows := d.selected, newKnown(d.Set)
	d.selected = map[string]bool{}
	for namespace := range may {
		if d.All || namespace == d.Home || d.Set.Namespaces.Has(namespace) {
			d.selected[namespace] = true
		}
	}
	for _, c := range p.containers {
		if !d.selected[c.Namespace] && (d.All || knows.runs(c)) {
			d.selected[c.Namespace] = true
		}
	}
}

// keepPods writes the pods of the selected namespaces.
func (d *download) keepPods(pods io.Reader) error {
	out := &objectFile{dir: d.Dir, name: "pods", of: podsOf}
	in := json.NewDecoder(pods)
	for {
		var raw json.RawMessage
		err := in.Decode(&raw)
		if err == nil && d.selected[named(raw).Namespace] {
			err = out.add(raw)
		}
		if errors.Is(err, io.EOF) {
			return out.close()
		}
		if err != nil {
			return errors.Join(err, out.close())
		}
	}
}

// podList is the pods of a list, with copies in a file. It is safe for concurrent use.
type podList struct {
	f *os.File

	mu         sync.Mutex
	containers []kubernetes.Recorded
	bad        int
}

func (p *podList) add(in json.RawMessage) error {
	all, err := kubernetes.ReadPod(in)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.bad++
		return nil
	}
	p.containers = append(p.containers, all...)
	_, err = p.f.Write(append(in, '\n'))
	return err
}
