package redact

import (
	"strings"

	"crowsnest/redact/internal/shape"
)

// urls finds passwords in URLs. It remembers the last URL, so that many colons cost one
// search for its end.
type urls struct {
	end int
	at  int // the last @; before the start: none
}

// userinfo finds the password in scheme://user:password@host; the colon of ://
// is at i.
func (u *urls) userinfo(t *input, i int) span {
	s, from := t.s, i+len("://")
	if from >= u.end {
		u.end = t.run(from, isURL)
		u.at = from + strings.LastIndexByte(s[from:u.end], '@')
	}
	if u.at < from {
		return span{}
	}
	user, password, colon := strings.Cut(s[from:u.at], ":")
	slash := strings.IndexAny(s[from:u.end], "/?#")
	inAuthority := slash < 0 || slash > strings.IndexByte(s[from:u.end], '@')
	switch {
	case !inAuthority && (!colon || strings.ContainsAny(user, "/?#") || isPort(user, password, s[u.at:])):
		return span{}
	case colon && password != "" && len(user) < 20:
		if isNotSet(password) {
			return span{}
		}
		return span{from + len(user) + 1, u.at}
	case len(user) >= 20, len(user) >= 12 && strings.HasPrefix(s[t.back(i, 8, isLetter):i], "http"):
		return span{from, u.at} // a token as user
	}
	return span{}
}

func isURL(c byte) bool {
	return !isSpace(c) && c != '"' && c != '<' && c != '>' && c != '\\' && c != '`'
}

var port = lazily(`^[0-9]{2,5}[/?#]`)

// isPort reports whether the text is host:port/path@sha256:... rather than
// user:password@host with a slash in the password.
func isPort(host, rest, at string) bool {
	return port().MatchString(rest) &&
		(strings.Contains(host, ".") || strings.Contains(rest, "=") || strings.HasPrefix(at, "@sha256:"))
}

