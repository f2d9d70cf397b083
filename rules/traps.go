package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
)

// checkComment warns about a text whose end YAML reads as a comment, so that the end is lost.
func (c *report) checkComment(text string, pos strictyaml.Pos, name string) {
	rest, plain := pos.TextAfter(text)
	comment := strings.TrimLeft(rest, " \t")
	if text == "" || !plain || len(comment) == len(rest) || len(comment) < 2 || comment[0] != '#' || strings.ContainsAny(comment[1:2], " \t#!") {
		return
	}
	c.addWarning(pos.Within(text+rest, len(text)+len(rest)-len(comment)), "cut-by-comment", fmt.Sprintf("%s ends before the #, with which a comment begins", name),
		"if it is text, quote the whole: "+strictyaml.Quote(strings.TrimRight(text+rest, " \t\r"))+"; else write a space behind the #")
}

// typographic are quotation marks that word processors and chat programs insert.
const typographic = "“”„‟‘’‚‛«»"

// unseen are characters that are invisible or look like a space.
const unseen = "\u00a0\u00ad\u200b\u200c\u200d\u2060\u202f\ufeff"

// checkPasted warns about invisible characters and typographic quotes. They come from copied text, and a matcher would
// require them in the line.
func (c *report) checkPasted(text string, pos strictyaml.Pos, name string) {
	c.checkComment(text, pos, name)
	_, n := utf8.DecodeRuneInString(text)
	last, m := utf8.DecodeLastRuneInString(text)
	if len(text) > n+m && strings.ContainsAny(text[:n], typographic) && strings.ContainsRune(typographic, last) && isPlain(pos, text) {
		c.addWarning(pos, "typographic-quotes", name+" begins and ends with typographic quotes, which YAML takes for a part of it", "write "+strictyaml.Quote(text[n:len(text)-m]))
	}
	if k := strings.IndexAny(text, unseen); k >= 0 {
		r, _ := utf8.DecodeRuneInString(text[k:])
		c.addWarning(pos.Within(text, k), "unseen-character", fmt.Sprintf("%s has the character %U, which nobody sees", name, r), "write a space, or nothing; if lines have it, write a regex with "+fmt.Sprintf(`\x{%X}`, r))
	}
}

// findMark returns the position of the first match of re, whose matches contain one of marks. It first searches for the
// marks, because few texts have one, and that search is much faster.
func findMark(re *lazyre.Regexp, text string, marks ...string) []int {
	if !slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) }) {
		return nil
	}
	return re.FindStringIndex(text)
}

func isPlain(pos strictyaml.Pos, text string) bool {
	_, ok := pos.TextAfter(text)
	return ok
}

var (
	lineFilter  = lazyre.New("^(?:\\{.*\\}\\s*)?(\\|=|!=|\\|~|!~)\\s*(?:\"([^\"]*)\"|`([^`]*)`)")
	likePattern = lazyre.New(`^%[^%]+%$`)
	exprSign    = lazyre.New(`\.[*+]|\\[dws][*+]`)
	wordAnchor  = lazyre.New(`(?:^|[^\\])(?:\\\\)*\\[<>]`)
	openClass   = lazyre.New(`(?:^|[^\[:])\[:[a-z]+:\]`)
	slashed     = lazyre.New(`^/(.+)/([imsuxg]+)$`)
)

// checkSyntax warns about a text in the syntax of another tool, because the text is searched for literally.
func (c *report) checkSyntax(text string, pos strictyaml.Pos, name string) {
	f := lineFilter.FindStringSubmatch(text)
	switch {
	case f != nil:
		said := strictyaml.Quote(f[2] + f[3])
		fix := map[string]string{
			"|=": "write the text alone: " + said, "|~": "write {regex: " + said + "}",
			"!=": "write it beside a text that the line has: not: " + said, "!~": "write it beside a text that the line has: not: {regex: " + said + "}",
		}[f[1]]
		c.addWarning(pos, "other-syntax", name+" is searched as it is written, and this is a filter of LogQL", fix)
	case likePattern.MatchString(text):
		c.addWarning(pos, "other-syntax", name+" is searched as it is written, with each %", "write the text alone, which may be anywhere in the line: "+strictyaml.Quote(strings.Trim(text, "%")))
	case exprSign.MatchString(text):
		c.addWarning(pos.Within(text, exprSign.FindStringIndex(text)[0]), "other-syntax", name+" is searched as it is written, and this looks like an expression", "write a regex: {regex: "+strictyaml.Quote(text)+"}")
	}
}

// checkDialect warns about syntax that has another meaning in RE2 than in other tools.
func (c *report) checkDialect(pattern string, pos strictyaml.Pos, name string) {
	if loc := findMark(wordAnchor, pattern, `\<`, `\>`); loc != nil {
		mark := pattern[loc[1]-2 : loc[1]]
		c.addWarning(pos.Within(pattern, loc[1]-2), "other-syntax", fmt.Sprintf("the regex of %s has %s, which RE2 reads as the text %s and not as the edge of a word", name, mark, mark[1:]), `write \b for the edge of a word, or `+mark[1:]+" for the text")
	}
	if loc := findMark(openClass, pattern, "[:"); loc != nil {
		from := loc[0] + strings.Index(pattern[loc[0]:loc[1]], "[:")
		class := pattern[from:loc[1]]
		c.addWarning(pos.Within(pattern, from), "other-syntax", fmt.Sprintf("the regex of %s has %s, which RE2 reads as any one of the characters between its brackets", name, class), "write ["+class+"]")
	}
	if f := slashed.FindStringSubmatch(pattern); f != nil {
		c.addWarning(pos, "other-syntax", fmt.Sprintf("the regex of %s has slashes and flags around it, which RE2 reads as text", name), "write "+strictyaml.Quote("(?"+strings.NewReplacer("g", "", "u", "", "x", "").Replace(f[2])+")"+f[1]))
	}
}
