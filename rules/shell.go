package rules

import "strings"

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

// shellWord is a word of a command, without its quotes.
type shellWord struct {
	text     string
	marks    []int // its values, as indexes of places
	inner    []int // the values in its substitutions
	glob     bool
	redirect bool
}

// shellCommand is the simple command that is read.
type shellCommand struct {
	words  []shellWord
	word   strings.Builder
	inWord bool
	cur    shellWord
	piped  bool // its input is the output of the command before
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
	c, first := &shellCommand{}, len(w.places)
	for w.at < len(w.text) {
		r := w.next()
		switch {
		case r == end && end != 0:
			w.endCommand(c, first)
			return
		case strings.ContainsRune(" \t\n;|&(){}<>", r):
			w.separator(c, r, first)
		case r == '#' && !c.inWord:
			w.comment()
		default:
			w.inWord(c, r)
		}
	}
	w.endCommand(c, first)
	if end != 0 {
		w.fail("a substitution is not closed")
	}
}

// separator ends a word, and with it the command unless more words may follow. first
// is the first place of the commands.
func (w *shellWords) separator(c *shellCommand, r rune, first int) {
	switch r {
	case '{', '}': // of a group, or a part of a word
		if c.inWord || !strings.ContainsRune(" \t\n;", w.peek()) && w.peek() != 0 {
			w.inWord(c, r)
			return
		}
	case '<', '>':
		w.redirection(c, r)
		return
	case ' ', '\t':
		w.endWord(c)
		return
	case '(':
		if w.peek() == '(' { // arithmetic
			w.next()
			w.evaluated(')')
		}
	case '&':
		if w.peek() == '>' {
			w.endWord(c)
			return
		}
	}
	w.endCommand(c, first)
	c.piped = r == '|' && w.peek() != '|'
	if r == '|' && !c.piped || r == '|' && w.peek() == '&' {
		w.next()
	}
}

// redirection reads the operator that begins with r. The number before it is no word.
func (w *shellWords) redirection(c *shellCommand, r rune) {
	if w.peek() == '(' { // a process substitution is a word
		w.next()
		w.substitution(c, ')')
		return
	}
	if strings.Trim(c.word.String(), "0123456789") == "" {
		w.dropWord(c)
	}
	w.endWord(c)
	if r == '<' && w.peek() == '<' {
		w.fail("here-documents are not understood")
	}
	for w.peek() != 0 && strings.ContainsRune("<>&|", w.peek()) {
		w.next()
	}
	c.cur.redirect = true
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
		w.substitution(c, '`')
	case '$':
		w.dollar(c, false)
	case shellMark:
		w.mark(c, false)
	default:
		c.cur.glob = c.cur.glob || strings.ContainsRune("*?[", r)
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
			w.substitution(c, '`')
		case r == '$':
			w.dollar(c, true)
		default:
			c.word.WriteRune(r)
		}
	}
	w.fail("a quote is not closed")
}

// dollar reads what follows a $: a command substitution counts its own words.
func (w *shellWords) dollar(c *shellCommand, quoted bool) {
	c.word.WriteByte('$')
	switch r := w.peek(); {
	case r == '(':
		w.next()
		if w.peek() == '(' {
			w.next()
			w.evaluated(')')
			if w.next() != ')' {
				w.fail("a substitution is not closed")
			}
			return
		}
		w.substitution(c, ')')
	case r == '{':
		w.next()
		w.evaluated('}')
	case r == '\'' && !quoted:
		w.next()
		w.escaped(c)
	}
}

// substitution reads commands whose output is a part of the word.
func (w *shellWords) substitution(c *shellCommand, end rune) {
	c.inWord = true
	c.word.WriteByte('$')
	first := len(w.places)
	w.commands(end)
	for i := first; i < len(w.places); i++ {
		c.cur.inner = append(c.cur.inner, i)
	}
}

// evaluated reads ${...} or arithmetic: the shell expands what it holds once more.
func (w *shellWords) evaluated(end rune) {
	c, first, depth := &shellCommand{}, len(w.places), 0
	for w.at < len(w.text) {
		switch r := w.next(); {
		case r == end && depth == 0:
			for i := first; i < len(w.places); i++ {
				w.places[i].code = true
			}
			return
		case r == end:
			depth--
		case r == '(' && end == ')':
			depth++
		default:
			w.inWord(c, r)
		}
	}
	w.fail("a substitution is not closed")
}

// escaped reads the rest of $'...'.
func (w *shellWords) escaped(c *shellCommand) {
	for w.at < len(w.text) {
		switch r := w.next(); r {
		case '\'':
			return
		case '\\':
			w.next()
		case shellMark:
			w.mark(c, true)
		default:
			c.word.WriteRune(r)
		}
	}
	w.fail("a quote is not closed")
}

func (w *shellWords) comment() {
	for w.at < len(w.text) && w.peek() != '\n' {
		if w.next() == shellMark {
			w.places = append(w.places, shellPlace{comment: true})
		}
	}
}

func (w *shellWords) mark(c *shellCommand, quoted bool) {
	c.cur.marks = append(c.cur.marks, len(w.places))
	c.word.WriteRune(shellMark)
	w.places = append(w.places, shellPlace{quoted: quoted})
}

// endWord ends the current word, if there is one.
func (w *shellWords) endWord(c *shellCommand) {
	if !c.inWord {
		return
	}
	w.words++
	c.cur.text = c.word.String()
	for _, i := range c.cur.marks {
		w.places[i].glob = c.cur.glob && !w.places[i].quoted
	}
	c.words = append(c.words, c.cur)
	w.dropWord(c)
}

func (w *shellWords) dropWord(c *shellCommand) {
	c.word.Reset()
	c.inWord, c.cur = false, shellWord{}
}

// endCommand ends the current command and judges what its words are for. first is
// the first place that may be a part of its input.
func (w *shellWords) endCommand(c *shellCommand, first int) {
	w.endWord(c)
	var args []shellWord
	before := len(w.places)
	for _, word := range c.words {
		for _, i := range append(word.marks, word.inner...) {
			before = min(before, i)
		}
		if word.redirect {
			w.note(word, func(p *shellPlace) { p.redirect = true })
			continue
		}
		args = append(args, word)
	}
	if w.judge(args) && c.piped {
		for i := first; i < before; i++ {
			w.places[i].code = true
		}
	}
	w.dropWord(c)
	c.words, c.piped = nil, false
}

// note says what the values of a word are for.
func (w *shellWords) note(word shellWord, say func(*shellPlace)) {
	for _, i := range append(word.marks, word.inner...) {
		say(&w.places[i])
	}
}
