package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"crowsnest/episodes"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/sinks"
)

// Limits of the texts of an alert, in bytes unless stated otherwise.
const (
	MaxValue       = 256     // largest length of a label value
	MaxAnnotation  = 2 << 10 // largest length of an annotation or of a log line
	MaxExcerpt     = 300     // largest length of an error text of a receiver
	maxAnnotations = 40
	maxExternal    = 10 // largest number of external labels
)

// Labels returns a copy of an alert's labels, made harmless to display, with the external labels that the alert lacks.
// It omits labels that cannot be sent. A missing label does no harm, because these receivers identify an alert by its
// fingerprint. Alertmanager identifies an alert by its labels, so the sink for Alertmanager does not use this function.
func Labels(own, external map[string]string) map[string]string {
	out := make(map[string]string, len(own)+len(external))
	for _, from := range []map[string]string{external, own} {
		for name, value := range from {
			if model.LegacyValidation.IsValidLabelName(name) && value != "" {
				out[name] = Truncate(neutralLine(value), MaxValue)
			}
		}
	}
	return out
}

// Annotations returns a copy of an alert's annotations, made harmless to display and limited in size. If the
// annotations are too large together, it omits the least important ones, because people can use an alert that lacks
// some annotations.
func Annotations(in map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.SortedFunc(maps.Keys(in), byImportance) {
		if in[name] != "" && model.LegacyValidation.IsValidLabelName(name) && len(name) <= MaxValue && len(out) < maxAnnotations {
			out[name] = Truncate(annotationText(name, in[name]), MaxAnnotation)
		}
	}
	return out
}

func byImportance(a, b string) int {
	first := map[string]int{"summary": -5, "description": -4, "runbook_url": -3, "remediation": -2, "affected": -1}
	return cmp.Or(cmp.Compare(first[a], first[b]), cmp.Compare(a, b))
}

// annotationText removes text that could do harm on a screen or in a chat, such as mentions of people, because a part
// of an annotation may come from a log line. Links and code of the rule itself stay. Captured values need no treatment,
// because they were made harmless when the text was rendered.
func annotationText(name, s string) string {
	switch {
	case strings.HasSuffix(name, "_url"):
		return CleanLines(s)
	case name == "line" || name == "first_line":
		return Line(s)
	}
	return redact.DefuseMentions(CleanLines(s))
}

// CleanLines makes a text of several lines harmless to display. Each line of the result is valid UTF-8 without control
// characters, escape sequences, bidirectional controls and invisible characters.
func CleanLines(s string) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, redact.Sanitise(line))
	}
	return strings.Join(lines, "\n")
}

// neutralLine returns one line in which links and Markdown have no effect.
func neutralLine(s string) string { return redact.DefuseLinks(redact.Sanitise(s)) }

// Line returns a log line, made harmless to display and limited in length.
func Line[T ~string](line T) string { return Truncate(neutralLine(string(line)), MaxAnnotation) }

// Truncate shortens s to at most n bytes of valid UTF-8, with an ellipsis at a rune boundary.
func Truncate(s string, n int) string {
	const more = "…"
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return text.Truncate(s, n-len(more)) + more
}

// Excerpt returns the text of a receiver as one printable line of at most MaxExcerpt bytes.
func Excerpt(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) }), " ")
	return Truncate(s, MaxExcerpt)
}

// CheckLabels returns every problem of the labels that are configured under key. reserved are
// names that are not allowed.
func CheckLabels(key string, labels map[string]string, reserved ...string) error {
	var errs []error
	if len(labels) > maxExternal {
		errs = append(errs, fmt.Errorf("%s: %d given, at most %d are sent", key, len(labels), maxExternal))
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		switch {
		case !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__"):
			errs = append(errs, fmt.Errorf("%s: %q is not a label name; use letters, digits and single _", key, name))
		case slices.Contains(reserved, name):
			errs = append(errs, fmt.Errorf("%s: %s is set by crowsnest; use another name", key, name))
		case value == "" || len(value) > MaxValue || !utf8.ValidString(value):
			errs = append(errs, fmt.Errorf("%s: the value of %s must be 1 to %d bytes of UTF-8", key, name, MaxValue))
		}
	}
	return errors.Join(errs...)
}

// CheckShared returns every problem of the settings that all sinks over HTTP share.
func CheckShared(externalURL string, http httpconfig.Config) error {
	var errs []error
	if externalURL != "" {
		if _, err := httpconfig.BaseURL(externalURL, "https://crowsnest.example.org"); err != nil {
			errs = append(errs, fmt.Errorf("external_url: %w", err))
		}
	}
	if err := http.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

// Event returns the event that a message reports: opened, updated or resolved.
func Event(m sinks.Message) string {
	switch {
	case m.Resolved:
		return "resolved"
	case !m.New:
		return "updated"
	}
	return "opened"
}

// Link returns the address of crowsnest's page about an episode. It returns "" if externalURL
// is empty, because an Alertmanager refuses a whole request that contains one invalid URI.
func Link(externalURL string, fp episodes.Fingerprint) string {
	if externalURL == "" {
		return ""
	}
	return externalURL + "/episodes/" + fp.String()
}

// Pack returns the name of the pack of an episode's rule, or "" if there is none.
func Pack(ep episodes.Episode) string {
	if ep.Rule == nil {
		return ""
	}
	return ep.Rule.Pack
}
