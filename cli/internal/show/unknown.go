package show

import (
	"fmt"
	"io"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/sentinel"
)

// Unknown writes failures that no rule describes. With after, something was written
// before.
func Unknown(w io.Writer, all []sentinel.Unknown, after bool) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	if after {
		b.WriteString("\n")
	}
	b.WriteString("Unknown failures: complaints that no rule takes for one\n")
	for i := range all {
		u := &all[i]
		fmt.Fprintf(&b, "\n%s in %s\n", strings.ToUpper(u.Why), flat(u.Name()))
		field := func(name, value string) {
			if value != "" {
				fmt.Fprintf(&b, "  %-*s %s\n", width, name, value)
			}
		}
		field("pattern", flat(u.Pattern))
		for _, also := range u.Also {
			field("also", flat(also))
		}
		field("about", flat(u.Object))
		field("where", flat(strings.Join(u.Pods, ", ")))
		seen := noTime
		if !u.Since.IsZero() {
			seen = fmt.Sprintf("%s, last seen %s", stamp(u.Since), stamp(u.Last))
		}
		field("since", seen+", at least "+text.Plural(u.Count, "line"))
		for _, e := range u.Examples {
			if e != u.Pattern {
				field("example", flat(e))
			}
		}
	}
	b.WriteString("\n`crowsnest discover` ranks all complaints, and its flag --rules-out writes rules for them.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
