package literals

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxSet   = 32  // maximum number of texts in one language
	maxRunes = 6   // maximum number of members of a character class that are listed as texts
	maxText  = 512 // maximum length of one text in bytes
)

// lang is the finite set of texts that an expression matches if its assertions are ignored. A loose language may
// contain further texts.
type lang struct {
	texts []Text
	loose bool
}

var empty = lang{texts: []Text{{}}}

// finiteLanguage returns the language of re if it is finite and small.
func finiteLanguage(re *syntax.Regexp) (lang, bool) {
	if zeroWidth(re) {
		return empty, true
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return empty, true
	case syntax.OpLiteral:
		return langOfLiteral(re)
	case syntax.OpCharClass:
		return langOfClass(re)
	case syntax.OpCapture:
		return finiteLanguage(re.Sub[0])
	case syntax.OpQuest:
		sub, ok := finiteLanguage(re.Sub[0])
		if !ok {
			return lang{}, false
		}
		return union(sub, empty)
	case syntax.OpRepeat:
		return langOfRepeat(re)
	case syntax.OpConcat:
		return langOfAll(empty, re.Sub, concatenate)
	case syntax.OpAlternate:
		return langOfAll(lang{}, re.Sub, union)
	}
	return lang{}, false
}

// langOfAll combines all with the languages of subs, in their order, by calling join.
func langOfAll(all lang, subs []*syntax.Regexp, join func(a, b lang) (lang, bool)) (lang, bool) {
	for _, s := range subs {
		sub, ok := finiteLanguage(s)
		if !ok {
			return lang{}, false
		}
		if all, ok = join(all, sub); !ok {
			return lang{}, false
		}
	}
	return all, true
}

func langOfLiteral(re *syntax.Regexp) (lang, bool) {
	if re.Flags&syntax.FoldCase == 0 {
		isPlain := !slices.ContainsFunc(re.Rune, func(r rune) bool { return !isPlain(r) })
		return lang{texts: []Text{{Text: string(re.Rune)}}}, isPlain
	}
	all := empty
	for _, r := range re.Rune {
		one, ok := foldedLanguage(r)
		if !ok {
			return lang{}, false
		}
		if all, ok = concatenate(all, one); !ok {
			return lang{}, false
		}
	}
	return all, true
}

// isPlain reports whether r matches only its own bytes. U+FFFD also matches invalid bytes in Go's regexp.
func isPlain(r rune) bool { return r != utf8.RuneError && utf8.ValidRune(r) }

// foldedLanguage returns all texts that r matches if case is ignored. There may be more than two, because k also
// matches U+212A and s also matches U+017F.
func foldedLanguage(r rune) (lang, bool) {
	if !isPlain(r) {
		return lang{}, false
	}
	var out lang
	for f := r; ; {
		t := Text{Text: string(f)}
		if f <= unicode.MaxASCII && unicode.IsLetter(f) {
			t = Text{string(unicode.ToLower(f)), true}
		}
		if !slices.Contains(out.texts, t) {
			out.texts = append(out.texts, t)
		}
		if f = unicode.SimpleFold(f); f == r {
			return out, true
		}
	}
}

func langOfClass(re *syntax.Regexp) (lang, bool) {
	n := 0
	for i := 0; i+1 < len(re.Rune); i += 2 {
		if n += int(re.Rune[i+1]-re.Rune[i]) + 1; n > maxRunes {
			return lang{}, false
		}
	}
	out := lang{texts: make([]Text, 0, n)}
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if !isPlain(r) {
				return lang{}, false
			}
			out.texts = append(out.texts, Text{Text: string(r)})
		}
	}
	return out, len(out.texts) > 0
}

func langOfRepeat(re *syntax.Regexp) (lang, bool) {
	if re.Max < 0 || re.Max > maxRunes {
		return lang{}, false
	}
	sub, ok := finiteLanguage(re.Sub[0])
	if !ok {
		return lang{}, false
	}
	var all lang
	times := empty
	for n := 0; n <= re.Max; n++ {
		if n >= re.Min {
			if all, ok = union(all, times); !ok {
				return lang{}, false
			}
		}
		if times, ok = concatenate(times, sub); !ok {
			return lang{}, false
		}
	}
	return all, true
}

func union(a, b lang) (lang, bool) {
	return lang{texts: slices.Concat(a.texts, b.texts), loose: a.loose || b.loose}, len(a.texts)+len(b.texts) <= maxSet
}

func concatenate(a, b lang) (lang, bool) {
	if len(a.texts)*len(b.texts) > maxSet {
		return lang{}, false
	}
	out := lang{loose: a.loose || b.loose, texts: make([]Text, 0, len(a.texts)*len(b.texts))}
	for _, x := range a.texts {
		for _, y := range b.texts {
			t := Text{x.Text + y.Text, x.Fold || y.Fold}
			if len(t.Text) > maxText {
				return lang{}, false
			}
			if t.Fold {
				out.loose = out.loose || !x.Fold && isLetters(x.Text) || !y.Fold && isLetters(y.Text)
				t.Text = lowerASCII(t.Text)
			}
			out.texts = append(out.texts, t)
		}
	}
	return out, true
}

func isLetters(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsLetter(r) })
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
