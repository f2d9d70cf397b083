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
		u.end = t.run(from, urlBytes)
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
	case len(user) >= 20, len(user) >= 12 && strings.HasPrefix(s[t.back(i, 8, letters):i], "http"):
		return span{from, u.at} // a token as user
	}
	return span{}
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
	from := t.back(i, 128, userInfo)
	user, password, found := strings.Cut(s[from:i], ":")
	if !found && t.byteAt(from-1) == '/' && isAlnum(t.byteAt(from-2)) && looksChosen(user) { // user/password@host:1521 of Oracle
		if end := t.run(i+1, keyBytes); t.byteAt(end) == ':' && isDigit(t.byteAt(end+1)) {
			return span{from, i}
		}
	}
	if !found || user == "" || len(password) < 4 || strings.Contains(user, ".") || smallNumber().MatchString(password) || t.byteAt(from-1) == '/' {
		return span{}
	}
	if shape.Of(user).Upper > 1 && isLowerWord(user[len(user)-1:]) && isLowerWord(password) { // LeaseRenewer:hdfs@node-1:9000
		return span{}
	}
	end := t.run(i+1, hostBytes)
	host := s[i+1 : end]
	if host == "" || strings.HasPrefix(host, "sha") || isUpper(host[0]) {
		return span{}
	}
	if c := t.byteAt(end); c == ':' && isDigit(t.byteAt(end+1)) || c == '/' && strings.Contains(host, ".") {
		return span{from + len(user) + 1, i}
	}
	return span{}
}

// afterPort is a database, a user and the start of a password. Addresses of IPv6 have the same colons.
var afterPort, addressParts = lazily(`^(?::[A-Za-z0-9_-]{1,63}){2}:\S`), lazily(`^(?::[0-9A-Fa-f]{1,4}){2}:`)

// passwordFile finds the last field of host:port:database:user:password, as in
// .pgpass; the colon before the port is at i.
func passwordFile(t *input, i int) span {
	if i == 0 || !isAlnum(t.s[i-1]) && t.s[i-1] != '*' {
		return span{}
	}
	at := t.run(i+1, digitSet)
	if at-i < 4 || at-i > 6 {
		return span{}
	}
	m := afterPort().FindString(t.from(at, 140))
	if m == "" || addressParts().MatchString(m) {
		return span{}
	}
	return t.unquoted(at + strings.LastIndexByte(m, ':') + 1)
}

var (
	keyBegins = lazily(`^-{4,5} ?BEGIN [^-\n]{0,40}(?:PRIVATE KEY|Static key|NKEY SEED)`)
	keyEnds   = lazily(`- ?END .{0,80}?-{4,}`)
)

// privateKey finds PEM, including PEM with line ends written as \n. If the end is
// missing, it returns the rest of the text.
func privateKey(t *input, i int) span {
	if !keyBegins().MatchString(t.from(i, 80)) {
		return span{}
	}
	if end := keyEnds().FindStringIndex(t.s[i:]); end != nil {
		return span{i, i + end[1]}
	}
	return span{i, len(t.s)}
}

// isKeyMaterial reports whether a line is nothing but base64, such as a line of a
// private key whose header was on an earlier line.
func isKeyMaterial(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) >= 60 && strings.IndexByte(s, ' ') < 0 && strings.Trim(s, capitals+lowers+digits+"+/=") == "" &&
		strings.ContainsAny(s, capitals) && strings.ContainsAny(s, lowers) && strings.ContainsAny(s, digits)
}
