package literals

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxSet   = 32  // texts of one language
	maxRunes = 6   // members of a character class that are spelled out
	maxText  = 512 // bytes of one text
)

// lang is a finite language: all texts that an expression matches if its assertions are
// ignored. A loose one holds further texts.
type lang struct {
	texts []Text
	loose bool
}

var empty = lang{texts: []Text{{}}}

// langOf returns the language of re if it is finite and small.
func langOf(re *syntax.Regexp) (lang, bool) {
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
		return langOf(re.Sub[0])
	case syntax.OpQuest:
		sub, ok := langOf(re.Sub[0])
		if !ok {
			return lang{}, false
		}
		return unite(sub, empty)
	case syntax.OpRepeat:
		return langOfRepeat(re)
	case syntax.OpConcat:
		return langOfAll(empty, re.Sub, cross)
	case syntax.OpAlternate:
		return langOfAll(lang{}, re.Sub, unite)
	}
	return lang{}, false
}

// langOfAll joins the languages of subs, one by one, to all.
func langOfAll(all lang, subs []*syntax.Regexp, join func(a, b lang) (lang, bool)) (lang, bool) {
	for _, s := range subs {
		sub, ok := langOf(s)
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
		isPlain := !slices.ContainsFunc(re.Rune, func(r rune) bool { return !plain(r) })
		return lang{texts: []Text{{Text: string(re.Rune)}}}, isPlain
	}
	all := empty
	for _, r := range re.Rune {
		one, ok := folds(r)
		if !ok {
			return lang{}, false
		}
		if all, ok = cross(all, one); !ok {
			return lang{}, false
		}
	}
	return all, true
}

// plain reports whether r matches its own bytes only. Go's regexp treats invalid bytes
// as U+FFFD.
func plain(r rune) bool { return r != utf8.RuneError && utf8.ValidRune(r) }

// folds returns what r matches in any case. That is not only the other case:
// k also matches U+212A and s also U+017F.
func folds(r rune) (lang, bool) {
	if !plain(r) {
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
			if !plain(r) {
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
	sub, ok := langOf(re.Sub[0])
	if !ok {
		return lang{}, false
	}
	var all lang
	times := empty
	for n := 0; n <= re.Max; n++ {
		if n >= re.Min {
			if all, ok = unite(all, times); !ok {
				return lang{}, false
			}
		}
		if times, ok = cross(times, sub); !ok {
			return lang{}, false
		}
	}
	return all, true
}

func unite(a, b lang) (lang, bool) {
	return lang{texts: slices.Concat(a.texts, b.texts), loose: a.loose || b.loose}, len(a.texts)+len(b.texts) <= maxSet
}

// cross returns the texts of a followed by those of b.
func cross(a, b lang) (lang, bool) {
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
				out.loose = out.loose || !x.Fold && letters(x.Text) || !y.Fold && letters(y.Text)
				t.Text = lower(t.Text)
			}
			out.texts = append(out.texts, t)
		}
	}
	return out, true
}

func letters(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsLetter(r) })
}

// lower maps ASCII only.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
