package redact

import (
	"strings"

	"crowsnest/redact/internal/shape"
)

// secondArgument finds the password of a call such as url.UserPassword("u", "p"),
// whose arguments begin at i.
func (sc *scanner) secondArgument(i int) span {
	for range 2 {
		n := 0
		for isBlank(sc.byteAt(i)) || sc.byteAt(i) == ',' {
			i++
		}
		for sc.byteAt(i+n) == '\\' {
			n++
		}
		if !isQuote(sc.byteAt(i + n)) {
			return span{}
		}
		p := sc.quoted(i+n, n)
		if c := sc.byteAt(p.to + n + 1); c == ')' || i+n+1 == p.from && isClosed(c) {
			return p
		}
		i = p.to + n + 1
	}
	return span{}
}

func isClosed(c byte) bool { return c == 0 || c == '\n' }

// rest is all after i, unless what is opened there is empty.
func (sc *scanner) rest(i int) span {
	if c := sc.byteAt(i); c == '}' || c == 0 || strings.HasPrefix(sc.s[i:], Mask) {
		return span{}
	}
	return span{i, len(sc.s)}
}

// passwordHash finds what crypt(3) and directories make of passwords, at i.
func (sc *scanner) passwordHash(i int) span {
	end := sc.run(i+1, func(c byte) bool { return isBase64(c) || strings.IndexByte("$.,:{}", c) >= 0 })
	for end > i && strings.IndexByte(".,:", sc.s[end-1]) >= 0 {
		end--
	}
	if cut := strings.IndexByte(sc.s[i:end], ':'); cut >= 0 && !strings.HasPrefix(sc.s[i:], "SCRAM") {
		end = i + cut
	}
	if end-i < 24 || strings.IndexByte(sc.s[i:end], '$') < 0 && sc.s[i] != '{' {
		return span{}
	}
	return span{i, end}
}

// oracleLogin finds the password of user/password@host, where i is at the @ or at
// the jdbc: before.
func (sc *scanner) oracleLogin(i int) span {
	if sc.s[i] != '@' {
		n := strings.IndexByte(sc.s[i:min(len(sc.s), i+128)], '@')
		if n < 0 {
			return span{}
		}
		i += n
	}
	from := i
	for from > 0 && i-from < 64 && !isSpace(sc.s[from-1]) && sc.s[from-1] != '/' && !isQuote(sc.s[from-1]) {
		from--
	}
	if from == i || sc.byteAt(from-1) != '/' || !isAlnum(sc.byteAt(from-2)) {
		return span{}
	}
	return span{from, i}
}

// hook finds the word of a URL that is the right to call it: letters and digits.
func (sc *scanner) hook(i int) span {
	end := i
	for end < len(sc.s) && end-i < maxKnown && (isAlnum(sc.s[end]) || sc.s[end] == '/') {
		end++
	}
	sc.steps += end - i
	if end-i < 20 || !strings.ContainsAny(sc.s[i:end], "0123456789") {
		return span{}
	}
	return span{i, end}
}

