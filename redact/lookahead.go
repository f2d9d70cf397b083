package redact

import (
	"strings"
	"unicode/utf8"

	"crowsnest/redact/internal/shape"
)

// Between the name of a secret and its value, programs write punctuation, quotes, escapes, markup
// and words: ["password","x"], password => x, <key>password</key><string>x, "password of bob set
// to x". A lookAhead reads that glue. Names with = and : are the work of keyValue.

// Bounds of a look-ahead, in bytes: of the glue, and of a value that is judged.
const (
	maxGlue  = 120
	maxValue = 512
)

// lookAhead is the state of reading from a name to its value.
type lookAhead struct {
	sc  *scanner
	key key
	at  int

	name       string
	before     string // the word before the name
	inside     bool   // the word for the secret is not the last one of the name
	keyword    bool   // the name is written like :name, as in Ruby, Elixir and Lisp
	introduced bool   // words before the name say that the value follows
	used       bool   // they say that the value is in use

	words    int  // words of glue
	assigned bool // an operator or a word such as "is" was read
	sep      bool // one of = and : was read
	other    bool // signs or words other than = and : were read
	newline  bool // the value is on another line
	comma    bool // a comma was read, as in a list
	owner    bool // the next word may name whose secret it is
	owned    bool // a word did so
	tagged   bool // an element of a markup language was read
}

// lookFrom finds the value of a secret in whose name the byte at i is.
func lookFrom(sc *scanner, i int) span {
	end := sc.runUpTo(i, maxKey, keyBytes)
	for end > i && (isJoint(sc.s[end-1])) {
		end--
	}
	if end == len(sc.s) || end-i > maxKey/2 {
		return span{}
	}
	l := lookAhead{sc: sc, key: key{from: sc.back(i, maxKey, keyBytes), to: end}, at: end}
	if cut := strings.IndexByte(sc.s[i:end], '.'); cut > 0 && sc.s[end] == '(' { // password.equals(x)
		l.key.to = i + cut
	}
	l.classify()
	if name := sc.s[i:end]; l.key.class == noKey && strings.IndexByte(name, '_') > 0 && strings.IndexByte(name, '.') < 0 && !isProperty(name) { // TOKEN_PYPI
		l.key.class, l.inside = maybeKey, true
	}
	if l.key.class == noKey || l.key.class == queryKey || l.key.class == loginKey {
		return span{}
	}
	l.name = sc.s[l.key.from:l.key.to]
	l.key.quoted = isQuote(sc.byteAt(l.key.from-1)) && isQuote(sc.byteAt(sc.runUpTo(l.key.to, 16, escapes)))
	before, rest := lastWordOf(sc.before(l.key.from, 48))
	l.before = before.String()
	l.keyword = sc.byteAt(l.key.from-1) == ':' && !isAlnum(sc.byteAt(l.key.from-2))
	l.assigned = setters[l.before] && isAlnum(sc.byteAt(l.key.from-2)) || l.name == "PASS" && l.isCommand()
	second, rest := lastWordOf(rest)
	l.introduced = introduced[l.before] || introduced[second.String()]
	l.used = used[l.before] || used[second.String()]
	if login := second.String(); login == "login" || login == "user" {
		l.assigned = true
	}
	if third, _ := lastWordOf(rest); introduced[third.String()] {
		l.introduced, l.used = true, used[third.String()]
	}
	if b := sc.byteAt(l.key.from - 1); l.key.class == weakKey && strings.IndexByte(l.name, '-') > 0 && (!l.key.quoted && !l.assigned && b != '-' && b != ':' && b != '.' || isDigit(l.name[len(l.name)-1])) {
		return span{} // the name of an object
	}
	return l.value()
}

func isJoint(c byte) bool { return c == '.' || c == '-' || c == '_' }

// classify sets the class of the name: of two words, if that says more, as in "API key".
func (l *lookAhead) classify() {
	k, sc := &l.key, l.sc
	k.class = sc.table.classify(sc.s[k.from:k.to])
	if k.class == strongKey || !isBlank(sc.byteAt(k.from-1)) {
		return
	}
	from := sc.back(k.from-1, maxKey/2, keyBytes)
	if from == k.from-1 {
		return
	}
	switch two := sc.table.classify(sc.s[from:k.to]); {
	case two == strongKey:
		k.from, k.class = from, two
	case two == maybeKey && k.class == queryKey:
		if word, _ := lastWordOf(sc.s[from : k.from-1]); keyOf[word.String()] {
			k.from, k.class = from, two
		}
	case two == noKey:
		k.class = noKey
	}
}

