package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules/namespaces"
)

// Bounds on the namespaces, and the rules of each, that reportIgnored names.
const (
	maxIgnored      = 10
	maxIgnoredRules = 3
)

// reportIgnored reports matching lines that were ignored because they do not come
// from an infrastructure namespace.
func reportIgnored(w io.Writer, r replay.Report) {
	lines := map[string]int64{} // lines of each namespace
	names := map[string][]string{}
	for x, n := range r.Ignored {
		lines[x.Namespace] += n
		names[x.Namespace] = append(names[x.Namespace], x.Rule)
	}
	all := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b))
	})
	for _, namespace := range all[:min(len(all), maxIgnored)] {
		rs := slices.Sorted(slices.Values(names[namespace]))
		more := ""
		if n := len(rs) - maxIgnoredRules; n > 0 {
			more = " and " + text.Plural(n, "more rule")
		}
		fix := ""
		if namespaces.Check("+"+namespace) == nil {
			fix = "; to include it: --infrastructure-namespaces=+" + namespace + ", and in the configuration rules.infrastructure_namespaces: [+" + namespace + "]"
		}
		fmt.Fprintf(w, "ignored %s of namespace %s for %s%s: it is not an infrastructure namespace%s\n",
			text.Plural(int64(lines[namespace]), "line"), redact.Sanitise(namespace), strings.Join(rs[:min(len(rs), maxIgnoredRules)], ", "), more, fix)
	}
	if n := len(all) - maxIgnored; n > 0 {
		fmt.Fprintf(w, "ignored lines of %s; to include all: --infrastructure-namespaces='*'\n", text.Plural(n, "more namespace"))
	}
}

// reportUnstated names the labels that the input does not state. The steps of failures
// show them as placeholders in upper case, so they cannot be run unchanged.
func reportUnstated(w io.Writer, r replay.Report) {
	failures, names := int64(0), map[string]bool{}
	note := func(x *episodes.Episode) {
		if x.Rule == nil {
			return
		}
		found := false
		for _, name := range x.Rule.By {
			if x.Labels[name] == "" && strings.Contains(x.Annotations["remediation"], strings.ToUpper(name)) {
				names[name], found = true, true
			}
		}
		if found {
			failures++
		}
	}
	for i := range r.Alerts {
		note(&r.Alerts[i].Episode)
	}
	for i := range r.Findings {
		if r.Findings[i].Doubt != replay.Recovered { // no steps are listed
			note(&r.Findings[i].Episode)
		}
	}
	if failures == 0 {
		return
	}
	var shown, flags []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		shown = append(shown, strings.ToUpper(name))
		flags = append(flags, "--label "+name+"=NAME")
	}
	fmt.Fprintf(w, "the steps of %s contain %s as placeholders, because the input does not state these labels: replace them before you run a step, or scan with %s\n",
		text.Plural(failures, "failure"), strings.Join(shown, " and "), strings.Join(flags, " "))
}
