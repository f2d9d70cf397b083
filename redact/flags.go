package redact

import (
	"strings"
)

// quoteAfterKey finds PASSWORD 'x' and password "x".
func (t *commandReader) quoteAfterKey(quote int) span {
	i := t.back(quote, 32, escapes)
	n := quote - i
	if !isBlank(t.byteAt(i - 1)) {
		return span{}
	}
	identified := isIdentifiedBy(t.before(i, 64))
	if !identified && !t.mayBeKey(i) {
		return span{}
	}
	k := t.keyBefore(i)
	name := t.name(k)
	if !identified && (k.quoted || k.class != strongKey || len(name) < 6 && !equalsAny(name, "pw", "pwd") || strings.Contains(name, " ")) {
		return span{}
	}
	return t.exempt(value{key: k, at: i}, t.quoted(quote, n))
}

// isIdentifiedBy reports whether a statement of SQL ends with IDENTIFIED ... BY.
func isIdentifiedBy(s string) bool {
	by := len(s) - len(" BY ")
	return by >= 0 && strings.EqualFold(s[by:], " BY ") && (strings.Contains(s, "IDENTIFIED ") || strings.Contains(s, "identified "))
}

// flag finds --token x, -password x and --user name:x.
func (t *commandReader) flag(i int) span {
	s := t.s
	if i > 0 && (isKeyByte(s[i-1]) && t.afterWord(i) || s[i-1] == '-' || s[i-1] == '.') {
		return span{}
	}
	from := i + 1
	if t.byteAt(from) == '-' {
		from++
	}
	to := t.runUpTo(from, maxKey, keyBytes)
	if to == from || !isLetter(s[from]) {
		return span{}
	}
	name := s[from:to]
	k := key{from: from, to: to, class: t.table.classify(name)}
	if from == i+1 && (k.class == noKey || len(name) < 5 || !isLowerWord(name)) {
		if p := t.shortFlag(from, to); !p.empty() {
			return p
		}
	}
	isUser := name == "user" || name == "u" || name == "proxy-user"
	if isUser && t.byteAt(to) == '=' {
		return t.userPassword(t.value(value{key: k, sep: '=', at: min(to+1, len(s)-1)}))
	}
	if p := t.refused(i); !p.empty() && k.class >= weakKey {
		return p
	}
	at, found := t.afterFlag(to)
	if !found || s[at] == '-' || t.byteAt(to) == ',' && isWord(t.wordAt(at)) {
		return span{}
	}
	switch {
	case k.class == maybeKey || k.class == authKey:
	case k.class == weakKey || k.class == strongKey || k.class == headerKey:
		k.class = strongKey
	case strings.HasSuffix(name, "pin"):
		return pin(&t.input, at)
	case name == "value" && strings.Contains(t.before(i, 48), "assword"):
		k.class = strongKey
	case isUser:
		return t.userPassword(t.value(value{key: k, sep: '=', at: at}))
	default:
		return span{}
	}
	return t.value(value{key: k, sep: '=', at: at})
}

var refusedValue = lazily(`(?:value|argument) ([\\"'` + "`" + `]*[^\s"'\\]+)[\\"']* for (?:flag )?[\\"']*$`)

// refused finds the value before a flag at i in messages such as: invalid value "x" for flag -token.
func (t *commandReader) refused(i int) span {
	before := t.before(i, maxKnown)
	if m := refusedValue().FindStringSubmatchIndex(before); m != nil {
		return t.quotedAt(i - len(before) + m[2])
	}
	return span{}
}

// afterFlag returns the start of a flag's value that does not follow "=": it is after
// white space, or the next element of a list.
func (t *commandReader) afterFlag(i int) (at int, found bool) {
	s := t.s
	i = t.run(i, quotesAndEscapes)
	at = t.runUpTo(i, 12, spacesAndCommas)
	spaced := at > i && (isSpace(s[at-1]) || at < len(s) && (isQuote(s[at]) || s[at] == '\\'))
	return at, spaced && at < len(s)
}

// userPassword returns the part after the colon of user:password.
func (t *commandReader) userPassword(p span) span {
	text := t.of(p)
	colon := strings.IndexByte(text, ':')
	if colon <= 0 || smallNumber().MatchString(text[:colon]) || strings.HasPrefix(text[colon:], "://") || isNotSet(text[colon+1:]) {
		return span{}
	}
	return span{p.from + colon + 1, p.to}
}
