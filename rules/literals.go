package rules

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minLiteral is the minimum length, in bytes, of a literal that selects lines.
	minLiteral = 4
	maxTexts   = 32 // maximum number of alternatives
	maxClass   = 6  // maximum size of a character class that is enumerated
)

// requiredLiterals returns texts such that every line that satisfies the matcher
// contains at least one of them, nil if there are none. It chooses them so that
// the shortest is as long as possible.
func requiredLiterals(m Matcher) []string {
	var best []string
	for _, text := range m.Contains {
		best = longer(best, []string{text})
	}
	if m.Regex != nil {
		best = longer(best, regexTexts(m.Regex.String()))
	}
	for _, f := range m.Fields {
		best = longer(best, fieldTexts(f))
	}
	if len(m.Any) > 0 {
		best = longer(best, anyTexts(m.Any))
	}
	return best
}

func anyTexts(ms []Matcher) []string {
	var all []string
	for _, m := range ms {
		texts := requiredLiterals(m)
		if texts == nil {
			return nil
		}
		all = append(all, texts...)
	}
	return all
}

// fieldTexts returns the text that a line with the field must contain verbatim:
// its name or its value. Encoders escape some bytes, and a value namespace/name
// may be written as an object.
func fieldTexts(f Field) []string {
	var best []string
	// The message of klog text has no name in the line.
	if first, _, _ := strings.Cut(f.Name, "."); first != "msg" && plainText(first) {
		best = []string{first}
	}
	if f.Regex == nil && plainText(f.Value) && !strings.Contains(f.Value, "/") {
		best = longer(best, []string{f.Value})
	}
	return best
}

// plainText reports whether no encoder escapes any byte of s.
func plainText(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
	}) < 0
}

func regexTexts(expr string) []string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	return regexLiterals(re.Simplify())
}

// gated reports whether every text has at least minLiteral bytes and there is one.
func gated(texts []string) bool { return shortest(texts) >= minLiteral }

func shortest(texts []string) int {
	n := 0
	for i, t := range texts {
		if i == 0 || len(t) < n {
			n = len(t)
		}
	}
	return n
}

func longer(a, b []string) []string {
	if shortest(b) > shortest(a) {
		return b
	}
	return a
}

// regexLiterals returns texts such that each match of re contains at least one of
// them, nil if there are none.
func regexLiterals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return regexLiterals(re.Sub[0])
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := regexLiterals(sub)
			if texts == nil || len(all)+len(texts) > maxTexts {
				return nil
			}
			all = append(all, texts...)
		}
		return all
	case syntax.OpConcat:
		return concatLiterals(re)
	case syntax.OpLiteral:
		if text := longestPlain(re); text != "" {
			return []string{text}
		}
	}
	return longer(nil, enumerate(re))
}

// longestPlain returns the longest part of a literal that can be searched as bytes.
func longestPlain(re *syntax.Regexp) string {
	if re.Flags&syntax.FoldCase == 0 {
		return string(re.Rune)
	}
	best, cur := "", ""
	for _, r := range re.Rune {
		if foldsBeyondASCII(r) {
			cur = ""
			continue
		}
		if cur += string(unicode.ToLower(r)); len(cur) > len(best) {
			best = cur
		}
	}
	return best
}

// concatLiterals joins neighbours whose matches can be enumerated.
func concatLiterals(re *syntax.Regexp) []string {
	var best []string
	run := []string{""}
	for _, sub := range re.Sub {
		texts := enumerate(sub)
		if joined := product(run, texts); joined != nil {
			run = joined
			continue
		}
		best = longer(best, run)
		best = longer(best, regexLiterals(sub))
		if run = texts; texts == nil {
			run = []string{""}
		}
	}
	return longer(best, run)
}

// enumerate returns every text that re matches if they are few, otherwise nil.
func enumerate(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}
	case syntax.OpLiteral:
		return enumerateLiteral(re)
	case syntax.OpCharClass:
		return enumerateClass(re)
	case syntax.OpCapture:
		return enumerate(re.Sub[0])
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			if out = product(out, enumerate(sub)); out == nil {
				return nil
			}
		}
		return out
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			texts := enumerate(sub)
			if texts == nil || len(out)+len(texts) > maxTexts {
				return nil
			}
			out = append(out, texts...)
		}
		return out
	}
	return nil
}

// enumerateLiteral returns a literal that ignores case in lower case, because only
// its length and equality matter here. It returns nil for letters that fold beyond
// ASCII.
func enumerateLiteral(re *syntax.Regexp) []string {
	if re.Flags&syntax.FoldCase == 0 {
		return []string{string(re.Rune)}
	}
	text := ""
	for _, r := range re.Rune {
		if foldsBeyondASCII(r) {
			return nil
		}
		text += string(unicode.ToLower(r))
	}
	return []string{text}
}

// foldsBeyondASCII reports whether another case of r is not ASCII, as for k and s.
func foldsBeyondASCII(r rune) bool {
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

func enumerateClass(re *syntax.Regexp) []string {
	var out []string
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if len(out) == maxClass {
				return nil
			}
			out = append(out, string(r))
		}
	}
	return out
}

func product(a, b []string) []string {
	if b == nil || len(a)*len(b) > maxTexts {
		return nil
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out
}