// value reads glue and values until a value is a secret. Behind the name of a secret and = or :
// it judges only what replaces the value there.
func (l *lookAhead) value() span {
	var found span
	for range 3 {
		if from := l.at; !l.glue() || l.at == from {
			return found
		}
		p := l.candidate()
		judged := !l.sep || l.other || l.newline || l.inside
		switch {
		case judged && !l.owner && l.isSecret(p), judged && l.owner && judge(l.sc.of(p)) == patternless && !strings.Contains(l.sc.of(p), "."):
			if found.empty() {
				found.from = p.from
			}
			found.to = p.to
		case judged && l.owner && isOwner(l.sc.of(p)):
			l.at, l.owner, l.owned = p.to, false, true
			continue
		}
		if !l.changes(p.to) || isWord(l.sc.of(p)) {
			return found
		}
		if !judged && !p.empty() {
			found.from = p.from
		}
		l.at, l.other = p.to, true
	}
	return found
}

// changes reports whether the text after a value says which value replaces it, or was expected.
func (l *lookAhead) changes(i int) bool {
	rest := strings.TrimLeft(l.sc.from(i, 24), `"'\ ,;`)
	n := 0
	for n < len(rest) && isLetter(rest[n]) {
		n++
	}
	return changers[rest[:n]] || strings.HasPrefix(rest, "->") || strings.HasPrefix(rest, "=>") || strings.HasPrefix(rest, "→")
}

// changers are words between a value and another one of the same name.
var changers = words("change")

// candidate returns the word or quoted text that may be the value.
func (l *lookAhead) candidate() span {
	if strings.HasPrefix(l.sc.s[l.at:], Mask) {
		return span{l.at, l.at + len(Mask)}
	}
	t := input{s: l.sc.from(0, min(len(l.sc.s), l.at+maxValue))}
	if isQuote(t.byteAt(l.at)) {
		l.at = t.back(l.at, 16, escapes)
	}
	p := t.word(l.at)
	l.sc.steps += p.to - l.at
	if !isQuote(t.byteAt(p.from - 1)) {
		if cut := strings.IndexAny(t.of(p), "<|\\\"'`"); cut > 0 {
			p.to = p.from + cut
		}
		for p.to > p.from && strings.IndexByte(".:!?)>", t.s[p.to-1]) >= 0 {
			p.to--
		}
	}
	if p.to-p.from >= maxValue-64 {
		return span{}
	}
	return p
}

// isOwner reports whether a word may be the name of a user or of a program.
func isOwner(s string) bool {
	return s != "" && len(s) < 64 && strings.Trim(s, lowers+capitals+digits+"@._-/") == ""
}

// isSecret reports whether a value is a secret, by what the name and the glue say.
func (l *lookAhead) isSecret(p span) bool {
	s, text := l.sc.s, l.sc.of(p)
	if len(text) < 4 || text == Mask || isNotSet(text) || isWord(text) || strings.Contains(text, "://") || isAddress(text) {
		return false
	}
	quoted := isQuote(l.sc.byteAt(p.from - 1))
	after := l.sc.byteAt(p.to)
	switch {
	case l.newline && !quoted && !isSpace(after) && after != 0 && strings.IndexByte("\\\"]}", after) < 0:
		return false
	case text[0] == '/' && filePath().MatchString(text), s[p.to-1] == '(', after == '(' || after == '=':
		return false
	case !strings.ContainsAny(text, digits) && l.sc.run(p.from, keyBytes) == p.to && l.sc.table.classify(text) >= weakKey: // another name
		return false
	}
	return judge(text) >= l.least(p, quoted)
}

