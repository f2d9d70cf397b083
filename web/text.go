package web

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
)

func formatTime(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func formatAgo(now, t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + formatDuration(-d)
	}
	return formatDuration(d) + " ago"
}

// formatDuration formats a duration with at most two units.
func formatDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// formatBrief formats a duration for a narrow column. From one minute on it omits seconds.
func formatBrief(d time.Duration) string {
	if d >= time.Minute && d < time.Hour {
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return formatDuration(d)
}

func humanBytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, units := float64(n)/1024, "KMGTPE"
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// agoTime formats the time from t to now as an HTML element. The script of the page updates the element.
func agoTime(now, t time.Time) template.HTML { return timeElement(t, "ago", formatAgo(now, t)) }

// sinceTime formats the time from t to now like agoTime, but without "ago".
func sinceTime(now, t time.Time) template.HTML {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	return timeElement(t, "since", formatBrief(max(0, now.Sub(t))))
}

func whenTime(t time.Time) template.HTML { return timeElement(t, "", formatTime(t)) }

func timeElement(t time.Time, kind, text string) template.HTML {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	attribute := ""
	if kind != "" {
		attribute = fmt.Sprintf(` data-%s title="%s"`, kind, formatTime(t))
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s"%s>%s</time>`, t.UTC().Format(time.RFC3339), attribute, text)) //nolint:gosec // the text consists only of times
}

func pluralWord(n int64, word string) string { return text.PluralNoun(n, word) }

// capitalise returns s with an upper-case first letter. Letters other than ASCII stay unchanged.
func capitalise(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

func stateText(s string) string {
	texts := map[string]string{"held": "on hold", string(episodes.StateUnwatched): "not watched any more"}
	return cmp.Or(texts[s], s)
}

// codeText returns text as HTML. The parts between backquotes become code elements.
func codeText(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if part = template.HTMLEscapeString(part); i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // its parts are escaped
}

// formatCount formats a count in at most four characters.
func formatCount(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return strconv.FormatInt(n/1000, 10) + "k"
	case n < 1_000_000_000:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	}
	return strconv.FormatInt(n/1_000_000_000, 10) + "G"
}

func formatRate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.1:
		return "<0.1"
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	}
	return formatCount(int64(perSecond + 0.5))
}

// longName is the minimum number of characters in a CamelCase name that may have line breaks.
const longName = 24

// breakableName returns a CamelCase name as HTML. If the name is long, the HTML allows line breaks between its words.
func breakableName(name string) template.HTML {
	if len(name) <= longName {
		return template.HTML(template.HTMLEscapeString(name)) //nolint:gosec // the name is escaped
	}
	var b strings.Builder
	from := 0
	for i := 1; i < len(name); i++ {
		if isUpper(name[i]) && !isUpper(name[i-1]) {
			b.WriteString(template.HTMLEscapeString(name[from:i]) + "<wbr>")
			from = i
		}
	}
	b.WriteString(template.HTMLEscapeString(name[from:]))
	return template.HTML(b.String()) //nolint:gosec // the parts are escaped
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
