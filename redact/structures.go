package redact

import (
	"encoding/base64"
	"strings"

	"crowsnest/redact/internal/shape"
)

// insertedValues finds the secrets among the values of an SQL row, which begin at i. One of the columns must have the
// name of a secret, as in INSERT INTO t (a, password) VALUES ('x', 'y').
func (sc *scanner) insertedValues(i int) span {
	before := sc.textBefore(i, maxKnown)
	before = before[:max(0, strings.LastIndexByte(before, ')'))]
	for column := range strings.SplitSeq(before[strings.LastIndexByte(before, '(')+1:], ",") {
		if sc.table.classify(strings.Trim(column, "\"'`\\[] ")) >= weakKey {
			rest := sc.textFrom(i, maxKnown)
			return span{i, i + max(strings.LastIndexByte(rest, ')'), 0)}
		}
	}
	return span{}
}

// fillers are words that may stand between "password" and the password.
var fillers = words("filler")

// passwordInProse finds the password in prose after the word at i. A digit or a special character distinguishes a
// password from ordinary words.
func passwordInProse(t *input, i int) span {
	end := t.runUpTo(i, 16, letters)
	name := t.s[i:end]
	credentials := strings.EqualFold(name, "credentials")
	word, _ := lastWordOf(t.textBefore(i, 24))
	with := word.String() == "with" || word.String() == "using"
	if p := t.quotedAt(end + 1); t.byteAt(end) == '(' {
		return p
	}
	mayName := false
	for range 6 {
		at := t.run(end, blanks)
		if at == end || at == len(t.s) {
			return span{}
		}
		p := t.word(at)
		if cut := strings.IndexAny(t.textOf(p), `\|`); cut > 0 {
			p.to = p.from + cut
		}
		if credentials {
			if cut := strings.IndexAny(t.textOf(p), ":/"); cut > 0 {
				p.from += cut + 1
			}
		}
		text := t.textOf(p)
		if looksChosen(text) || with && len(text) >= 6 && isLowerWord(text) && !isWord(text) {
			return p
		}
		switch word := strings.ToLower(strings.TrimRight(text, ":")); {
		case fillers[word]:
			with = with || text == "is"
			mayName = mayName || word == "for" || word == "of"
		case mayName: // this word names the owner of the password
			mayName, with = false, false
		default:
			return span{}
		}
		end = p.to
	}
	return span{}
}

// looksChosen reports whether a word after "password" is a password. A password must have letters and digits or special
// characters, and must not be a name, a version or an address.
func looksChosen(s string) bool {
	if len(s) < 6 || len(s) > 128 || s == Mask || strings.Trim(s, lowers+capitals+digits+"-._!@#$%^*+~?/=&") != "" {
		return false
	}
	sh, joint := shape.Measure(s), strings.ContainsAny(s, "-._")
	switch {
	case sh.Upper+sh.Lower == 0:
		return false
	case strings.ContainsAny(s, "/=&"):
		return sh.Upper > 0 && sh.Lower > 0 && sh.Digit > 0 && !joint
	case len(s) >= 8 && 3*sh.Upper >= sh.Length && 3*sh.Lower >= sh.Length && sh.Changes > 1: // excludes words such as KubeConfig
		return true
	}
	return strings.ContainsAny(s[1:len(s)-1], "!@#$%^*+~?") || sh.Digit > 0 && (!joint || sh.Upper > 0 && sh.Lower > 0)
}

// kindSecret matches the kind Secret in the output of an object, in any format.
var kindSecret = lazyRegexp(`(?i)(?:\b|\\[nr])kind\\*["']?\s*[:=]\s*\\*["']?Secret(?:List)?\b|\bSecret(?:List)?\{|\bsecrets?[ :/][^{}]{0,40}\{`)

