// Package lazyre has regular expressions for variables of packages. Compiling one takes up
// to a millisecond, and a process uses few of those that the program has.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used. Its methods are
// those of regexp.Regexp. It is safe for concurrent use, and must not be copied.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// New returns the expression. If text is not valid, its first use panics: a test compiles
// every expression that the program has.
func New(text string) *Regexp { return &Regexp{text: text} }

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

// String returns the text of the expression.
func (r *Regexp) String() string { return r.text }

// Match reports whether b has a match.
func (r *Regexp) Match(b []byte) bool { return r.get().Match(b) }

// MatchString reports whether s has a match.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindString returns the leftmost match, "" if there is none.
func (r *Regexp) FindString(s string) string { return r.get().FindString(s) }

// FindStringIndex returns the place of the leftmost match, nil if there is none.
func (r *Regexp) FindStringIndex(s string) []int { return r.get().FindStringIndex(s) }

// FindStringSubmatch returns the leftmost match and its groups, nil if there is none.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }

// FindAllStringIndex returns the places of the first n matches; all if n is negative.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int { return r.get().FindAllStringIndex(s, n) }

// FindAllStringSubmatch returns the first n matches with their groups; all if n is negative.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex returns the places of the first n matches and of their groups; all if n is negative.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAllString replaces matches; with may name groups.
func (r *Regexp) ReplaceAllString(s, with string) string { return r.get().ReplaceAllString(s, with) }

// ReplaceAllLiteralString replaces matches by with as it is.
func (r *Regexp) ReplaceAllLiteralString(s, with string) string {
	return r.get().ReplaceAllLiteralString(s, with)
}

// ReplaceAllStringFunc replaces each match by what with returns for it.
func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, with)
}
