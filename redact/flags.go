package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// quoteAfterKey finds PASSWORD 'x' and password "x".
func (sc *scanner) quoteAfterKey(i int) span {
	n := 0
	for i > n && n < 32 && sc.s[i-n-1] == '\\' {
		n++
	}
	quote := i
	i -= n
	if !isBlank(sc.byteAt(i - 1)) {
		return span{}
	}
	if sc.byteAt(i-2) == ',' {
		return sc.argument(i-2, quote, n)
	}
	identified := sc.isIdentifiedBy(i)
	if !identified && !sc.mayBeKey(i) {
		return span{}
	}
	k := sc.keyBefore(i)
	if !identified && (k.quoted || k.class != keys.Strong || k.to-k.from < 6 && !strings.EqualFold(sc.s[k.from:k.to], "pw") && !strings.EqualFold(sc.s[k.from:k.to], "pwd") || strings.Contains(sc.s[k.from:k.to], " ")) {
		return span{}
	}
	return sc.exempt(value{key: k, at: i}, sc.quoted(quote, n))
}

// argument finds the value in define('DB_PASSWORD', 'x'). It follows the comma at i, in
// quotes that n backslashes precede.
func (sc *scanner) argument(i, quote, n int) span {
	if !sc.mayBeKey(i) {
		return span{}
	}
	k := sc.keyBefore(i)
	p := sc.quoted(quote, n)
	text, after := sc.s[p.from:p.to], strings.TrimLeft(sc.s[min(p.to+n+1, len(sc.s)):min(p.to+n+4, len(sc.s))], " ")
	if !k.quoted || k.class != keys.Strong || !strings.HasPrefix(after, ")") && !looksChosen(text) {
		return span{}
	}
	return p
}

func (sc *scanner) isIdentifiedBy(i int) bool {
	const words = "IDENTIFIED BY "
	s := sc.s[max(0, i-64):i]
	if len(s) < len(" BY ") || !strings.EqualFold(s[len(s)-len(" BY "):], words[len(words)-len(" BY "):]) {
		return false
	}
	return strings.Contains(s, "IDENTIFIED ") || strings.Contains(s, "identified ")
}

// flag finds --token x, -password x and --user name:x.
func (sc *scanner) flag(i int) span {
	s := sc.s
	if i > 0 && (isKeyByte(s[i-1]) && sc.afterWord(i) || s[i-1] == '-' || s[i-1] == '.') {
		return span{}
	}
	from := i
	for from < len(s) && s[from] == '-' && from-i < 2 {
		from++
	}
	to := from
	for to < len(s) && to-from < keys.Max && isKeyByte(s[to]) {
		to++
	}
	if to == from || !isLetter(s[from]) {
		return span{}
	}
	k := key{from: from, to: to, class: sc.r.keys.Classify(s[from:to])}
	if from == i+1 && (k.class == keys.None || to-from < 5 || !isLowerWord(s[from:to])) {
		if p := sc.shortFlag(from, to); !p.empty() {
			return p
		}
	}
	name := s[from:to]
	if isUserFlag(name) && sc.byteAt(to) == '=' {
		return sc.userPassword(sc.value(value{key: k, sep: '=', at: min(to+1, len(s)-1)}))
	}
	at, found := sc.afterFlag(to)
	if !found || s[at] == '-' {
		return span{}
	}
	switch {
	case k.class == keys.Maybe:
		return sc.value(value{key: k, sep: '=', at: at})
	case k.class == keys.Weak || k.class == keys.Strong || k.class == keys.Header:
		k.class = keys.Strong
		return sc.value(value{key: k, sep: '=', at: at})
	case strings.HasSuffix(name, "pin"):
		return sc.pin(at)
	case k.class == keys.Auth, name == "value" && strings.Contains(s[max(0, i-48):i], "assword"):
		k.class = max(k.class, keys.Auth)
		if name == "value" {
			k.class = keys.Strong
		}
		return sc.value(value{key: k, sep: '=', at: at})
	case isUserFlag(name):
		return sc.userPassword(sc.value(value{key: k, sep: '=', at: at}))
	}
	return span{}
}

func isUserFlag(name string) bool { return name == "user" || name == "u" || name == "proxy-user" }

// afterFlag returns the start of a flag's value that does not follow "=": it is after
// white space, or the next element of a list.
func (sc *scanner) afterFlag(i int) (at int, found bool) {
	s := sc.s
	for i < len(s) && (isQuote(s[i]) || s[i] == '\\') {
		i++
	}
	at = i
	for at < len(s) && at-i < 12 && (isSpace(s[at]) || s[at] == ',') {
		at++
	}
	spaced := at > i && (isSpace(s[at-1]) || at < len(s) && (isQuote(s[at]) || s[at] == '\\'))
	return at, spaced && at < len(s)
}

// userPassword returns the part after the colon of user:password.
func (sc *scanner) userPassword(p span) span {
	text := sc.s[p.from:p.to]
	colon := strings.IndexByte(text, ':')
	if colon <= 0 || smallNumber().MatchString(text[:colon]) || strings.HasPrefix(text[colon:], "://") {
		return span{}
	}
	p.from += colon + 1
	if sc.s[p.from:p.to] == "" || isNotSet(sc.s[p.from:p.to]) {
		return span{}
	}
	return p
}

// tag is the name of an element with attributes, whose > is at i.
func (sc *scanner) tag(i int) key {
	if i == 0 || !isQuote(sc.s[i-1]) {
		return key{}
	}
	from := max(0, i-2*keys.Max)
	open := strings.LastIndexByte(sc.s[from:i], '<')
	if open < 0 {
		return key{}
	}
	to := sc.run(from+open+1, func(c byte) bool { return isKeyByte(c) || c == ':' })
	at := to - 1
	for at > from+open && isKeyByte(sc.s[at]) {
		at--
	}
	return key{from: at + 1, to: to, class: sc.r.keys.Classify(sc.s[at+1 : to])}
}

// element finds <password>x</password>.
func (sc *scanner) element(i int) span {
	if i > 0 && isBlank(sc.s[i-1]) && strings.Contains(sc.s[max(0, i-64):i], "SETUSER ") {
		return sc.unquoted(i + 1) // ACL of Redis
	}
	k := sc.keyBefore(i)
	if k.class == keys.None {
		k = sc.tag(i)
	}
	if k.class != keys.Strong && k.class != keys.Weak || k.quoted || k.spaced {
		return span{}
	}
	for range 2 { // <password><value>x
		if open := strings.IndexByte(sc.s[i+1:min(len(sc.s), i+1+keys.Max)], '>'); open > 1 && sc.s[i+1] == '<' && isLetter(sc.s[i+2]) {
			i += 1 + open
		}
	}
	if before := sc.byteAt(k.from - 1); before != '<' && before != ':' {
		return span{}
	}
	rest := sc.s[i+1 : min(len(sc.s), i+1+maxKnown)]
	end := strings.IndexByte(rest, '<')
	switch {
	case end < 0 && (rest == "" || isSpace(rest[0])), end >= 0 && !strings.HasPrefix(rest[end:], "</"):
		return span{} // <password> in a usage text
	case end < 0:
		return sc.unquoted(i + 1)
	case strings.TrimSpace(rest[:end]) == "":
		return span{}
	}
	return span{i + 1, i + 1 + end}
}
