package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

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
	lines := map[string]int64{} // by namespace
	names := map[string][]string{}
	for x, n := range r.Ignored {
		lines[x.Namespace] += n
		names[x.Namespace] = append(names[x.Namespace], x.Rule)
	}
	type ignored struct {
		namespace string
		lines     int64
	}
	var all []ignored
	for namespace, n := range lines {
		all = append(all, ignored{namespace, n})
	}
	slices.SortFunc(all, func(a, b ignored) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.namespace, b.namespace))
	})
	for _, x := range all[:min(len(all), maxIgnored)] {
		rs := names[x.namespace]
		slices.Sort(rs)
		more := ""
		if n := len(rs) - maxIgnoredRules; n > 0 {
			more = fmt.Sprintf(" and %d more rules", n)
		}
		fix := ""
		if namespaces.Check("+"+x.namespace) == nil {
			fix = "; to include it: --infrastructure-namespaces=+" + x.namespace
		}
		fmt.Fprintf(w, "ignored %d lines of namespace %s for %s%s: it is not an infrastructure namespace%s\n",
			x.lines, redact.Sanitise(x.namespace), strings.Join(rs[:min(len(rs), maxIgnoredRules)], ", "), more, fix)
	}
	if n := len(all) - maxIgnored; n > 0 {
		fmt.Fprintf(w, "ignored lines of %d more namespaces; to include all: --infrastructure-namespaces='*'\n", n)
	}
}