// least returns how much a value must look like a secret.
func (l *lookAhead) least(p span, quoted bool) looks {
	assigned := l.assigned && (!l.comma || l.endsList(p.to, quoted))
	both := quoted && (l.key.quoted || l.keyword) && (!l.comma || assigned)
	prose := !both && !l.isCode()
	switch l.key.class {
	case strongKey, headerKey:
		switch {
		case assigned && (both || l.tagged || l.name == "PASS"):
			return anything
		case assigned, both:
			return numbered
		case prose && !l.isPassword():
			return random
		}
		return chosen
	case weakKey:
		switch {
		case prose && !isSecretName(l.name) && !assigned && (l.used || quoted && (keyOf[l.before] || l.before == "bot")):
			return chosen
		case prose && (isSecretName(l.name) || !assigned || l.comma || l.owned):
			return random
		case assigned || both:
			return numbered
		}
		return chosen
	}
	switch {
	case l.inside:
		return random
	case !prose && (assigned || both) && isShouted(l.name):
		return numbered
	case !prose && (assigned || both):
		return chosen
	case !prose:
		return random
	}
	return patternless
}

// isPassword reports whether the name is one for a password. The word pass says little alone.
func (l *lookAhead) isPassword() bool {
	return l.name == "PASS" || len(l.name) > len("pass") && (strings.Contains(l.name, "pass") || strings.Contains(l.name, "Pass")) || l.introduced
}

// Words before the name of a secret: introduced ones say that the secret follows, used ones do so
// also before words that parsers and objects share, such as token.
var introduced, used = words("introduction"), words("use")

// endsList reports whether a list, or the text with its quoted value, ends at i.
func (l *lookAhead) endsList(i int, quoted bool) bool {
	rest := strings.TrimLeft(l.sc.from(i, 8), "\"'\\ ")
	if rest == "" || l.sc.byteAt(l.key.from-2) == '(' && isShouted(l.name) { // setenv("NAME", "x", 1)
		return quoted
	}
	return strings.IndexByte("])};\n", rest[0]) >= 0
}

// isCode reports whether the name is one of a variable or a field, rather than of prose or of an
// object.
func (l *lookAhead) isCode() bool {
	return strings.IndexByte(l.name, '_') > 0 || isShouted(l.name) && len(l.name) > 6 || l.keyword || l.assigned && isCamel(l.name) && !refersToSecret(l.name)
}

// isCommand reports whether the name begins what a client sends: PASS x.
func (l *lookAhead) isCommand() bool {
	before := l.sc.before(l.key.from, 2)
	return before == "> " || before == `\n` || strings.HasSuffix(before, "\n")
}

// fieldOfSecret finds the value of a field of a Secret, as programs report changes: Secret ns/name:
// data.field: x. The word data is at i.
func (sc *scanner) fieldOfSecret(i int) span {
	end := sc.runUpTo(i, maxKey, keyBytes)
	if end < i+len("data.x") || sc.s[i+len("data")] != '.' || !reportsSecret(sc.before(i, 128)) {
		return span{}
	}
	l := lookAhead{sc: sc, key: key{from: i, to: end, class: strongKey}, at: end, name: sc.s[i:end], inside: true}
	return l.value()
}

// reportsSecret reports whether the text before a field names a Secret.
func reportsSecret(before string) bool {
	at := max(strings.LastIndex(before, "Secret"), strings.LastIndex(before, "secret"))
	return at >= 0 && at+len("secret") < len(before) && strings.IndexByte(" /:\"", before[at+len("secret")]) >= 0
}

// isProperty reports whether a name, such as token_type, is that of a property of a secret.
func isProperty(name string) bool {
	word, _ := lastWordOf(name[strings.LastIndexByte(name, '_')+1:])
	return properties[word.String()]
}

var properties = words("property")

// isShouted reports whether a name has capitals and no small letters.
func isShouted(s string) bool {
	return !strings.ContainsAny(s, lowers) && strings.ContainsAny(s, capitals)
}

// isCamel reports whether a name is written like this: apiKey.
func isCamel(s string) bool {
	return strings.IndexByte(s, ' ') < 0 && len(s) > 1 && strings.ContainsAny(s[1:], capitals) && strings.ContainsAny(s, lowers)
}

// isSetter reports whether a name is that of a method that sets a value.
func isSetter(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return len(name) > 4 && isUpper(name[len("set")]) && strings.EqualFold(name[:len("set")], "set") || len(name) > 5 && isUpper(name[len("with")]) && strings.EqualFold(name[:len("with")], "with")
}

