package rules

import (
	"regexp"
	"slices"
	"strings"
)

// shellMark stands for a value in a text that is parsed as shell commands.
const shellMark = '\uE000'

// shellPlace is where a value stands in a command line.
type shellPlace struct {
	command  bool // it names the program that runs
	code     bool // a shell reads the word as commands once more
	glob     bool // the word has an unquoted *, ? or [
	redirect bool // it names a file that is read or written
	quoted   bool
	comment  bool
}

// shellWords parses the words of command lines as POSIX shells do, as far as it
// matters where a word ends and what it is for. It does not know here-documents.
type shellWords struct {
	text    []rune
	at      int
	words   int // all words, those of substitutions included
	places  []shellPlace
	problem string // why the text is not whole, or ""
}

// shellCommand is the simple command that is read.
type shellCommand struct {
	words    []string
	word     strings.Builder
	inWord   bool
	glob     bool
	redirect bool
	marks    []int // of places in the current word
}

// parseShell parses text as commands.
func parseShell(text string) *shellWords {
	w := &shellWords{text: []rune(text)}
	w.commands(0)
	return w
}

// next returns the next character, 0 at the end, and moves on.
func (w *shellWords) next() rune {
	if w.at >= len(w.text) {
		w.at++
		return 0
	}
	w.at++
	return w.text[w.at-1]
}

func (w *shellWords) peek() rune {
	if w.at >= len(w.text) {
		return 0
	}
	return w.text[w.at]
}

func (w *shellWords) fail(problem string) {
	if w.problem == "" {
		w.problem = problem
	}
}

// commands reads until end, or to the end of the text if end is 0.
func (w *shellWords) commands(end rune) {
	c := &shellCommand{}
	for w.at < len(w.text) {
		r := w.next()
		switch {
		case r == end && end != 0:
			w.endWord(c)
			return
		case strings.ContainsRune(" \t\n;|&(){}<>", r):
			w.separator(c, r)
		case r == '#' && !c.inWord:
			w.comment()
		default:
			w.inWord(c, r)
		}
	}
	w.endWord(c)
	if end != 0 {
		w.fail("a substitution is not closed")
	}
}

// separator ends a word, and with it the command unless more words may follow.
func (w *shellWords) separator(c *shellCommand, r rune) {
	if r == '{' || r == '}' { // of a group, or a part of a word
		if c.inWord || !strings.ContainsRune(" \t\n;", w.peek()) && w.peek() != 0 {
			w.inWord(c, r)
			return
		}
	}
	w.endWord(c)
	switch r {
	case ' ', '\t':
	case '<', '>':
		if r == '<' && w.peek() == '<' {
			w.fail("here-documents are not understood")
		}
		if w.peek() == '(' { // a process substitution
			w.next()
			w.commands(')')
			return
		}
		c.redirect = true
	default:
		c.words, c.redirect = nil, false
	}
}

// inWord reads a part of a word that begins with r.
func (w *shellWords) inWord(c *shellCommand, r rune) {
	c.inWord = true
	switch r {
	case '\\':
		c.word.WriteRune(w.next())
	case '\'':
		w.quotation(c, '\'')
	case '"':
		w.quotation(c, '"')
	case '`':
		w.commands('`')
	case '$':
		w.dollar()
	case shellMark:
		w.mark(c, false)
	default:
		c.glob = c.glob || strings.ContainsRune("*?[", r)
		c.word.WriteRune(r)
	}
}

// quotation reads to the closing quote.
func (w *shellWords) quotation(c *shellCommand, quote rune) {
	for w.at < len(w.text) {
		switch r := w.next(); {
		case r == quote:
			return
		case r == shellMark:
			w.mark(c, true)
		case quote == '\'':
			c.word.WriteRune(r)
		case r == '\\':
			c.word.WriteRune(w.next())
		case r == '`':
			w.commands('`')
		case r == '$':
			w.dollar()
		default:
			c.word.WriteRune(r)
		}
	}
	w.fail("a quote is not closed")
}

// dollar reads what follows a $: a command substitution counts its own words.
func (w *shellWords) dollar() {
	if w.peek() == '(' {
		w.next()
		w.commands(')')
	}
}

func (w *shellWords) comment() {
	for w.at < len(w.text) && w.peek() != '\n' {
		if w.next() == shellMark {
			w.places = append(w.places, shellPlace{comment: true})
		}
	}
}

func (w *shellWords) mark(c *shellCommand, quoted bool) {
	c.marks = append(c.marks, len(w.places))
	c.word.WriteRune(shellMark)
	w.places = append(w.places, shellPlace{quoted: quoted, redirect: c.redirect})
}

// endWord ends the current word, if there is one, and says what it was for.
func (w *shellWords) endWord(c *shellCommand) {
	if !c.inWord {
		return
	}
	w.words++
	word := c.word.String()
	for _, i := range c.marks {
		p := &w.places[i]
		p.glob = c.glob && !p.quoted
		p.command = !c.redirect && startsCommand(c.words) && !assignment.MatchString(word)
		p.code = readsCode(c.words)
	}
	if !c.redirect {
		c.words = append(c.words, word)
	}
	c.word.Reset()
	c.inWord, c.glob, c.redirect, c.marks = false, false, false, nil
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// wrappers run the command that follows them.
	wrappers = []string{"sudo", "env", "exec", "command", "time", "nohup", "xargs", "if", "then", "else", "elif", "while", "until", "do", "!"}
	// interpreters read the argument of -c or -e as a program.
	interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "su", "perl", "python", "python3", "ruby", "node"}
)

// startsCommand reports whether the word after these names the program that runs.
func startsCommand(words []string) bool {
	for _, word := range words {
		if !assignment.MatchString(word) && !slices.Contains(wrappers, word) {
			return false
		}
	}
	return true
}

// readsCode reports whether the word after these is read as a program.
func readsCode(words []string) bool {
	if len(words) == 0 {
		return false
	}
	if slices.Contains([]string{"eval", "source", "."}, words[0]) {
		return true
	}
	for i, word := range words[:len(words)-1] {
		if slices.Contains(interpreters, word[strings.LastIndexByte(word, '/')+1:]) {
			return slices.ContainsFunc(words[i+1:], func(s string) bool { return s == "-e" || s == "-lc" || s == "-c" })
		}
	}
	return false
}
