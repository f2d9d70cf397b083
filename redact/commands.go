package redact

import (
	"strings"
)

// commandReader reads flags and commands whose arguments are secrets.
type commandReader struct {
	valueReader
	toolRead int // end of the text searched for programs
	toolName string
	toolAt   int
}

var programs = newPrograms()

// toolWindow is how far before a flag its program is looked for.
const toolWindow = 256

// tool returns the program whose flags are at i, or "". It reads each byte once and
// remembers the last program.
func (t *commandReader) tool(i int) string {
	for at := max(t.toolRead, i-toolWindow); at < i; {
		from := at
		if at = t.runUpTo(at, i-at, wordBytes); at == from {
			if c := t.s[at]; c == '|' || c == ';' || c == '\n' {
				t.toolName = ""
			}
			at++
		} else if word := t.s[from:at]; len(word) <= 20 {
			if _, found := programs[word]; found {
				t.toolName, t.toolAt = word, from
			}
		}
	}
	t.toolRead = max(t.toolRead, i)
	if t.toolAt < i-toolWindow {
		return ""
	}
	return t.toolName
}

// shortFlag finds the secret of a flag of one letter, such as -P x and -px. The
// letter is at i.
func (t *commandReader) shortFlag(i, to int) span {
	letter := t.s[i]
	if strings.IndexByte("pPkKwsaAXNUucv", letter) < 0 {
		return span{}
	}
	tool, found := programs[t.tool(i-1)]
	has := func(letters string) bool { return strings.IndexByte(letters, letter) >= 0 }
	switch before := t.before(i, 64); {
	case found:
	case has("pP") && (strings.Contains(before, " -u ") || strings.Contains(before, " -U ")):
		if isDigit(t.byteAt(to+1)) && smallNumber().MatchString(t.s[to+1:t.run(to+1, keyBytes)]) {
			return span{} // a port
		}
		tool.spaced = "pP"
	default:
		return span{}
	}
	if to > i+1 {
		switch {
		case t.s[i-2] == '-':
			return span{}
		case has(tool.user):
			return t.userPassword(t.unquoted(i + 1))
		case !has(tool.glued):
			return span{}
		case t.s[i+1] == ':':
			return t.unquoted(i + 2)
		}
		return t.unquoted(i + 1)
	}
	if letter == 'p' && tool.glued == "p" && t.byteAt(to) == ':' {
		return t.unquoted(to + 1)
	}
	if p := t.quotedAt(to); has(tool.glued) && !p.empty() { // -p'x'
		return p
	}
	at, found := t.afterFlag(to)
	switch {
	case !found || t.s[at] == '-', letter == 'v' && !strings.Contains(t.before(i, 40), "password"):
	case has(tool.user):
		p := span{at, t.run(at, unquotedBytes)}
		if cut := strings.IndexAny(t.of(p), "%,:"); cut >= 0 {
			return span{p.from + cut + 1, p.to}
		}
	case has(tool.spaced):
		return t.value(value{key: key{from: i, to: to, class: strongKey}, sep: '=', at: at})
	}
	return span{}
}

// operand says where the secret of a command is: behind so many words, of which one must be the
// name of a secret if it is named, and after the name of a user if it is a login.
type operand struct {
	command      string
	skip         int
	named, login bool
}

// secret returns the word after a command that is its secret. The command ends at i.
func (what operand) secret(t *scanner, i int) span {
	announced := !what.named
	for range what.skip + 4 {
		i = t.run(i, blanks)
		if i >= len(t.s) || isSpace(t.s[i]) || t.s[i] == '|' {
			return span{}
		}
		p := t.word(i)
		text := t.of(p)
		switch {
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, `\\`), len(text) == 2 && text[1] == ':': // a flag, a share, a drive
		case what.skip > 0:
			what.skip--
			announced = announced || t.table.classify(text) >= weakKey
		case !announced && t.run(p.from, keyBytes) == p.to && t.table.classify(text) >= weakKey:
			announced = true
		case !announced || isWord(text) || len(text) < 4 || text == Mask:
			return span{}
		case what.login:
			return afterColon(&t.input, p)
		default:
			return p
		}
		i = p.to
		if isQuote(t.byteAt(i)) {
			i++
		}
	}
	return span{}
}

// afterColon returns the password of user:password, or p if it has no colon.
func afterColon(t *input, p span) span {
	if cut := strings.IndexByte(t.of(p), ':'); cut > 0 && p.from+cut+1 < p.to {
		p.from += cut + 1
	}
	return p
}

// sink is a command that reads a secret from a pipe.
var sink = lazily(`stdin|sudo -S|kinit|cryptsetup|(chpasswd)|passphrase-fd|realm |wg |smbpasswd|vncpasswd|-pass|private-key|luks`)

// echoed finds the secret that a command line pipes into a program.
func (t *scanner) echoed(i int) span {
	for strings.HasPrefix(t.s[i:], "-n ") || strings.HasPrefix(t.s[i:], "-e ") {
		i += len("-n ")
	}
	if i >= len(t.s) {
		return span{}
	}
	p := t.word(i)
	rest := t.from(p.to, 160)
	if to := strings.TrimLeft(rest, `"'\ `); strings.HasPrefix(to, ">") { // a file with the name of a secret
		to = strings.TrimLeft(to, "> ")
		if cut := strings.IndexAny(to, " \"'\\\n;"); cut >= 0 {
			to = to[:cut]
		}
		if t.table.classify(to) >= weakKey {
			return p
		}
		return span{}
	}
	pipe := strings.IndexByte(rest, '|')
	if pipe < 0 || pipe > 40 {
		return span{}
	}
	switch m := sink().FindStringSubmatch(rest[pipe:]); {
	case m == nil:
		return span{}
	case m[1] != "":
		return afterColon(&t.input, p)
	}
	return p
}

// authCommand finds AUTH x and AUTH user x of Redis and SMTP, after AUTH, also in quotes.
func authCommand(t *input, i int) span {
	i = t.runUpTo(i, 8, quotesAndEscapes)
	if !isBlank(t.byteAt(i)) || i+1 >= len(t.s) {
		return span{}
	}
	p := t.word(i + 1)
	for range 2 {
		switch t.of(p) {
		case "default", "PLAIN", "LOGIN", "XOAUTH2", "response":
			at := t.runUpTo(p.to, 8, quotesAndEscapes)
			if !isBlank(t.byteAt(at)) || at+1 == len(t.s) {
				return span{}
			}
			p = t.word(at + 1)
		}
	}
	text := t.of(p)
	if len(text) < 4 || isWord(text) || strings.Trim(text, capitals+"-_5") == "" || isNotSet(text) {
		return span{}
	}
	return p
}