// isSecretName reports whether a name ends with "secret", as do those of references to objects.
func isSecretName(name string) bool {
	name = strings.TrimRight(name, "sS")
	return len(name) >= 6 && strings.EqualFold(name[len(name)-5:], "ecret")
}

// looks say how much a value looks like a secret.
type looks uint8

const (
	anything    looks = iota
	numbered          // the word has letters and digits
	chosen            // the word is no name
	random            // the word has letters of both cases and digits, or signs
	patternless       // the word has no order
)

func judge(s string) looks {
	switch {
	case looksChosen(s):
		sh := shape.Of(s)
		mixed := sh.Upper > 0 && sh.Lower > 0 && sh.Digit > 0
		switch {
		case len(s) >= 12 && mixed && sh.Changes*100 >= 24*sh.Length, sh.Length >= shape.MinAnnounced && sh.IsSecret(true):
			return patternless
		case mixed && sh.Changes > 3, len(s) >= 8 && mixed && sh.Upper > 1 && sh.Lower > 1, len(s) >= 8 && strings.ContainsAny(s[1:], "!@#$%^*+~?="):
			return random
		}
		return chosen
	case shape.IsUUID(s):
		return chosen
	case len(s) >= 8 && strings.ContainsAny(s, digits) && strings.ContainsAny(s, lowers+capitals) && !strings.ContainsAny(s, " /:,=()[]{}<>\"'") && !isAlgorithm(s) && !objectName().MatchString(s):
		return numbered
	}
	return anything
}

// isAddress reports whether a word has nothing but digits and what joins them.
func isAddress(s string) bool { return strings.Trim(s, digits+".:/-+,%") == "" }

// setters are commands that are followed by a name and its value.
var setters = words("setter")

// Words between a name and its value. Assigning ones say that the value follows.
var glueWords, assigningWords = words("glue"), words("assigning")

// glue skips what is between the name and a value, and reports whether a value may follow.
func (l *lookAhead) glue() bool {
	s, start := l.sc.s, l.at
	closing := l.key.quoted && l.at == l.key.to
	for l.at < len(s) && l.at-start < maxGlue {
		switch c := s[l.at]; {
		case isBlank(c):
			l.at++
		case c == '\n' || c == '\r':
			l.newline, l.assigned = true, l.assigned || l.key.quoted
			l.at++
		case c == '\\' && strings.IndexByte("nrt", l.sc.byteAt(l.at+1)) >= 0:
			l.newline = l.newline || s[l.at+1] != 't'
			l.at += 2
		case c == '\\':
			l.at++
		case isQuote(c):
			if !closing && !l.closes(l.at) {
				if end := l.sc.runUpTo(l.at+1, 12, letters); end == l.at+1 || !isQuote(l.sc.byteAt(end)) && s[min(end, len(s)-1)] != '\\' || !isFieldName(s[l.at+1:end]) {
					return true
				}
			}
			closing = false
			l.at++
		case isLetter(c):
			if !l.word() {
				return true
			}
			closing = false
		case c == '<' && strings.HasPrefix(s[l.at:], Mask):
			if after := l.sc.byteAt(l.at + len(Mask)); !isQuote(after) && after != '\\' {
				return true
			}
			l.at, l.assigned, l.other = l.at+len(Mask), true, true // what was hidden is no whole value
		case c == '<' && l.tag():
			closing = false
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[l.at:])
			if !strings.ContainsRune("→←⇒…“”„«»‘’‹›–—=:\u00a0", r) {
				return true
			}
			l.other, l.assigned = true, l.assigned || strings.ContainsRune("→←⇒…–—=:", r)
			l.at += n
		default:
			if !l.sign(c) {
				return true
			}
		}
	}
	return false
}

// isFieldName reports whether the name of a field says that a value follows, not what it is.
func isFieldName(w string) bool {
	return glueWords[w] || assigningWords[w] || w == "S" || w == "N"
}

// closes reports whether a quote after glue belongs to the text before it.
func (l *lookAhead) closes(i int) bool {
	next := l.sc.byteAt(i + 1)
	return next == ' ' || next == ':' || next == '=' || next == ',' || next == ')' || next == ']' || next == 0
}

