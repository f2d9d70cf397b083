package redact

import (
	"strings"
	"unicode/utf8"

	"crowsnest/redact/internal/shape"
)

// Programs write punctuation, quotes, escapes, markup and words between the name of a secret and its value. Examples
// are ["password","x"], password => x, <key>password</key><string>x, "password of bob set to x". A lookAhead reads this
// glue. A name before = or : is handled by valueReader.keyValue.

// Maximum lengths in bytes of the glue and of the value that a lookAhead reads.
const (
	maxGlue  = 120
	maxValue = 512
)

// lookAhead is the state of a search that starts at the name of a secret and looks for the value.
type lookAhead struct {
	sc  *scanner
	key key
	at  int

	name       string
	before     string // text before the name, until announce reads it
	isInside   bool   // whether other words follow the word for the secret inside the name
	introduced bool   // whether a word such as "using" precedes the name

	assigned bool // whether an operator or a word such as "is" was read
	sep      bool // whether an = or : was read
	other    bool // whether punctuation or words other than = and : were read
	newline  bool // whether the value is on another line than the name
	comma    bool // whether a comma was read, as in a list
	owner    bool // whether the next word may name the owner of the secret
	tagged   bool // whether an element of a markup language was read
}

// lookFrom finds the value of a secret whose name contains the byte at i.
func lookFrom(sc *scanner, i int) span {
	end := sc.runUpTo(i, maxKey, keyBytes)
	for end > i && strings.IndexByte("._-", sc.s[end-1]) >= 0 {
		end--
	}
	if end == len(sc.s) || end-i > maxKey/2 {
		return span{}
	}
	l := lookAhead{sc: sc, key: key{from: sc.runStart(i, maxKey, keyBytes), to: end}, at: end}
	if cut := strings.IndexByte(sc.s[i:end], '.'); cut > 0 && sc.s[end] == '(' { // a method of the secret, as in password.equals(x)
		l.key.to = i + cut
	}
	l.classify()
	if l.key.class == noKey && strings.IndexByte(sc.s[i:end], '_') > 0 { // the word for the secret may be at the start of the name, as in TOKEN_PYPI
		l.key.class, l.isInside = maybeKey, true
	}
	if l.key.class == noKey || l.key.class == queryKey || l.key.class == loginKey {
		return span{}
	}
	l.name = sc.s[l.key.from:l.key.to]
	l.key.quoted = isQuote(sc.byteAt(sc.runUpTo(l.key.to, 16, escapes)))
	l.before = sc.textBefore(l.key.from, 48)
	return l.value()
}

// classify sets the class of the name. If the name and the word before it together are certainly the name of a secret,
// as in "API key", both become the name.
func (l *lookAhead) classify() {
	k, sc := &l.key, l.sc
	k.class = sc.table.classify(sc.s[k.from:k.to])
	if k.class == strongKey || !isBlank(sc.byteAt(k.from-1)) {
		return
	}
	if from := sc.runStart(k.from-1, maxKey/2, keyBytes); from < k.from-1 && sc.table.classify(sc.s[from:k.to]) == strongKey {
		k.from, k.class = from, strongKey
	}
}

// value reads the words after the name, and the glue between them, until a word is a secret. If = or : follows the
// name, keyValue examines the first value. Then this method only looks for a second value that replaces the first one,
// as in "x changed to y".
func (l *lookAhead) value() span {
	var found span
	for range 3 {
		if from := l.at; !l.glue() || l.at == from {
			return found
		}
		p := l.candidate()
		judged := !l.sep || l.other || l.newline || l.isInside
		switch {
		case judged && !l.owner && l.isSecret(p), judged && l.owner && judge(l.sc.textOf(p)) == patternless:
			if found.empty() {
				found.from = p.from
			}
			found.to = p.to
		case judged && l.owner:
			l.at, l.owner = p.to, false
			continue
		}
		if !l.changes(p.to) {
			return found
		}
		l.at, l.other = p.to, true
	}
	return found
}

// changes reports whether the text at i, after a value, announces another value that replaces it.
func (l *lookAhead) changes(i int) bool {
	rest := strings.TrimLeft(l.sc.textFrom(i, 24), `"'\ ,;`)
	n := 0
	for n < len(rest) && isLetter(rest[n]) {
		n++
	}
	return changers[rest[:n]] || strings.HasPrefix(rest, "->") || strings.HasPrefix(rest, "→")
}

// changers are the words that stand between the old and the new value of a name.
var changers = words("change")

// candidate returns the word or quoted text at the current position, which may be the value.
func (l *lookAhead) candidate() span {
	if strings.HasPrefix(l.sc.s[l.at:], Mask) {
		return span{l.at, l.at + len(Mask)}
	}
	t := input{s: l.sc.textFrom(0, min(len(l.sc.s), l.at+maxValue))}
	if isQuote(t.byteAt(l.at)) {
		l.at = t.runStart(l.at, 16, escapes)
	}
	p := t.word(l.at)
	l.sc.steps += p.to - l.at
	if !isQuote(t.byteAt(p.from - 1)) {
		if cut := strings.IndexAny(t.textOf(p), "<|\\\"'`"); cut > 0 {
			p.to = p.from + cut
		}
		for p.to > p.from && strings.IndexByte(".:!?)>", t.s[p.to-1]) >= 0 {
			p.to--
		}
	}
	return p
}

