package importer

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Limits of texts that are copied to a rule.
const (
	maxText   = 8 << 10 // maximum length of an annotation or a summary in bytes
	maxStep   = 1 << 10
	maxSteps  = 30
	maxName   = 80 // maximum length of the name of an alert
	maxListed = 40 // maximum number of references, and of tags
)

// cleanProse cleans a text of several lines. The result has no control characters, no
// consecutive blank lines, and no common indentation.
func cleanProse(s string) string {
	var out []string
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for _, l := range lines[:min(len(lines), 400)] {
		indent := len(l) - len(strings.TrimLeft(l, " \t"))
		clean := strings.Repeat(" ", min(indent, 16)) + redact.Sanitise(strings.TrimSpace(l))
		if clean = strings.TrimRight(clean, " "); clean == "" && (len(out) == 0 || out[len(out)-1] == "") {
			continue
		}
		out = append(out, clean)
	}
	return strings.TrimSpace(text.Truncate(strings.TrimSpace(strings.Join(out, "\n")), maxText))
}

// escapeLiteral escapes s so that the template evaluates to s.
func escapeLiteral(s string) string { return strings.ReplaceAll(s, "{{", `{{"{{"}}`) }

// alertName returns a name for an alert in CamelCase from the words of title. suffix is always
// kept. If the name is already used, a number is appended.
func (im *importer) alertName(title, suffix string) string {
	var b strings.Builder
	words := strings.FieldsFunc(title, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '_'
	})
	for _, w := range words {
		w = strings.ReplaceAll(w, "'", "")
		if b.Len() == 0 {
			w = strings.TrimLeft(w, "_0123456789")
		}
		if w == "" {
			continue
		}
		if b.Len() > 0 && b.Len()+len(w)+len(suffix) > maxName {
			break
		}
		w = w[:min(len(w), maxName/2)]
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	base := b.String() + suffix
	if base == "" || !unicode.IsLetter(rune(base[0])) {
		base = "Imported" + base
	}
	name, sep := base, ""
	if unicode.IsDigit(rune(base[len(base)-1])) {
		sep = "_"
	}
	for n := 2; im.names[name]; n++ {
		name = base + sep + strconv.Itoa(n)
	}
	im.names[name] = true
	return name
}

// camelCase joins the words of an identifier, such as CRE-2025-0071, in CamelCase.
func camelCase(id string) string {
	return text.Truncate(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, id), maxName/2)
}

// unsafeInSteps are characters with a special meaning in a shell. A step that contains one of them would have to be a
// complete command, but the steps of a CRE are prose.
const unsafeInSteps = "'\"`$()<>|&;\\#{}*?[]!~"

// splitSteps splits instructions into steps. ok is false unless the instructions are a list of lines without shell
// syntax.
func splitSteps(s string) (out []string, ok bool) {
	for _, l := range strings.Split(s, "\n") {
		item := strings.TrimLeft(l, " ")
		if item == "" {
			continue
		}
		number := strings.TrimLeft(item, "0123456789")
		switch {
		case strings.HasPrefix(item, "- "), strings.HasPrefix(item, "* "), strings.HasPrefix(item, "• "):
			_, item, _ = strings.Cut(item, " ")
		case number != item && (strings.HasPrefix(number, ". ") || strings.HasPrefix(number, ") ")):
			item = number[2:]
		case len(out) > 0 && l[0] == ' ':
			out[len(out)-1] += " " + item // the line continues the previous item
			continue
		default:
			return nil, false
		}
		out = append(out, strings.TrimSpace(item))
	}
	for _, s := range out {
		if strings.ContainsAny(s, unsafeInSteps) || len(s) > maxStep || s == "" {
			return nil, false
		}
	}
	return out, len(out) > 1 && len(out) <= maxSteps
}

// isLink reports whether a reference is an address that a browser can open.
func isLink(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && len(s) < 2048 && !strings.ContainsAny(s, " {}\"<>`")
}