// sign skips punctuation. It reports whether it did.
func (l *lookAhead) sign(c byte) bool {
	s := l.sc.s
	next := l.sc.byteAt(l.at + 1)
	switch c {
	case '=', ':':
		if next == ':' && c == ':' || c == '=' && (next == '=' || next == '>') || c == ':' && next == '=' {
			l.at++
		}
		l.assigned, l.sep = true, true
		l.other = l.other || c == '=' && next == '='
	case '-', '>', '~', '?', '!', '+':
		if end := l.sc.run(l.at, dashes); end-l.at > 3 { // a line
			l.at, l.assigned, l.other = end, true, true
			return true
		}
		if next != '>' && next != '=' && c != '>' || c == '-' && isLetter(next) {
			return false
		}
		if c != '>' {
			l.at++
		}
		l.assigned, l.other = true, true
	case '(', '[', '{', '|', '<':
		if next == ')' {
			return false // a call
		}
		l.assigned = l.assigned || c == '(' && isSetter(l.name)
		if c == '<' && next == '=' {
			l.at++
			l.assigned = true
		}
		l.assigned = l.assigned || c == '|' || c == '<'
		l.comma = l.comma && c != '|'
		l.other = true
		if c == '<' && (next == '-' || next == '<') {
			l.at += strings.IndexFunc(s[l.at:]+" ", func(r rune) bool { return r != '<' && r != '-' }) - 1
		}
	case ')', ']':
		l.other = true
		if rest := strings.TrimLeft(l.sc.from(l.at+1, 4), " )]"); rest == "" || strings.IndexByte("=:-,", rest[0]) < 0 {
			return false
		}
	case ',', ';':
		l.assigned, l.other, l.comma = true, true, l.comma || l.key.quoted || isBlank(next)
	case '*':
		l.other = true
	case '.':
		if next != '.' {
			return false
		}
		l.at = l.sc.run(l.at, dots) - 1
		l.assigned, l.other = true, true
	default:
		return false
	}
	l.at++
	return true
}

// word skips a word of glue. It reports whether it did.
func (l *lookAhead) word() bool {
	s := l.sc.s
	end := l.sc.runUpTo(l.at, 24, glueBytes)
	if n := end - l.at; n == 1 && (s[l.at] == 's' || s[l.at] == 'b') { // s:5:"x" of PHP, b'x' of Python
		if to := l.sc.runUpTo(end+1, 6, digitSet); s[l.at] == 's' && l.sc.byteAt(end) == ':' && to > end+1 && l.sc.byteAt(to) == ':' {
			l.at, l.assigned, l.other = to+1, true, true
			return true
		}
		if isQuote(l.sc.byteAt(end)) {
			l.at = end
			return true
		}
		return false
	}
	folded, _ := lastWordOf(s[l.at:end])
	w := folded.String()
	last := w[strings.LastIndexByte(w, '_')+1:]
	assigns := assigningWords[last]
	next := l.sc.byteAt(end)
	if !assigns && !glueWords[last] || l.words == 8 || next != 0 && strings.IndexByte(" \t\r\n:=,;\"'`(\\<-{[", next) < 0 || next == '-' && l.sc.byteAt(end+1) != '>' {
		return false
	}
	if w == "type" && next != '=' && !isQuote(next) { // no value follows "type"
		return false
	}
	switch {
	case next == '(' && isDigit(l.sc.byteAt(end+1)): // string(14) of PHP
		end = min(len(s), l.sc.runUpTo(end+1, 6, digitSet)+1)
		assigns = true
	case next == '(' || w == "just" || w == "some":
		assigns = true
	default:
		l.owner = w == "for" || w == "of" || w == "user" || w == "by" || w == "account"
	}
	l.at, l.other, l.assigned, l.words = end, true, l.assigned || assigns, l.words+1
	return true
}

// tag skips an element of a markup language: </key>, <string>, <![CDATA[.
func (l *lookAhead) tag() bool {
	rest := l.sc.from(l.at, 48)
	if strings.HasPrefix(rest, "<![CDATA[") {
		l.at += len("<![CDATA[")
		l.assigned, l.other = true, true
		return true
	}
	end := strings.IndexByte(rest, '>')
	if end < 2 || strings.Trim(rest[1:end], lowers+capitals+"/_.:") != "" || rest[1] != '/' && l.sc.byteAt(l.at+end+1) <= ' ' {
		return false
	}
	l.at += end + 1
	l.assigned, l.other, l.newline, l.tagged = true, true, false, true
	return true
}