// isSecret reports whether a value is a secret. The name and the glue determine how much the value must look like a
// secret.
func (l *lookAhead) isSecret(p span) bool {
	text := l.sc.textOf(p)
	if len(text) < 4 || text == Mask || isWord(text) || text[0] == '/' {
		return false
	}
	if after := l.sc.byteAt(p.to); after == '(' || after == '=' {
		return false
	}
	return judge(text) >= l.least(p, isQuote(l.sc.byteAt(p.from-1)))
}

// least returns how much a value must at least look like a secret to count as one.
func (l *lookAhead) least(p span, quoted bool) looks {
	l.announce()
	assigned := l.assigned && (!l.comma || l.endsList(p.to, quoted))
	keyword := l.sc.byteAt(l.key.from-1) == ':' && !isAlnum(l.sc.byteAt(l.key.from-2)) // a keyword in Ruby, as in :name "x"
	both := quoted && (l.key.quoted || keyword)
	prose := !both && strings.IndexByte(l.name, '_') <= 0 && !(l.assigned && isCamel(l.name))
	switch l.key.class {
	case strongKey, headerKey:
		switch {
		case assigned && (both || l.tagged || l.name == "PASS"):
			return anything
		case assigned, both:
			return numbered
		case prose && len(l.name) <= len("pass") && l.name != "PASS" && !l.introduced:
			return random
		}
		return chosen
	case weakKey:
		switch {
		case prose && (isSecretName(l.name) || !assigned && !l.introduced):
			return random
		case assigned, both:
			return numbered
		}
		return chosen
	}
	switch {
	case prose:
		return patternless
	case l.isInside || !assigned && !both:
		return random
	}
	return numbered
}

// introduced lists the words before the name of a secret that announce the secret.
var introduced = words("introduction")

// announce reads the words before the name once.
func (l *lookAhead) announce() {
	if l.before == "" {
		return
	}
	before, rest := lastWordOf(l.before)
	second, rest := lastWordOf(rest)
	third, _ := lastWordOf(rest)
	login := second.String() == "login" || second.String() == "user"
	l.assigned = l.assigned || login || setters[before.String()] || l.name == "PASS" && l.isCommand()
	l.introduced = introduced[before.String()] || introduced[second.String()] || introduced[third.String()]
	l.before = ""
}

// endsList reports whether a list ends at i. If the text ends at i, or the value is an argument of a call, it returns
// whether the value is quoted.
func (l *lookAhead) endsList(i int, quoted bool) bool {
	rest := strings.TrimLeft(l.sc.textFrom(i, 8), "\"'\\ ")
	if rest == "" || l.sc.byteAt(l.key.from-2) == '(' { // a call such as setenv("NAME", "x", 1)
		return quoted
	}
	return strings.IndexByte("])};\n", rest[0]) >= 0
}

// isCommand reports whether the name is a command of a protocol, such as PASS x.
func (l *lookAhead) isCommand() bool {
	before := l.sc.textBefore(l.key.from, 2)
	return before == "> " || before == `\n` || strings.HasSuffix(before, "\n")
}

// fieldOfSecret finds the value of a field of a Secret in a report about changes, as in Secret ns/name: data.field: x.
// The word data is at i.
func (sc *scanner) fieldOfSecret(i int) span {
	end := sc.runUpTo(i, maxKey, keyBytes)
	if end < i+len("data.x") || sc.s[i+len("data")] != '.' || !namesSecret().MatchString(sc.textBefore(i, 128)) {
		return span{}
	}
	l := lookAhead{sc: sc, key: key{from: i, to: end, class: strongKey}, at: end, name: sc.s[i:end], isInside: true}
	return l.value()
}

// namesSecret matches a text that contains the kind Secret.
var namesSecret = lazyRegexp(`[Ss]ecret[ /:"]`)

// isShouted reports whether all letters of a name are upper-case letters.
func isShouted(s string) bool {
	return !strings.ContainsAny(s, lowers) && strings.ContainsAny(s, capitals)
}

func isCamel(s string) bool {
	return strings.ContainsAny(s[1:], capitals) && strings.ContainsAny(s, lowers) && strings.IndexByte(s, ' ') < 0
}

// isSecretName reports whether a name ends with "secret", like the names of references to Secrets.
func isSecretName(name string) bool {
	name = strings.TrimRight(name, "sS")
	return strings.EqualFold(name[max(0, len(name)-len("ecret")):], "ecret")
}

// looks states how much a value looks like a secret, in ascending order.
type looks uint8

