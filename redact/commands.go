package redact

import (
	"strings"
)

// commandReader finds secrets that are arguments of flags or commands.
type commandReader struct {
	valueReader
	toolRead int // offset up to which the text was searched for programs
	toolName string
	toolAt   int
}

var programs = newPrograms()

// toolWindow is the maximum distance in bytes between the name of a program and one of its flags.
const toolWindow = 256

// tool returns the name of the program to which the flag at i belongs, or "" if there is none. Each byte is read only
// once, because the last program is remembered.
func (t *commandReader) tool(i int) string {
	for at := max(t.toolRead, i-toolWindow); at < i; {
		from := at
		if at = t.runUpTo(at, i-at, wordBytes); at == from {
			if c := t.s[at]; c == '|' || c == ';' {
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

// shortFlag finds the secret after a flag of one letter, such as -P x or -px. The letter is at i, and the word ends at
// end.
func (t *commandReader) shortFlag(i, end int) span {
	letter := t.s[i]
	if strings.IndexByte("pPkKwsaAXNUucv", letter) < 0 {
		return span{}
	}
	tool, found := programs[t.tool(i-1)]
	if !found {
		if !strings.Contains(t.textBefore(i, 64), " -u ") {
			return span{}
		}
		tool.spaced = "pP"
	}
	has := func(letters string) bool { return strings.IndexByte(letters, letter) >= 0 }
	switch quoted := t.quotedAt(end); {
	case end > i+1 && has(tool.user):
		return t.userPassword(t.unquoted(i + 1))
	case end > i+1 && has(tool.glued):
		return t.unquoted(i + 1)
	case end > i+1:
		return span{}
	case t.byteAt(end) == ':':
		return t.unquoted(end + 1)
	case has(tool.glued) && !quoted.empty(): // a quoted secret in the same word as the flag, as in -p'x'
		return quoted
	}
	at, found := t.afterFlag(end)
	switch {
	case !found:
	case has(tool.user):
		p := span{at, t.run(at, unquotedBytes)}
		if cut := strings.IndexAny(t.textOf(p), "%,:"); cut >= 0 {
			return span{p.from + cut + 1, p.to}
		}
	case has(tool.spaced):
		return t.value(value{key: key{from: i, to: end, class: strongKey}, sep: '=', at: at})
	}
	return span{}
}

// operand describes the position of the secret among the words after a command. skip is the number of words between the
// command and the secret. If named is set, the secret follows a word that is the name of a secret.
type operand struct {
	command string
	skip    int
	named   bool
}

// mechanisms are words, such as the names of users, that may stand between a command and its secret.
var mechanisms = words("mechanism")

// secret returns the secret among the words that follow a command. The command ends at i.
func (what operand) secret(t *scanner, i int) span {
	announced := !what.named
	for range what.skip + 4 {
		i = t.run(i, blanks)
		if i >= len(t.s) {
			return span{}
		}
		p := t.word(i)
		text := t.textOf(p)
		switch {
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, `\\`), len(text) == 2 && text[1] == ':', mechanisms[text]: // a flag, a network share or a drive
		case what.skip > 0:
			what.skip--
			announced = announced || t.table.classify(text) >= weakKey
		case !announced && t.table.classify(text) >= weakKey:
			announced = true
		case !announced || isWord(text) || len(text) < 4: // a short text, such as an operator, is not a secret
			return span{}
		default:
			return p
		}
		i = t.run(p.to, quotesAndEscapes)
	}
	return span{}
}

// sinks are texts of commands that read a secret from their standard input.
var sinks = []string{"stdin", "sudo -S", "kinit", "cryptsetup", "chpasswd", "passphrase-fd", "realm ", "wg ", "smbpasswd", "vncpasswd", "-pass", "private-key", "luks"}

// redirection matches a redirection to a file, whose name is group 1.
var redirection = lazyRegexp(`^["'\\ ]*>[> ]*([^ "'\\\n;]+)`)

// echoed finds the secret that an echo command pipes into a program or writes to a file.
func (sc *scanner) echoed(i int) span {
	for strings.HasPrefix(sc.s[i:], "-n ") || strings.HasPrefix(sc.s[i:], "-e ") {
		i += len("-n ")
	}
	p := sc.word(i)
	rest := sc.textFrom(p.to, 160)
	if before, program, found := strings.Cut(rest, "|"); found && len(before) <= 40 {
		for _, sink := range sinks {
			if strings.Contains(program, sink) {
				return p
			}
		}
	}
	if strings.HasPrefix(strings.TrimLeft(rest, `"'\ `), ">") {
		if m := redirection().FindStringSubmatch(rest); m != nil && sc.table.classify(m[1]) >= weakKey {
			return p
		}
	}
	return span{}
}

// quoteAfterKey finds the secret in PASSWORD 'x' or password "x". The opening quote is at quote.
func (t *commandReader) quoteAfterKey(quote int) span {
	i := t.runStart(quote, 32, escapes)
	if !isBlank(t.byteAt(i - 1)) {
		return span{}
	}
	if !t.table.mayEnd(t.textBefore(i, 2*maxSpaces)) {
		return span{}
	}
	identified := strings.EqualFold(t.textBefore(i, len(" BY ")), " BY ") && strings.Contains(strings.ToLower(t.textBefore(i, 64)), "identified ")
	k := t.keyBefore(i)
	if !identified && (k.class != strongKey || strings.Contains(t.name(k), " ")) {
		return span{}
	}
	return t.exempt(value{key: k, at: i}, t.quoted(quote, quote-i))
}

// flag finds the secret in --token x, -password x or --user name:x.
func (t *commandReader) flag(i int) span {
	s, from := t.s, i+1
	if t.byteAt(from) == '-' {
		from++
	}
	to := t.runUpTo(from, maxKey, keyBytes)
	if to == from {
		return span{}
	}
	name := s[from:to]
	k := key{from: from, to: to, class: t.table.classify(name)}
	if from == i+1 && k.class == noKey {
		if p := t.shortFlag(from, to); !p.empty() {
			return p
		}
	}
	isUser := name == "user" || name == "u" || name == "proxy-user"
	if isUser && t.byteAt(to) == '=' {
		return t.userPassword(t.value(value{key: k, sep: '=', at: min(to+1, len(s)-1)}))
	}
	if k.class >= weakKey {
		if p := t.refused(i); !p.empty() {
			return p
		}
	}
	at, found := t.afterFlag(to)
	if !found {
		return span{}
	}
	switch {
	case k.class == maybeKey || k.class == authKey:
	case k.class == weakKey || k.class == strongKey || k.class == headerKey, name == "value" && strings.Contains(t.textBefore(i, 48), "assword"):
		k.class = strongKey
	case strings.HasSuffix(name, "pin"):
		return span{at, t.run(at, digitSet)}
	case isUser:
		return t.userPassword(t.value(value{key: k, sep: '=', at: at}))
	default:
		return span{}
	}
	return t.value(value{key: k, sep: '=', at: at})
}

// refused finds the value before the flag at i in a message such as: invalid value "x" for flag -token.
func (t *commandReader) refused(i int) span {
	before := strings.TrimRight(t.textBefore(i, maxKnown), "\\\"'`")
	before, found := strings.CutSuffix(strings.TrimSuffix(before, "flag "), " for ")
	if !found {
		return span{}
	}
	start := i - len(t.textBefore(i, maxKnown))
	t.steps += len(before)
	before = strings.TrimRight(before, `\"'`)
	word := strings.LastIndexAny(before, " \t\n\f\r\"'\\") + 1
	quotes := strings.TrimRight(before[:word], "\\\"'`")
	if word == len(before) || !strings.HasSuffix(quotes, "value ") && !strings.HasSuffix(quotes, "argument ") {
		return span{}
	}
	return t.quotedAt(start + len(quotes))
}

// afterFlag returns the start of the value of a flag that is written without "=". The value follows white space, or is
// the next element of a list.
func (t *commandReader) afterFlag(i int) (at int, found bool) {
	i = t.run(i, quotesAndEscapes)
	at = t.runUpTo(i, 12, spacesAndCommas)
	return at, at > i && at < len(t.s)
}

// userPassword returns the password in user:password.
func (t *commandReader) userPassword(p span) span {
	text := t.textOf(p)
	colon := strings.IndexByte(text, ':')
	if colon <= 0 || smallNumber().MatchString(text[:colon]) || strings.HasPrefix(text[colon:], "://") {
		return span{}
	}
	return span{p.from + colon + 1, p.to}
}
