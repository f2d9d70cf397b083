// Package lazyre has regular expressions for package variables that are compiled when they are first used. Compiling
// takes up to a millisecond, and most runs of the program use only a few of the expressions.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used. Its methods are those
// of regexp.Regexp. It is safe for concurrent use and must not be copied.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// New returns an expression. If text is not valid, the first use panics. A test compiles every expression of the
// program.
func New(text string) *Regexp { return &Regexp{text: text} }

func (r *Regexp) compiled() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

// String returns the text of the expression.
func (r *Regexp) String() string { return r.text }

// Match reports whether b has a match.
func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

// MatchString reports whether s has a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// Find returns the leftmost match in b, or nil if there is none.
func (r *Regexp) Find(b []byte) []byte { return r.compiled().Find(b) }

// FindIndex returns the position of the leftmost match in b, or nil if there is none.
func (r *Regexp) FindIndex(b []byte) []int { return r.compiled().FindIndex(b) }

// FindSubmatch returns the leftmost match in b and its groups, or nil if there is none.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// FindAllSubmatch returns the first n matches in b with their groups, or all matches if n is negative.
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}

// ReplaceAllLiteral replaces all matches in b by replacement without expanding it.
func (r *Regexp) ReplaceAllLiteral(b, replacement []byte) []byte {
	return r.compiled().ReplaceAllLiteral(b, replacement)
}

// ReplaceAllFunc replaces each match in b by the result of calling replace with it.
func (r *Regexp) ReplaceAllFunc(b []byte, replace func([]byte) []byte) []byte {
	return r.compiled().ReplaceAllFunc(b, replace)
}

// SubexpIndex returns the index of the first group with the name, or -1 if there is none.
func (r *Regexp) SubexpIndex(name string) int { return r.compiled().SubexpIndex(name) }

// FindString returns the leftmost match, or "" if there is none.
func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

// FindStringIndex returns the position of the leftmost match, or nil if there is none.
func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

// FindStringSubmatch returns the leftmost match and its groups, or nil if there is none.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindAllStringIndex returns the positions of the first n matches, or of all matches if n is negative.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch returns the first n matches with their groups, or all matches if n is negative.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// ReplaceAllString replaces all matches. replacement may refer to groups.
func (r *Regexp) ReplaceAllString(s, replacement string) string {
	return r.compiled().ReplaceAllString(s, replacement)
}

// ReplaceAllLiteralString replaces all matches by replacement without expanding it.
func (r *Regexp) ReplaceAllLiteralString(s, replacement string) string {
	return r.compiled().ReplaceAllLiteralString(s, replacement)
}

// ReplaceAllStringFunc replaces each match by the result of calling replace with it.
func (r *Regexp) ReplaceAllStringFunc(s string, replace func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, replace)
}
