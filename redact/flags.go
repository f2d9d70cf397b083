package redact

import "strings"

// quoteAfterKey finds PASSWORD 'x' and password "x".
func (sc *scanner) quoteAfterKey(i int) span {
	if !isBlank(sc.byteAt(i - 1)) {
		return span{}
	}
	k := sc.keyBefore(i)
	if !sc.isIdentifiedBy(i) && (k.quoted || k.class != keyStrong || k.to-k.from < 6 || strings.Contains(sc.s[k.from:k.to], " ")) {
		return span{}
	}
	return sc.exempt(value{key: k, at: i}, sc.quoted(i, 0))
}

func (sc *scanner) isIdentifiedBy(i int) bool {
	const words = "IDENTIFIED BY "
	return i >= len(words) && strings.EqualFold(sc.s[i-len(words):i], words)
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
	for to < len(s) && to-from < maxKey && isKeyByte(s[to]) {
		to++
	}
	if to == from || !isLetter(s[from]) {
		return span{}
	}
	at, found := sc.afterFlag(to)
	if !found || s[at] == '-' {
		return span{}
	}
	k := key{from: from, to: to, class: sc.r.keys.classify(s[from:to])}
	switch name := s[from:to]; {
	case k.class == keyWeak || k.class == keyStrong || k.class == keyHeader:
		k.class = keyStrong
		return sc.value(value{key: k, sep: '=', at: at})
	case name == "user" || name == "u" || name == "proxy-user":
		return sc.userPassword(sc.value(value{key: k, sep: '=', at: at}))
	case name == "p" && strings.HasSuffix(s[:i], "sshpass "):
		return sc.value(value{key: k, sep: '=', at: at})
	}
	return span{}
}

// afterFlag returns where the value of a flag begins that does not stand behind
// "=": behind white space, or as the next element of a list.
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

// userPassword returns what stands behind the colon of user:password.
func (sc *scanner) userPassword(p span) span {
	text := sc.s[p.from:p.to]
	colon := strings.IndexByte(text, ':')
	if colon <= 0 || smallNumber.MatchString(text[:colon]) || strings.HasPrefix(text[colon:], "://") {
		return span{}
	}
	p.from += colon + 1
	if sc.s[p.from:p.to] == "" || notSet.MatchString(sc.s[p.from:p.to]) {
		return span{}
	}
	return p
}

// element finds <password>x</password>.
func (sc *scanner) element(i int) span {
	k := sc.keyBefore(i)
	if k.class != keyStrong && k.class != keyWeak || k.quoted || k.spaced {
		return span{}
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
