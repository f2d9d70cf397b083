package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"

	"crowsnest/internal/text"
)

// when formats a time for people; "never" for the zero time.
func when(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// ago formats the distance from t to now.
func ago(now, t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// span formats a duration with at most two units.
func span(d time.Duration) string {
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

// brief formats a duration for a narrow column: without seconds from a minute on.
func brief(d time.Duration) string {
	if d >= time.Minute && d < time.Hour {
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return span(d)
}

// humanBytes formats a size with a binary unit.
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

// agoTime formats the distance from t to now as an element that the script keeps up to date.
func agoTime(now, t time.Time) template.HTML { return timeElement(t, "ago", ago(now, t)) }

// sinceTime is agoTime without "ago".
func sinceTime(now, t time.Time) template.HTML {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	return timeElement(t, "since", brief(max(0, now.Sub(t))))
}

// whenTime formats a time as an element.
func whenTime(t time.Time) template.HTML { return timeElement(t, "", when(t)) }

func timeElement(t time.Time, kind, text string) template.HTML {
	if t.IsZero() || t.Unix() <= 0 {
		return "never"
	}
	attribute := ""
	if kind != "" {
		attribute = fmt.Sprintf(` data-%s title="%s"`, kind, when(t))
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s"%s>%s</time>`, t.UTC().Format(time.RFC3339), attribute, text)) //nolint:gosec // made of times only
}

// plural returns a word with an s unless there is one.
func plural(n int64, word string) string { return text.Noun(n, word) }

// capital returns a text with its first letter in upper case, if that is a letter of ASCII.
func capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// stateText formats a state for people.
func stateText(s string) string {
	switch s {
	case "held":
		return "on hold"
	case string(episodes.StateUnwatched):
		return "not watched any more"
	}
	return s
}

// codeText returns a text as HTML in which what is between backquotes is code.
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

// number formats a count in at most four characters.
func number(n int64) string {
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

// rate formats lines per second.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.1:
		return "<0.1"
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	}
	return number(int64(perSecond + 0.5))
}

// longName is from how many characters on a name in CamelCase may have line breaks.
const longName = 24

// breakable allows line breaks between the words of a long name in CamelCase.
func breakable(name string) template.HTML {
	if len(name) <= longName {
		return template.HTML(template.HTMLEscapeString(name)) //nolint:gosec // escaped
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
	return template.HTML(b.String()) //nolint:gosec // its parts are escaped
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