// login finds user:password@host:1234 and user:password@host/x that have no
// scheme; the @ is at i. A mail address has neither port nor path.
func (sc *scanner) login(i int) span {
	s, from := sc.s, i
	for from > 0 && i-from < 128 && !isSpace(s[from-1]) && strings.IndexByte("\"'`<>,;()[]{}|=/\\", s[from-1]) < 0 {
		from--
	}
	user, password, found := strings.Cut(s[from:i], ":")
	if !found && sc.byteAt(from-1) == '/' && isAlnum(sc.byteAt(from-2)) && looksChosen(user) { // user/password@host:1521 of Oracle
		if end := sc.run(i+1, isDotted); sc.byteAt(end) == ':' && isDigit(sc.byteAt(end+1)) {
			return span{from, i}
		}
	}
	if !found || user == "" || len(password) < 4 || strings.Contains(user, ".") || smallNumber().MatchString(password) || sc.byteAt(from-1) == '/' {
		return span{}
	}
	if shape.Of(user).Upper > 1 && isLowerWord(user[len(user)-1:]) && isLowerWord(password) { // LeaseRenewer:hdfs@node-1:9000
		return span{}
	}
	end := sc.run(i+1, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' })
	host := s[i+1 : end]
	if host == "" || strings.HasPrefix(host, "sha") || isUpper(host[0]) {
		return span{}
	}
	if c := sc.byteAt(end); c == ':' && isDigit(sc.byteAt(end+1)) || c == '/' && strings.Contains(host, ".") {
		return span{from + len(user) + 1, i}
	}
	return span{}
}

// passwordFile finds the last field of host:port:database:user:password, as in
// .pgpass; the colon before the port is at i.
func (sc *scanner) passwordFile(i int) span {
	if i == 0 || !isAlnum(sc.s[i-1]) && sc.s[i-1] != '*' {
		return span{}
	}
	at := sc.run(i+1, isDigit)
	if at-i < 4 || at-i > 6 {
		return span{}
	}
	address := true // of IPv6
	for range 2 {
		if sc.byteAt(at) != ':' {
			return span{}
		}
		end := sc.run(at+1, isToolByte)
		if end == at+1 || end-at > 64 {
			return span{}
		}
		address = address && end-at <= 5 && sc.run(at+1, isHex) == end
		at = end
	}
	if address || sc.byteAt(at) != ':' || at+1 >= len(sc.s) || isSpace(sc.s[at+1]) {
		return span{}
	}
	return sc.unquoted(at + 1)
}

// fillers are words between "password" and the password.
var fillers = words("is was of for with value user new has been set to as the admin root 5 7 0 8 9 changed using supplied given")

func words(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

// announced finds the password after the word at i in prose: it has a digit or
// a sign that words do not have.
func (sc *scanner) announced(i int) span {
	end := i
	for end < len(sc.s) && end-i < 16 && isLetter(sc.s[end]) {
		end++
	}
	credentials := false
	switch strings.ToLower(sc.s[i:end]) {
	case "password", "passwd", "passphrase", "passcode":
	case "credentials":
		credentials = true
	default:
		return span{}
	}
	word, _ := lastWordOf(sc.s[max(0, i-24):i])
	with := !credentials && (word.String() == "with" || word.String() == "using")
	if p := sc.quotedBehind(end + 1); sc.byteAt(end) == '(' && !p.empty() {
		return p
	}
	mayName := false
	for range 6 {
		if !isBlank(sc.byteAt(end)) {
			return span{}
		}
		for isBlank(sc.byteAt(end)) {
			end++
		}
		if end >= len(sc.s) {
			return span{}
		}
		p := sc.word(end)
		if cut := strings.IndexAny(sc.s[p.from:p.to], `\|`); cut > 0 {
			p.to = p.from + cut
		}
		if credentials {
			if cut := strings.IndexAny(sc.s[p.from:p.to], ":/"); cut > 0 {
				p.from += cut + 1
			}
		}
		text := sc.s[p.from:p.to]
		if looksChosen(text) || with && len(text) >= 6 && isLowerWord(text) && !sc.r.isWord(text) && !isVerb(text) {
			return p
		}
		switch word := strings.ToLower(strings.TrimRight(text, ":")); {
		case fillers[word]:
			with = with || text == "is"
			mayName = mayName || word == "for" || word == "user"
		case mayName: // whose password it is
			mayName, with = false, false
		default:
			return span{}
		}
		end = p.to
	}
	return span{}
}

// looksChosen reports whether a word after "password" is one: it has letters and
// digits or signs, and is no name, version, address or place.
func looksChosen(s string) bool {
	if len(s) < 6 || len(s) > 128 || s == Mask {
		return false
	}
	var upper, lower, digit, sign, joint, odd bool
	for i := range len(s) {
		switch c := s[i]; {
		case isUpper(c):
			upper = true
		case isLower(c):
			lower = true
		case isDigit(c):
			digit = true
		case c == '-' || c == '.' || c == '_':
			joint = true
		case strings.IndexByte("!@#$%^*+~?", c) >= 0:
			sign = sign || i > 0 && i < len(s)-1
		case c == '/' || c == '=' || c == '&':
			odd = true
		default:
			return false
		}
	}
	switch {
	case !upper && !lower:
		return false
	case odd:
		return upper && lower && digit && !joint
	case len(s) >= 8 && isRandomCase(shape.Of(s)):
		return true
	}
	return sign || digit && (!joint || upper && lower) && !isAlgorithm(s)
}

// isRandomCase reports whether upper and lower case alternate at random, unlike in
// names such as KubeConfig.
func isRandomCase(sh shape.Shape) bool {
	return 3*sh.Upper >= sh.Length && 3*sh.Lower >= sh.Length && sh.Changes > 1
}

func isAlgorithm(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "sha") || strings.HasPrefix(s, "argon") || strings.HasPrefix(s, "pbkdf") || strings.HasPrefix(s, "base64")
}

// isVerb reports whether a word says what happened to a password.
func isVerb(s string) bool {
	return strings.HasSuffix(s, "ed") || strings.HasSuffix(s, "ing") || strings.HasSuffix(s, "ly") || passwordWords[s]
}

// passwordWords go on after "with password" and "password is".
var passwordWords = words("authentication authorization login protection encryption prompt policy rotation manager based correct incorrect hashes " +
	"strength complexity grant credentials mandatory optional stale default longer shorter hidden secrets rejection fallback")

func isLowerWord(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" }

// quotedBehind returns the text of the quotes at i, if there are any.
func (sc *scanner) quotedBehind(i int) span {
	n := 0
	for sc.byteAt(i+n) == '\\' {
		n++
	}
	if !isQuote(sc.byteAt(i + n)) {
		return span{}
	}
	return sc.quoted(i+n, n)
}

// hexBefore returns the digits before a mark of n characters at i that ends a
// key, such as -us19.
func (sc *scanner) hexBefore(i, n int) span {
	from := i
	for from > 0 && i-from < 40 && isHex(sc.s[from-1]) {
		from--
	}
	to := sc.run(i+n, isDigit)
	if i-from < shape.MinHex || sc.s[i] == '-' && to == i+n {
		return span{}
	}
	return span{from, to}
}

// pin finds four to eight digits.
func (sc *scanner) pin(i int) span {
	end := sc.run(i, isDigit)
	if end-i < 4 || end-i > 8 || isAlnum(sc.byteAt(end)) {
		return span{}
	}
	return span{i, end}
}

// personalToken is pat, 14 letters or digits, a dot and 64 hexadecimal digits.
func (sc *scanner) personalToken(i int) span {
	dot := sc.run(i, isAlnum)
	if dot-i != 17 || sc.byteAt(dot) != '.' {
		return span{}
	}
	end := sc.run(dot+1, isHex)
	if end-dot < 64 {
		return span{}
	}
	return span{i, end}
}

// resendKey is re_, 8 letters or digits, _ and 24 of them, some of them capital.
func (sc *scanner) resendKey(i int) span {
	end := sc.run(i, isWordByte)
	if end-i != 36 || sc.s[i+11] != '_' || !strings.ContainsFunc(sc.s[i:end], func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		return span{}
	}
	return span{i, end}
}
