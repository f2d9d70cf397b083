package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

func describe(eps []episodes.Episode) string {
	if len(eps) == 0 {
		return "none"
	}
	out := make([]string, len(eps))
	for i, x := range eps {
		out[i] = fmt.Sprintf("%s starts_at=%s value=%d", text.Labels(x.Labels), x.StartsAt.Sub(testStart), x.Count)
		if !x.EndsAt.IsZero() {
			out[i] += fmt.Sprintf(" ends_at=%s (%s)", x.EndsAt.Sub(testStart), x.Reason)
		}
	}
	return strings.Join(out, "\n            ")
}

func describeExpected(want []rules.ExpectedAlert) string {
	if len(want) == 0 {
		return "none"
	}
	out := make([]string, len(want))
	for i, w := range want {
		out[i] = text.Labels(w.Labels)
		if w.StartsAt != nil {
			out[i] += fmt.Sprintf(" starts_at=%s", *w.StartsAt)
		}
		if w.Value != nil {
			out[i] += fmt.Sprintf(" value=%d", *w.Value)
		}
		if w.EndsAt != nil {
			out[i] += fmt.Sprintf(" ends_at=%s", *w.EndsAt)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Annotations)) {
			out[i] += fmt.Sprintf(" annotation %s=%q", name, w.Annotations[name])
		}
	}
	return strings.Join(out, "\n            ")
}
