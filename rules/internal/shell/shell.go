// Package shell determines the purpose of each word in shell commands. It finds out whether a
// value in a text would choose a program, be executed as code, or name a file.
package shell

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Mark replaces each value in a text that is parsed as shell commands.
const Mark = '\uE000'

// Place describes the word of a command line that contains a value.
type Place struct {
	command  bool // whether the word is the name of the program to run
	code     bool // whether a shell parses the word again as commands
	glob     bool // whether the word has an unquoted *, ? or [
	redirect bool // whether the word names a file that is read or written
}

// Danger returns the reason why a value is dangerous in this word and the fix, or "" if it is not dangerous.
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

// Script is a text that was parsed as commands of Bash. It has only the data that show where each word ends and what
// its purpose is. A here-document is a problem.
type Script struct {
	Words   int     // number of words, including those in command substitutions
	Places  []Place // places of the values, in the order of the text
	Problem string  // reason why the text is not a complete command, or ""

	text    string
	offsets []int // offsets of the values in the text
	start   int   // offset in the text of the section that was parsed last
}

// token is a word of a command without its quotes.
type token struct {
	text string
	node syntax.Node
}

// name replaces Mark while a text is parsed. It has as many bytes as Mark. Like a value, it may be a part of a name or
// of an expression.
const name = "_V_"

// Parse parses text as commands. If Bash refuses the text, it may be prose that contains commands. Then Parse tries
// each line separately. In a line that Bash refuses, it tries the texts between brackets.
func Parse(text string) *Script {
	w := &Script{text: text}
	for i, r := range text {
		if r == Mark {
			w.offsets = append(w.offsets, i)
		}
	}
	w.Places = make([]Place, len(w.offsets))
	w.parse(0, len(text), "\n", "(){};")
	return w
}

// parse parses the section start:stop of the text. If Bash refuses the section, parse splits it at the characters of
// the first separators, and parses each piece with the other separators.
func (w *Script) parse(start, stop int, separators ...string) {
	part := strings.ReplaceAll(w.text[start:stop], string(Mark), name)
	w.start = start
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(part), "")
	switch {
	case err == nil:
		w.classify(file)
	case syntax.IsIncomplete(err) || len(separators) == 0:
		w.Problem = err.Error()
		if e, ok := errors.AsType[syntax.ParseError](err); ok {
			w.Problem = e.Text
		}
		if strings.Contains(w.Problem, "without closing quote") {
			w.Problem = "a quote is not closed"
		}
	default:
		for start <= stop {
			end := stop
			if n := strings.IndexAny(w.text[start:stop], separators[0]); n >= 0 {
				end = start + n
			}
			w.parse(start, end, separators[1:]...)
			start = end + 1
		}
	}
}

// classify records the purpose of the values. It reports whether a command executes its standard input.
func (w *Script) classify(part syntax.Node) (input bool) {
	syntax.Walk(part, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			w.Words++
			w.markGlob(n.Parts)
		case *syntax.Redirect:
			if n.Op == syntax.Hdoc || n.Op == syntax.DashHdoc {
				w.Problem = "here-documents are not understood"
			}
			w.mark(n.Word, func(p *Place) { p.redirect = true })
		case *syntax.CallExpr:
			tokens := w.assignments(n.Assigns)
			for _, arg := range n.Args {
				tokens = append(tokens, token{w.wordText(arg.Parts), arg})
			}
			input = w.classifyWords(tokens) || input
		case *syntax.DeclClause:
			w.classifyWords(append([]token{{n.Variant.Value, n.Variant}}, w.assignments(n.Args)...))
		case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			w.markCode(n)
		case *syntax.BinaryTest: // a comparison of numbers evaluates its operands, which may contain commands
			if slices.Contains([]syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}, n.Op) {
				w.markCode(n)
			}
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
				w.markCode(n)
			}
		case *syntax.BinaryCmd:
			if n.Op != syntax.Pipe && n.Op != syntax.PipeAll {
				break
			}
			input = w.classify(n.X) || input
			if w.classify(n.Y) {
				w.markCode(n.X)
			}
			return false
		}
		return true
	})
	return input
}

func (w *Script) assignments(all []*syntax.Assign) (out []token) {
	for _, a := range all {
		if a.Index != nil {
			w.markCode(a.Index)
		}
		text := ""
		if a.Name != nil {
			text = a.Name.Value
			w.markCode(a.Name)
		}
		if !a.Naked {
			text += "="
		}
		if a.Value != nil {
			text += w.wordText(a.Value.Parts)
		}
		out = append(out, token{text, a})
	}
	return out
}

// wordText returns the text of a word without its quotes. A command substitution becomes a $.
func (w *Script) wordText(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(part.Value))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			b.WriteString(w.wordText(part.Parts))
		case *syntax.ParamExp, *syntax.ExtGlob:
			b.WriteString(w.text[w.start+int(part.Pos().Offset()) : w.start+int(part.End().Offset())])
		default:
			b.WriteByte('$')
		}
	}
	return strings.ReplaceAll(b.String(), name, string(Mark))
}

func unescape(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, `\`)
		b.WriteString(before)
		if !found || after == "" {
			return b.String()
		}
		b.WriteByte(after[0])
		text = after[1:]
	}
}

// markGlob marks the values in the unquoted parts of a word that is a glob.
func (w *Script) markGlob(parts []syntax.WordPart) {
	glob := false
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		_, extended := part.(*syntax.ExtGlob)
		glob = glob || extended || ok && hasGlob(lit.Value)
	}
	for _, part := range parts {
		switch part.(type) {
		case *syntax.Lit, *syntax.ExtGlob:
			w.mark(part, func(p *Place) { p.glob = p.glob || glob })
		}
	}
}

func hasGlob(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

func (w *Script) markCode(n syntax.Node) { w.mark(n, func(p *Place) { p.code = true }) }

// mark calls set for the place of each value inside a node.
func (w *Script) mark(n syntax.Node, set func(*Place)) {
	for i, at := range w.offsets {
		if at -= w.start; int(n.Pos().Offset()) <= at && at < int(n.End().Offset()) {
			set(&w.Places[i])
		}
	}
}