// loginAt finds user:password@host:1234 and user:password@host/x that have no
// scheme; the @ is at i. A mail address has neither port nor path.
func loginAt(t *input, i int) span {
	s := t.s
	from := t.back(i, 128, func(c byte) bool { return !isSpace(c) && strings.IndexByte("\"'`<>,;()[]{}|=/\\", c) < 0 })
	user, password, found := strings.Cut(s[from:i], ":")
	if !found && t.byteAt(from-1) == '/' && isAlnum(t.byteAt(from-2)) && looksChosen(user) { // user/password@host:1521 of Oracle
		if end := t.run(i+1, isDotted); t.byteAt(end) == ':' && isDigit(t.byteAt(end+1)) {
			return span{from, i}
		}
	}
	if !found || user == "" || len(password) < 4 || strings.Contains(user, ".") || smallNumber().MatchString(password) || t.byteAt(from-1) == '/' {
		return span{}
	}
	if shape.Of(user).Upper > 1 && isLowerWord(user[len(user)-1:]) && isLowerWord(password) { // LeaseRenewer:hdfs@node-1:9000
		return span{}
	}
	end := t.run(i+1, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' })
	host := s[i+1 : end]
	if host == "" || strings.HasPrefix(host, "sha") || isUpper(host[0]) {
		return span{}
	}
	if c := t.byteAt(end); c == ':' && isDigit(t.byteAt(end+1)) || c == '/' && strings.Contains(host, ".") {
		return span{from + len(user) + 1, i}
	}
	return span{}
}

// oracleLogin finds the password of user/password@host, where i is at the @ or at
// the jdbc: before.
func oracleLogin(t *input, i int) span {
	if t.s[i] != '@' {
		n := strings.IndexByte(t.from(i, 128), '@')
		if n < 0 {
			return span{}
		}
		i += n
	}
	from := t.back(i, 64, func(c byte) bool { return !isSpace(c) && c != '/' && !isQuote(c) })
	if from == i || t.byteAt(from-1) != '/' || !isAlnum(t.byteAt(from-2)) {
		return span{}
	}
	return span{from, i}
}

// dataSource finds the password in user:password@tcp(host:3306)/db.
func dataSource(t *input, i int) span {
	from := t.back(i, 256, func(c byte) bool { return !isSpace(c) && !isQuote(c) })
	if at := strings.LastIndex(t.s[from:i], "://"); at >= 0 {
		from += at + len("://")
	}
	colon := strings.IndexByte(t.s[from:i], ':')
	if colon < 0 || isNotSet(t.s[from+colon+1:i]) {
		return span{}
	}
	return span{from + colon + 1, i}
}

// passwordFile finds the last field of host:port:database:user:password, as in
// .pgpass; the colon before the port is at i.
func passwordFile(t *input, i int) span {
	if i == 0 || !isAlnum(t.s[i-1]) && t.s[i-1] != '*' {
		return span{}
	}
	at := t.run(i+1, isDigit)
	if at-i < 4 || at-i > 6 {
		return span{}
	}
	address := true // of IPv6
	for range 2 {
		if t.byteAt(at) != ':' {
			return span{}
		}
		end := t.run(at+1, isWordByte)
		if end == at+1 || end-at > 64 {
			return span{}
		}
		address = address && end-at <= 5 && t.run(at+1, isHex) == end
		at = end
	}
	if address || t.byteAt(at) != ':' || at+1 >= len(t.s) || isSpace(t.s[at+1]) {
		return span{}
	}
	return t.unquoted(at + 1)
}

// secretPath returns the rest of a URL whose path is the secret.
func secretPath(t *input, i int) span {
	end := t.run(i, func(c byte) bool { return isEncoded(c) || c == '@' || c == ':' })
	if end-i < 8 {
		return span{}
	}
	return span{i, end}
}

// hook finds the part of a URL that grants the right to call it: letters and digits.
func hook(t *input, i int) span {
	end := t.runUpTo(i, maxKnown, func(c byte) bool { return isAlnum(c) || c == '/' })
	if end-i < 20 || !strings.ContainsAny(t.s[i:end], digits) {
		return span{}
	}
	return span{i, end}
}

// toEnd returns the rest of the text.
func toEnd(t *input, i int) span { return span{i, len(t.s)} }

// rest returns the rest of the text, unless the map that opens before i is empty.
func rest(t *input, i int) span {
	if c := t.byteAt(i); c == '}' || c == 0 || strings.HasPrefix(t.s[i:], Mask) {
		return span{}
	}
	return toEnd(t, i)
}

// privateKey finds PEM, including PEM with line ends written as \n. If the end is
// missing, it returns the rest of the text.
func privateKey(t *input, i int) span {
	s := t.s
	label, _, _ := strings.Cut(strings.TrimLeft(t.from(i, 80), "-")[len(" BEGIN")-1:], "----")
	if !strings.Contains(label, "PRIVATE KEY") && !strings.Contains(label, "Static key") && !strings.Contains(label, "NKEY SEED") {
		return span{}
	}
	at := strings.Index(s[i:], "-END ")
	if at < 0 {
		at = strings.Index(s[i:], "- END ")
	}
	if at < 0 {
		return toEnd(t, i)
	}
	end := i + at + len("-END ")
	if n := strings.Index(t.from(end, 80), "----"); n >= 0 {
		return span{i, t.run(end+n, func(c byte) bool { return c == '-' })}
	}
	return toEnd(t, i)
}

// isKeyMaterial reports whether a line is nothing but base64, such as a line of a
// private key whose header was on an earlier line.
func isKeyMaterial(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) >= 60 && strings.IndexByte(s, ' ') < 0 && strings.Trim(s, capitals+lowers+digits+"+/=") == "" &&
		strings.ContainsAny(s, capitals) && strings.ContainsAny(s, lowers) && strings.ContainsAny(s, digits)
}
