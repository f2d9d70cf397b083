// Package shell finds out what the words of shell commands are for: whether a value
// in a text would choose a program, be executed as code, or name a file.
package shell

import "strings"

// Mark stands for a value in a text that is parsed as shell commands.
const Mark = '\uE000'

// Place says where a value is in a command line.
type Place struct {
	command  bool // reports whether the word names the program that runs
	code     bool // a shell reads the word as commands once more
	glob     bool // the word has an unquoted *, ? or [
	redirect bool // reports whether the word names a file that is read or written
	quoted   bool
}

// Danger returns why a value must not be at this place and the fix, or "".
func (p Place) Danger() (message, fix string) {
	switch {
	case p.command:
		return "starts a command with a value of a log line, which would choose the program", "name the program in the step"
	case p.code:
		return "has a value in a text that a shell or an interpreter reads as a program", "pass the value as an argument of its own"
	case p.redirect:
		return "reads or writes a file that a value of a log line names", "name the file in the step"
	case p.glob:
		return "has a value in a word with an unquoted *, ? or [", "write the word in single quotes"
	}
	return "", ""
}

// Script is a text parsed as POSIX shell commands, as far as it matters where a word
// ends and what it is for. Here-documents are a problem.
type Script struct {
	Words   int     // including those of substitutions
	Places  []Place // places of the values, in order
	Problem string  // why the text is not complete, or ""
	text    []rune
	at      int
}

// token is a word of a command without its quotes.
type token struct {
	text     string
	marks    []int // its values, as indexes of places
	inner    []int // the values in its substitutions
	glob     bool
	redirect bool
}

// command is the simple command being parsed.
type command struct {
	words  []token
	word   strings.Builder
	inWord bool
	cur    token
	piped  bool // reads the output of the previous command
}

// Parse parses text as commands.
func Parse(text string) *Script {
	w := &Script{text: []rune(text)}
	w.commands(0)
	return w
}

// next consumes and returns the next character, 0 at the end.
func (w *Script) next() rune {
	r := w.peek()
	w.at++
	return r
}

func (w *Script) peek() rune {
	if w.at >= len(w.text) {
		return 0
	}
	return w.text[w.at]
}

func (w *Script) fail(problem string) {
	if w.Problem == "" {
		w.Problem = problem
	}
}

// commands parses up to end, or the whole text if end is 0.
func (w *Script) commands(end rune) {
	c, first := &command{}, len(w.Places)
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

// separator ends a word, and the command unless more words may follow. first is the
// index of the first place of the commands.
func (w *Script) separator(c *command, r rune, first int) {
	switch r {
	case '{', '}': // a brace belongs to a group or a word
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

// redirection parses the operator that starts with r. The number before it is not a word.
func (w *Script) redirection(c *command, r rune) {
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

// inWord parses the part of a word that starts with r.
func (w *Script) inWord(c *command, r rune) {
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
	case Mark:
		w.mark(c, false)
	default:
		c.cur.glob = c.cur.glob || strings.ContainsRune("*?[", r)
		c.word.WriteRune(r)
	}
}

// quotation parses up to the closing quote.
func (w *Script) quotation(c *command, quote rune) {
	for w.at < len(w.text) {
		switch r := w.next(); {
		case r == quote:
			return
		case r == Mark:
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

// dollar parses what follows a $. A command substitution counts its own words.
func (w *Script) dollar(c *command, quoted bool) {
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

// substitution parses commands whose output is part of the word.
func (w *Script) substitution(c *command, end rune) {
	c.inWord = true
	c.word.WriteByte('$')
	first := len(w.Places)
	w.commands(end)
	for i := first; i < len(w.Places); i++ {
		c.cur.inner = append(c.cur.inner, i)
	}
}

// evaluated parses ${...} or arithmetic, whose content the shell expands once more.
func (w *Script) evaluated(end rune) {
	c, first, depth := &command{}, len(w.Places), 0
	for w.at < len(w.text) {
		switch r := w.next(); {
		case r == end && depth == 0:
			w.markCode(first, len(w.Places))
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

// escaped parses the rest of $'...'.
func (w *Script) escaped(c *command) {
	for w.at < len(w.text) {
		switch r := w.next(); r {
		case '\'':
			return
		case '\\':
			w.next()
		case Mark:
			w.mark(c, true)
		default:
			c.word.WriteRune(r)
		}
	}
	w.fail("a quote is not closed")
}

func (w *Script) comment() {
	for w.at < len(w.text) && w.peek() != '\n' {
		if w.next() == Mark {
			w.Places = append(w.Places, Place{})
		}
	}
}

func (w *Script) mark(c *command, quoted bool) {
	c.cur.marks = append(c.cur.marks, len(w.Places))
	c.word.WriteRune(Mark)
	w.Places = append(w.Places, Place{quoted: quoted})
}

// endWord ends the current word, if there is one.
func (w *Script) endWord(c *command) {
	if !c.inWord {
		return
	}
	w.Words++
	c.cur.text = c.word.String()
	for _, i := range c.cur.marks {
		w.Places[i].glob = c.cur.glob && !w.Places[i].quoted
	}
	c.words = append(c.words, c.cur)
	w.dropWord(c)
}

func (w *Script) dropWord(c *command) {
	c.word.Reset()
	c.inWord, c.cur = false, token{}
}

// endCommand ends the current command and notes what its words are for. first is the
// index of the first place that may be part of its input.
func (w *Script) endCommand(c *command, first int) {
	w.endWord(c)
	var args []token
	before := len(w.Places)
	for _, word := range c.words {
		for _, i := range append(word.marks, word.inner...) {
			before = min(before, i)
		}
		if word.redirect {
			w.note(word, func(p *Place) { p.redirect = true })
			continue
		}
		args = append(args, word)
	}
	if w.judge(args) && c.piped {
		w.markCode(first, before)
	}
	w.dropWord(c)
	c.words, c.piped = nil, false
}

func (w *Script) markCode(from, to int) {
	for i := from; i < to; i++ {
		w.Places[i].code = true
	}
}

// note sets what the values of a word are for.
func (w *Script) note(word token, set func(*Place)) {
	for _, i := range append(word.marks, word.inner...) {
		set(&w.Places[i])
	}
}
