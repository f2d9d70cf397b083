package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// maxWidth is the maximum number of characters that are shown of a line.
const maxWidth = 300

const shownVariants = 2

// WritePatterns writes the patterns that discover found. why adds how each pattern was scored.
func WritePatterns(w io.Writer, r discover.Report, why bool) error {
	for i, p := range r.Patterns {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, "     "+format+"\n", args...) }
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%3d. %s\n", i+1, shownLine(p.Template))
		if p.Error != "" {
			line("error: %s", shownLine(p.Error))
		}
		streams := text.Plural(int64(p.Streams), "stream")
		if p.MoreStreams {
			streams = fmt.Sprintf("%d or more streams", p.Streams)
		}
		line("%s; %s in %s%s", p.Level, text.Plural(p.Count, "line"), streams, seenPeriod(p))
		if why {
			line("%.1f points: %s", p.Score, strings.Join(p.Why, ", "))
		}
		for _, v := range p.Variants[:min(len(p.Variants), shownVariants)] {
			line("also, %s: %s", text.Plural(v.Count, "line"), shownLine((v.Template + ": " + v.Error).Map(func(s string) string { return strings.TrimSuffix(s, ": ") })))
		}
		if n := len(p.Variants) - shownVariants; n > 0 {
			line("also, in %s", text.Plural(int64(n), "more form"))
		}
		line("%s:%d: %s", p.Input, p.LineNumber, shownLine(p.Example))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// seenPeriod formats the period of a pattern; "" if its lines have no timestamps.
func seenPeriod(p discover.Pattern) string {
	switch {
	case p.First == nil:
		return ""
	case p.First.Equal(*p.Last):
		return "; " + p.First.Format(time.RFC3339)
	}
	return "; " + p.First.Format(time.RFC3339) + " to " + p.Last.Format(time.RFC3339)
}

// shownLine returns text of a log as one line for a terminal.
func shownLine(line redact.Text) string {
	text := string(redact.Sanitise(line))
	if runes := []rune(text); len(runes) > maxWidth {
		text = string(runes[:maxWidth]) + "..."
	}
	return text
}