// secretObject hides the data of a Kubernetes Secret that was printed as a whole, and all text after the data. The word
// data is at i.
func (sc *scanner) secretObject(i int) span {
	if sc.afterWord(i) && !strings.HasSuffix(sc.s[:i], "string") && !strings.HasSuffix(sc.s[:i], "String") {
		return span{} // a word that only ends with data, such as metadata
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

var dataOpens = lazyRegexp(`^[\\"']*: *(?:map\[string\]interface \{\}|map\[string\][^\]]*\][\[\]a-z0-9 ]*)?(?:map\[|\{[ \n\t]*|[ \t\n\r\\][\\\n\rnr]* )`)

// opensData returns the start of the fields that follow the word data, which ends before i. The fields are in JSON, in
// YAML, or in a map as Go prints it. The result is -1 if there are none.
func (sc *scanner) opensData(i int) int {
	n := len(dataOpens().FindString(sc.textFrom(i, 64)))
	if c := sc.byteAt(i + n); n == 0 || c == '}' || c == ']' || c == 0 {
		return -1
	}
	return i + n
}

func isScheme(s string) bool {
	return equalsAny(s, "Bearer", "Basic", "Token", "Digest", "Negotiate", "NTLM", "AWS4-HMAC-SHA256", "GenieKey", "SSWS", "ApiKey")
}

// challenges are the names of parameters that a server writes after Bearer.
var challenges = words("challenge")

// scheme finds the secret in "Bearer x", "Basic x" or "GenieKey x".
func scheme(t *input, i int) span {
	word := t.run(i, letters)
	name := t.s[i:word]
	at := t.run(word, blanks)
	if strings.HasPrefix(t.s[at:], "%20") {
		at += len("%20")
	}
	if at == word || !equalsAny(name, "bearer", "basic", "geniekey") {
		return span{}
	}
	p := t.unquoted(at)
	text := t.textOf(p)
	parameter, _, _ := strings.Cut(text, "=")
	switch login, _ := base64.StdEncoding.DecodeString(text); {
	case isNotSet(text), isWord(text), challenges[parameter]:
		return span{}
	case strings.EqualFold(name, "basic") && !strings.Contains(string(login), ":") && (len(text) < 12 || !strings.ContainsAny(text, digits)):
		return span{}
	case len(text) < 20 && strings.Trim(text, lowers+"-.:") == "": // a word such as bearer-token-like
		return span{}
	}
	return p
}

// urls finds passwords in URLs. It remembers the last URL, so that many colons in one URL require only one search for
// its end.
type urls struct {
	end int
	at  int // position of the last @ in the URL; less than its start if there is none
}

// userinfo finds the password in scheme://user:password@host. The colon of :// is at i.
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
	case len(user) >= 20, len(user) >= 12 && strings.HasPrefix(s[t.runStart(i, 8, letters):i], "http"):
		return span{from, u.at} // the URL has a token instead of user:password
	}
	return span{}
}

var port = lazyRegexp(`^[0-9]{2,5}[/?#]`)

// isPort reports whether the text is host:port/path@sha256:... and not user:password@host with a slash in the password.
func isPort(host, rest, sep string) bool {
	return port().MatchString(rest) &&
		(strings.Contains(host, ".") || strings.Contains(rest, "=") || strings.HasPrefix(sep, "@sha256:"))
}

