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

var dataOpens = lazily(`^[\\"']*: *(?:map\[string\]interface \{\}|map\[string\][^\]]*\][\[\]a-z0-9 ]*)?(?:map\[|\{[ \n\t]*|[ \t\n\r\\][\\\n\rnr]* )`)

// opensData returns the start of the fields below the word data before i, in JSON, YAML
// or maps as Go prints them, or -1.
func (sc *scanner) opensData(i int) int {
	n := len(dataOpens().FindString(sc.from(i, 64)))
	if c := sc.byteAt(i + n); n == 0 || c == '}' || c == ']' || c == 0 {
		return -1
	}
	return i + n
}
