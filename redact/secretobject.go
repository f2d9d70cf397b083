package redact

import "strings"

// kindSecret finds an object of kind Secret in a text, however it was printed.
var kindSecret = lazily(`(?i)(?:\b|\\[nr])kind\\*["']?\s*[:=]\s*\\*["']?Secret(?:List)?\b|\bSecret(?:List)?\{|\bsecrets?[ :/][^{}]{0,40}\{`)

// secretObject hides the data of a Kubernetes Secret that was printed as a
// whole, and all after it. The word data is at i.
func (sc *scanner) secretObject(i int) span {
	if sc.afterWord(i) && !strings.HasSuffix(sc.s[:i], "string") && !strings.HasSuffix(sc.s[:i], "String") {
		return span{} // metadata and other words that end with data
	}
	if p := sc.fieldOfSecret(i); !p.empty() {
		return p
	}
	at := sc.opensData(i + len("data"))
	if at < 0 || strings.HasPrefix(sc.s[at:], Mask) || !sc.kindSecret.ask(func() bool { return kindSecret().MatchString(sc.s) }) {
		return span{}
	}
	return span{at, len(sc.s)}
}

// opensData returns the start of the fields below the word data before i, in JSON, YAML
// or maps as Go prints them, or -1.
func (sc *scanner) opensData(i int) int {
	s := sc.from(i, 64)
	rest := strings.TrimLeft(s, `\"'`)
	if rest == "" || rest[0] != ':' {
		return -1
	}
	rest = strings.TrimLeft(rest[1:], " ")
	rest = strings.TrimPrefix(rest, "map[string]interface {}")
	if m := strings.IndexByte(rest, ']'); strings.HasPrefix(rest, "map[string]") && m >= 0 {
		rest = strings.TrimLeft(rest[m+1:], "[]abcdefghijklmnopqrstuvwxyz0123456789 ")
	}
	switch {
	case strings.HasPrefix(rest, "map["):
		rest = rest[len("map["):]
	case strings.HasPrefix(rest, "{"):
		rest = strings.TrimLeft(rest[1:], " \n\t")
	default:
		end := strings.TrimLeft(rest, "\\\n\rnr")
		if end == rest || !isSpace(rest[0]) && rest[0] != '\\' || !strings.HasPrefix(end, " ") {
			return -1
		}
		rest = end[1:]
	}
	if rest == "" || rest[0] == '}' || rest[0] == ']' {
		return -1
	}
	return i + len(s) - len(rest)
}
