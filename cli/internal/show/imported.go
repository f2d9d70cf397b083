package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"crowsnest/importer"
	"crowsnest/internal/text"
)

// WriteImported writes the outcome of each rule of an import, and a summary.
func WriteImported(w io.Writer, r importer.Result) error {
	var b strings.Builder
	for _, o := range r.Outcomes {
		name := cmp.Or(o.ID, o.Title)
		if o.Title != "" && o.Title != name {
			name += " (" + o.Title + ")"
		}
		place := o.File
		if o.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", o.File, o.Line, max(o.Column, 1))
		}
		fmt.Fprintf(&b, "%-9s  %s", o.Status, place)
		if name != "" {
			fmt.Fprintf(&b, ": %s", name)
		}
		if o.Alert != "" {
			fmt.Fprintf(&b, " -> %s", o.Alert)
		}
		b.WriteByte('\n')
		for _, reason := range o.Reasons {
			fmt.Fprintf(&b, "           %s\n", text.Truncate(reason, maxReason))
		}
	}
	fmt.Fprintf(&b, "%s converted, %d with a warning, %d refused, %s skipped; %s\n",
		text.Plural(int64(r.Count(importer.Converted)), "rule"), r.Count(importer.Warned), r.Count(importer.Refused), text.Plural(int64(r.Count(importer.Skipped)), "file"), text.Plural(int64(len(r.Packs)), "pack"))
	_, err := io.WriteString(w, b.String())
	return err
}

// maxReason is the maximum size of a reason, in bytes.
const maxReason = 1000
