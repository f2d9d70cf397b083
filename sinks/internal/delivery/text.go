package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"crowsnest/episodes"
	"crowsnest/httpconfig"
	"crowsnest/internal/text"
	"crowsnest/sinks"
)

// Bounds of what is sent of one alert, in bytes unless stated otherwise.
const (
	MaxValue       = 256     // a label value
	MaxAnnotation  = 2 << 10 // an annotation, a log line
	MaxExcerpt     = 300     // a peer's error text
	maxAnnotations = 40
	maxExternal    = 10 // labels
)

// Labels returns a copy of an alert's labels, harmless to show, and adds the
// external ones that it lacks. It omits labels that cannot be sent: unlike
// Alertmanager, the receiver identifies the alert by its fingerprint.
func Labels(own, external map[string]string) map[string]string {
	out := make(map[string]string, len(own)+len(external))
	for _, from := range []map[string]string{external, own} {
		for name, value := range from {
			if model.LegacyValidation.IsValidLabelName(name) && value != "" {
				out[name] = Truncate(sinks.NeutralLine(value), MaxValue)
			}
		}
	}
	return out
}

// Annotations returns a copy of an alert's annotations, harmless to show and
// bounded. It omits what cannot be sent, the least important names first:
// annotations are for people, so a part is better than nothing.
func Annotations(in map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.SortedFunc(maps.Keys(in), byImportance) {
		if in[name] != "" && model.LegacyValidation.IsValidLabelName(name) && len(name) <= MaxValue && len(out) < maxAnnotations {
			out[name] = Truncate(annotationText(name, in[name]), MaxAnnotation)
		}
	}
	return out
}

// byImportance compares names of annotations, the most important ones first.
func byImportance(a, b string) int {
	first := map[string]int{"summary": -5, "description": -4, "runbook_url": -3, "remediation": -2, "affected": -1}
	return cmp.Or(cmp.Compare(first[a], first[b]), cmp.Compare(a, b))
}

// annotationText removes what could do harm on a screen or in chat: parts of the
// text may come from a log line, which anybody may have written.
func annotationText(name, s string) string {
	switch {
	case strings.HasSuffix(name, "_url"):
		return sinks.Clean(s)
	case name == "line" || name == "first_line":
		return Line(s)
	}
	return sinks.Neutral(sinks.Clean(s))
}

// Line returns a log line harmless to show and bounded.
func Line[T ~string](line T) string { return Truncate(sinks.NeutralLine(string(line)), MaxAnnotation) }

// Truncate shortens s to at most n bytes of valid UTF-8, at a rune boundary, with an
// ellipsis in place of the rest.
func Truncate(s string, n int) string {
	const more = "…"
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return text.Truncate(s, n-len(more)) + more
}

// Excerpt returns one printable line, of at most MaxExcerpt bytes, of a peer's
// text.
func Excerpt(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) }), " ")
	return Truncate(s, MaxExcerpt)
}

// CheckLabels returns every problem of the labels under a configuration key.
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

// BaseURL parses the base address of a server. It refuses credentials in it: they
// would appear in logs and pages.
func BaseURL(raw, example string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("invalid address; write it like " + example) // err quotes it, with a password
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%s: no credentials in an address; use http_config.basic_auth", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q has no scheme; write http:// or https:// in front", raw)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q has no host; write it like %s", raw, example)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%q: remove what follows the path (? or #)", raw)
	}
	return u, nil
}

// CheckShared returns every problem of the keys that all sinks over HTTP have.
func CheckShared(externalURL string, http httpconfig.Config) error {
	var errs []error
	if externalURL != "" {
		if _, err := BaseURL(externalURL, "https://crowsnest.example.org"); err != nil {
			errs = append(errs, fmt.Errorf("external_url: %w", err))
		}
	}
	if err := http.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

// Link returns the address of crowsnest's page of an episode, or "" without a base
// address: an Alertmanager refuses a whole request for one invalid URI.
func Link(externalURL string, fp episodes.Fingerprint) string {
	if externalURL == "" {
		return ""
	}
	return externalURL + "/episodes/" + fp.String()
}

// Pack returns the name of the pack of an episode's rule, or "".
func Pack(ep episodes.Episode) string {
	if ep.Rule == nil {
		return ""
	}
	return ep.Rule.Pack
}
