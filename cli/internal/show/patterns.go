package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"crowsnest/discover"
	"crowsnest/internal/text"
	"crowsnest/redact"
)

// maxWidth is the number of characters of a line that are shown.
const maxWidth = 300

const shownVariants = 2

// Patterns writes what discover found; why adds how each pattern was scored.
func Patterns(w io.Writer, r discover.Report, why bool) error {
	for i, p := range r.Patterns {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, "     "+format+"\n", args...) }
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%3d. %s\n", i+1, shown(p.Template))
		if p.Error != "" {
			line("error: %s", shown(p.Error))
		}
		streams := text.Plural(int64(p.Streams), "stream")
		if p.MoreStreams {
			streams = fmt.Sprintf("%d or more streams", p.Streams)
		}
		line("%s; %s in %s%s", p.Level, text.Plural(p.Count, "line"), streams, seen(p))
		if why {
			line("%.1f points: %s", p.Score, strings.Join(p.Why, ", "))
		}
		for _, v := range p.Variants[:min(len(p.Variants), shownVariants)] {
			line("also, %s: %s", text.Plural(v.Count, "line"), shown((v.Template + ": " + v.Error).Map(func(s string) string { return strings.TrimSuffix(s, ": ") })))
		}
		if n := len(p.Variants) - shownVariants; n > 0 {
			line("also, in %s", text.Plural(int64(n), "more form"))
		}
		line("%s:%d: %s", p.Input, p.LineNumber, shown(p.Example))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// seen formats the period of a pattern; "" if its lines have no timestamps.
func seen(p discover.Pattern) string {
	switch {
	case p.First == nil:
		return ""
	case p.First.Equal(*p.Last):
		return "; " + p.First.Format(time.RFC3339)
	}
	return "; " + p.First.Format(time.RFC3339) + " to " + p.Last.Format(time.RFC3339)
}

// shown formats text of a log for one line of a terminal.
func shown(line redact.Text) string {
	text := string(redact.Sanitise(line))
	if runes := []rune(text); len(runes) > maxWidth {
		text = string(runes[:maxWidth]) + "..."
	}
	return text
}
