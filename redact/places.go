package redact

import "strings"

// userinfo finds the password in scheme://user:password@host; the colon of ://
// is at i.
func (sc *scanner) userinfo(i int) span {
	s, from := sc.s, i+len("://")
	if from >= sc.urlEnd {
		sc.urlEnd = from
		for sc.urlEnd < len(s) && !endsURL(s[sc.urlEnd]) {
			sc.urlEnd++
		}
		sc.urlAt = from + strings.LastIndexByte(s[from:sc.urlEnd], '@')
	}
	if sc.urlAt < from {
		return span{}
	}
	user, password, colon := strings.Cut(s[from:sc.urlAt], ":")
	slash := strings.IndexAny(s[from:sc.urlEnd], "/?#")
	inAuthority := slash < 0 || slash > strings.IndexByte(s[from:sc.urlEnd], '@')
	switch {
	case !inAuthority && (!colon || strings.ContainsAny(user, "/?#") || sc.isPort(user, password)):
		return span{}
	case colon && password != "" && len(user) < 20:
		if isNotSet(password) {
			return span{}
		}
		return span{from + len(user) + 1, sc.urlAt}
	case len(user) >= 20, len(user) >= 12 && strings.HasPrefix(schemeBefore(s[:i]), "http"):
		return span{from, sc.urlAt} // a token as user
	}
	return span{}
}

func endsURL(c byte) bool {
	return c <= ' ' && isSpace(c) || c == '"' || c == '<' || c == '>' || c == '\\' || c == '`'
}

// schemeBefore returns the letters at the end of s.
func schemeBefore(s string) string {
	at := len(s)
	for at > 0 && len(s)-at < 8 && isLetter(s[at-1]) {
		at--
	}
	return s[at:]
}

var port = lazily(`^[0-9]{2,5}[/?#]`)

// isPort reports whether the text is host:port/path@sha256:... rather than
// user:password@host with a slash in the password.
func (sc *scanner) isPort(host, rest string) bool {
	return port().MatchString(rest) &&
		(strings.Contains(host, ".") || strings.Contains(rest, "=") || strings.HasPrefix(sc.s[sc.urlAt:], "@sha256:"))
}

// dataSource finds the password in user:password@tcp(host:3306)/db.
func (sc *scanner) dataSource(i int) span {
	from := i
	for from > 0 && i-from < 256 && !isSpace(sc.s[from-1]) && !isQuote(sc.s[from-1]) {
		from--
	}
	text := sc.s[from:i]
	if at := strings.LastIndex(text, "://"); at >= 0 {
		from += at + 3
		text = sc.s[from:i]
	}
	colon := strings.IndexByte(text, ':')
	if colon < 0 || isNotSet(text[colon+1:]) {
		return span{}
	}
	return span{from + colon + 1, i}
}

// pathBehind returns the rest of a URL whose path is the secret.
func (sc *scanner) pathBehind(i int) span {
	end := sc.run(i, func(c byte) bool { return isEncoded(c) || c == '@' || c == ':' })
	if end-i < 8 {
		return span{}
	}
	return span{i, end}
}

// privateKey finds PEM, including PEM with line ends written as \n. If the end is
// missing, it returns the rest of the text.
func (sc *scanner) privateKey(i int) span {
	s := sc.s
	head := s[i:min(len(s), i+80)]
	label, _, _ := strings.Cut(strings.TrimLeft(head, "-")[len(" BEGIN")-1:], "----")
	if !strings.Contains(label, "PRIVATE KEY") && !strings.Contains(label, "Static key") && !strings.Contains(label, "NKEY SEED") {
		return span{}
	}
	at := strings.Index(s[i:], "-END ")
	if at < 0 {
		at = strings.Index(s[i:], "- END ")
	}
	if at < 0 {
		return span{i, len(s)}
	}
	end := i + at + len("-END ")
	if close := strings.Index(s[end:min(len(s), end+80)], "----"); close >= 0 {
		return span{i, sc.run(end+close, func(c byte) bool { return c == '-' })}
	}
	return span{i, len(s)}
}

// bootstrapToken finds abcdef.0123456789abcdef around the dot at i, unless it
// is part of a longer name.
func (sc *scanner) bootstrapToken(i int) span {
	s, from, to := sc.s, i-6, i+17
	if from < 0 || to > len(s) {
		return span{}
	}
	digits := 0
	for j := from; j < to; j++ {
		switch {
		case j == i:
		case isDigit(s[j]):
			digits++
		case !isLower(s[j]):
			return span{}
		}
	}
	if digits == 22 || isKeyByte(sc.byteAt(to)) && !(sc.byteAt(to) == '.' && !isAlnum(sc.byteAt(to+1))) {
		return span{}
	}
	if before := sc.byteAt(from - 1); sc.afterWord(from) || from > 0 && strings.IndexByte("-./", before) >= 0 {
		return span{}
	}
	return span{from, to}
}

// rancherToken finds token-abcde:SECRET, also of kubeconfigs; the colon is at i.
func (sc *scanner) rancherToken(i int) span {
	const length = 54
	s := sc.s
	if i == 0 || !isAlnum(s[i-1]) || i+1+length > len(s) || !isBase36(s[i+length]) {
		return span{}
	}
	if sc.run(i+1, isBase36) != i+1+length || isKeyByte(sc.byteAt(i+1+length)) && sc.byteAt(i+1+length) != '.' {
		return span{}
	}
	return span{i + 1, i + 1 + length}
}

// azureStorageKey finds 86 characters of base64 before the == at i. Digests of
// that length say that they are one.
func (sc *scanner) azureStorageKey(i int) span {
	const length = 86
	s, from := sc.s, i-length
	if from < 0 || sc.byteAt(i+1) != '=' {
		return span{}
	}
	for j := i - 1; j >= from; j-- {
		if !isAlnum(s[j]) && s[j] != '+' && s[j] != '/' {
			return span{}
		}
	}
	if before := sc.byteAt(from - 1); from > 0 && (isAlnum(before) || before == '+' || before == '/') || strings.HasSuffix(s[:from], "sha512-") {
		return span{}
	}
	return span{from, i + 2}
}

// isKeyMaterial reports whether a line is nothing but base64, as the lines of a
// private key are whose first line came before.
func isKeyMaterial(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) < 60 {
		return false
	}
	var upper, lower, digit bool
	for i := range len(s) {
		c := s[i]
		switch {
		case isUpper(c):
			upper = true
		case isLower(c):
			lower = true
		case isDigit(c):
			digit = true
		case c != '+' && c != '/' && c != '=':
			return false
		}
	}
	return upper && lower && digit
}