const (
	anything    looks = iota
	numbered          // the value has letters and digits
	chosen            // the value is not a name
	random            // the value has special characters, or letters of both cases and digits
	patternless       // the characters of the value look random
)

func judge(s string) looks {
	if looksChosen(s) {
		sh := shape.Measure(s)
		mixed := sh.Upper > 0 && sh.Lower > 0 && sh.Digit > 0
		switch {
		case len(s) >= 12 && mixed, sh.Length >= shape.MinAnnounced && sh.IsSecret(true):
			return patternless
		case len(s) >= 8 && (mixed || strings.ContainsAny(s[1:], "!@#$%^*+~?=")):
			return random
		}
		return chosen
	}
	if len(s) >= 8 && strings.ContainsAny(s, digits) && strings.ContainsAny(s, lowers+capitals) && !strings.ContainsAny(s, " /:,=()[]{}<>\"'") {
		return numbered
	}
	return anything
}

// setters are the commands that are followed by a name and its value.
var setters = words("setter")

// Words between a name and its value. The value directly follows one of assigningWords.
var glueWords, assigningWords = words("glue"), words("assigning")

// glue skips the text between the name and a value. It returns false if no value can follow.
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
			l.newline = l.newline || s[l.at+1] == 'n'
			l.at += 2
		case c == '\\':
			l.at++
		case isQuote(c):
			if !closing && !l.closes(l.at) {
				if end := l.sc.runUpTo(l.at+1, 12, letters); end == l.at+1 || !isQuote(l.sc.byteAt(end)) && l.sc.byteAt(end) != '\\' {
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
			l.at, l.assigned, l.other = l.at+len(Mask), true, true // the hidden section is not the whole value
		case c == '<' && l.tag():
			closing = false
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRuneInString(s[l.at:])
			l.at, l.assigned, l.other = l.at+n, true, true
		default:
			if !l.sign(c) {
				return true
			}
		}
	}
	return false
}

// closes reports whether the quote at i closes the preceding text.
func (l *lookAhead) closes(i int) bool {
	next := l.sc.byteAt(i + 1)
	return next == 0 || strings.IndexByte(" :=,)]", next) >= 0
}

// sign skips punctuation. It returns false if it skipped nothing.
func (l *lookAhead) sign(c byte) bool {
	next := l.sc.byteAt(l.at + 1)
	switch c {
	case '=', ':':
		l.assigned, l.sep = true, true
		l.other = l.other || c == '=' && next == '='
	case '-', '>', '~', '?', '!', '+':
		if end := l.sc.run(l.at, dashes); end-l.at > 3 { // a horizontal line made of dashes
			l.at, l.assigned, l.other = end, true, true
			return true
		}
		if next != '>' && next != '=' && c != '>' && l.sc.byteAt(l.at-1) != '<' {
			return false
		}
		l.assigned, l.other = true, true
	case '(', '[', '{', '|', '<':
		if next == ')' {
			return false // a function call
		}
		l.assigned = l.assigned || c == '|' || c == '<' || c == '(' && isCamel(l.name)
		l.comma = l.comma && c != '|'
		l.other = true
	case ')', ']', '*':
		l.other = true
	case ',', ';':
		l.assigned, l.other, l.comma = true, true, l.comma || isBlank(next)
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

// word skips a word of glue. It returns false if it skipped nothing.
func (l *lookAhead) word() bool {
	s := l.sc.s
	end := l.sc.runUpTo(l.at, 24, glueBytes)
	if end-l.at == 1 { // a serialized value of PHP, as in s:5:"x"
		to := l.sc.runUpTo(end+1, 6, digitSet)
		if l.sc.byteAt(to) != ':' || to == end+1 {
			return false
		}
		l.at, l.assigned, l.other = to+1, true, true
		return true
	}
	folded, _ := lastWordOf(s[l.at:end])
	w := folded.String()
	last := w[strings.LastIndexByte(w, '_')+1:]
	assigns := assigningWords[last]
	next := l.sc.byteAt(end)
	if !assigns && !glueWords[last] || next != 0 && strings.IndexByte(" \t\r\n:=,;\"'`(\\<-{[", next) < 0 {
		return false
	}
	if next == '(' { // a type with a length, such as string(14) in PHP
		end = min(len(s), l.sc.runUpTo(end+1, 6, digitSet)+1)
		assigns = true
	} else {
		l.owner = w == "for" || w == "of" || w == "user" || w == "by"
	}
	l.at, l.other, l.assigned = end, true, l.assigned || assigns
	return true
}

// tag skips an element of a markup language, such as </key>, <string> or <![CDATA[.
func (l *lookAhead) tag() bool {
	rest := l.sc.textFrom(l.at, 48)
	end := strings.IndexByte(rest, '>')
	if end < 2 || strings.Trim(rest[1:end], lowers+capitals+"/_.:") != "" || rest[1] != '/' && l.sc.byteAt(l.at+end+1) <= ' ' {
		return false
	}
	l.at += end + 1
	l.assigned, l.other, l.newline, l.tagged = true, true, false, true
	return true
}