// loginAt finds the password in user:password@host:1234 or user:password@host/x without a scheme. The @ is at i. A mail
// address has neither a port nor a path.
func loginAt(t *input, i int) span {
	s := t.s
	from := t.runStart(i, 128, userInfo)
	user, password, found := strings.Cut(s[from:i], ":")
	if !found && t.byteAt(from-1) == '/' && isAlnum(t.byteAt(from-2)) && looksChosen(user) { // an Oracle login such as user/password@host:1521
		if end := t.run(i+1, keyBytes); t.byteAt(end) == ':' && isDigit(t.byteAt(end+1)) {
			return span{from, i}
		}
	}
	if !found || user == "" || len(password) < 4 || strings.Contains(user, ".") || smallNumber().MatchString(password) || t.byteAt(from-1) == '/' {
		return span{}
	}
	if shape.Measure(user).Upper > 1 && isLowerWord(password) { // the name of a Java thread, such as LeaseRenewer:hdfs@node-1:9000
		return span{}
	}
	end := t.run(i+1, hostBytes)
	host := s[i+1 : end]
	if c := t.byteAt(end); strings.HasPrefix(host, "sha") || isUpper(t.byteAt(i+1)) {
		return span{}
	} else if c == ':' && isDigit(t.byteAt(end+1)) || c == '/' && strings.Contains(host, ".") {
		return span{from + len(user) + 1, i}
	}
	return span{}
}

// dataSource finds the password in the data source of a MySQL client in Go, such as user:password@tcp(host:3306)/db, which
// may follow a scheme. The @ is at i.
func dataSource(t *input, i int) span {
	from := t.runStart(i, 256, graphicBytes)
	for login := t.s[from:i]; ; {
		scheme := strings.LastIndex(login, "://")
		user := from
		if scheme >= 0 {
			user += scheme + len("://")
		}
		if colon := strings.IndexByte(t.s[user:i], ':'); colon >= 0 && user+colon+1 < i {
			return span{user + colon + 1, i}
		}
		if scheme < 0 {
			return span{}
		}
		login = login[:scheme] // the :// belongs to the password
	}
}

// oracleLogin finds the password in user/password@//host. The @ is at i.
func oracleLogin(t *input, i int) span {
	from := t.runStart(i, 128, graphicBytes)
	slash := from + strings.LastIndexByte(t.s[from:i], '/')
	if slash <= from || !isAlnum(t.s[slash-1]) {
		return span{}
	}
	return span{slash + 1, i}
}

// afterPort matches a database, a user and the start of a password. addressParts matches a section of an IPv6 address,
// which has colons in the same positions.
var afterPort, addressParts = lazyRegexp(`^(?::[A-Za-z0-9_-]{1,63}){2}:\S`), lazyRegexp(`^(?::[0-9A-Fa-f]{1,4}){2}:`)

// passwordFile finds the password in host:port:database:user:password, the format of .pgpass. The colon before the port
// is at i.
func passwordFile(t *input, i int) span {
	if i == 0 || !isAlnum(t.s[i-1]) && t.s[i-1] != '*' {
		return span{}
	}
	at := t.run(i+1, digitSet)
	if at-i < 4 || at-i > 6 || t.byteAt(at) != ':' {
		return span{}
	}
	m := afterPort().FindString(t.textFrom(at, 140))
	if m == "" || addressParts().MatchString(m) {
		return span{}
	}
	return t.unquoted(at + strings.LastIndexByte(m, ':') + 1)
}

var (
	keyBegins = lazyRegexp(`^-{4,5} ?BEGIN [^-\n]{0,40}(?:PRIVATE KEY|Static key|NKEY SEED)`)
	keyEnds   = lazyRegexp(`- ?END .{0,80}?-{4,}`)
)

// privateKey finds a private key in PEM, including PEM whose line ends are written as \n. If the end is missing, it
// returns the rest of the text.
func privateKey(t *input, i int) span {
	if !keyBegins().MatchString(t.textFrom(i, 80)) {
		return span{}
	}
	if end := keyEnds().FindStringIndex(t.s[i:]); end != nil {
		return span{i, i + end[1]}
	}
	return span{i, len(t.s)}
}

// isKeyMaterial reports whether a line consists only of base64, such as a line of a private key whose header was in an
// earlier line.
func isKeyMaterial(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) >= 60 && strings.IndexByte(s, ' ') < 0 && strings.Trim(s, capitals+lowers+digits+"+/=") == "" &&
		strings.ContainsAny(s, capitals) && strings.ContainsAny(s, lowers) && strings.ContainsAny(s, digits)
}
