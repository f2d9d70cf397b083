package redact

import (
	_ "embed" // embeds rules.txt
	"regexp"
	"strconv"
	"strings"
)

// tokenRule is a row of rules.txt that describes secrets by their prefix.
type tokenRule struct {
	prefix      string
	where       string // condition on the text before the secret: any, start or apart
	in          class  // class of the bytes that must follow the prefix
	minAfter    int    // minimum number of bytes that must follow
	prefixClass class  // class of the bytes before the prefix that belong to the secret
	maxBefore   int    // maximum number of these bytes before the prefix
	like        []func() *regexp.Regexp
	unlike      func() *regexp.Regexp
	value       bool // whether the prefix is not a part of the secret
	// find, if it is set, finds the secret. Then the fields in, minAfter, like and unlike are not used. find gets the
	// position of the prefix, or of the byte after the prefix if value is set.
	find finder
}

// finder returns the secret at position i, or an empty span if there is none.
type finder func(sc *scanner, i int) span

// secret returns the secret whose prefix is at i, or an empty span if the text is not a secret.
func (r *tokenRule) secret(sc *scanner, i int) span {
	to := i + len(r.prefix)
	if r.isShort(sc.s[to:]) {
		return span{}
	}
	from := sc.runStart(i, r.maxBefore, r.prefixClass)
	switch {
	case r.where != "any" && sc.afterWord(from), r.where == "apart" && strings.IndexByte(".)/-", sc.byteAt(from-1)) >= 0:
		return span{}
	case r.find != nil && r.value:
		return r.find(sc, to)
	case r.find != nil:
		return r.find(sc, i)
	}
	end := len(sc.s)
	if r.in != nil {
		end = sc.runCoded(to, r.in)
	}
	p := span{from, end}
	if end-to < r.minAfter {
		return span{}
	}
	if text := sc.textOf(p); len(text) <= maxKnown || r.in == nil {
		text = text[:min(len(text), maxKnown)]
		for _, like := range r.like {
			m := like().FindStringSubmatchIndex(text)
			if m == nil {
				return span{}
			}
			if len(m) > 2 && m[2] >= 0 {
				p = span{from + m[2], from + m[3]}
			}
		}
		if r.unlike != nil && r.unlike().MatchString(text) {
			return span{}
		}
	}
	if r.value {
		p.from = to
	}
	return p
}

// isShort is a fast filter. If it returns true, too few bytes of the class follow the prefix, which is the usual case.
// It returns false for percent-encoded text, which is longer.
func (r *tokenRule) isShort(rest string) bool {
	if r.find != nil || r.in == nil || r.minAfter == 0 {
		return false
	}
	if len(rest) < r.minAfter {
		return true
	}
	for _, c := range []byte(rest[:r.minAfter]) {
		if !r.in[c] {
			return c != '%'
		}
	}
	return false
}

// token looks for a secret at i that one of the rules describes.
func (sc *scanner) token(rules []*tokenRule, i int) span {
	for _, r := range rules {
		last := len(r.prefix) - 1
		if sc.byteAt(i+last) == r.prefix[last] && strings.HasPrefix(sc.s[i:], r.prefix) { // the first condition is faster
			if p := r.secret(sc, i); !p.empty() {
				return p
			}
		}
	}
	return span{}
}

// finders are the functions to which rows of the kind "find" in rules.txt refer by name.
var finders = map[string]finder{
	"name": lookFrom, "secretObject": (*scanner).secretObject, "privateKey": onInput(privateKey),
	"dataSource": onInput(dataSource), "oracleLogin": onInput(oracleLogin), "scheme": onInput(scheme), "passwordInProse": onInput(passwordInProse),
	"quotedAt": onInput((*input).quotedAt), "insertedValues": (*scanner).insertedValues, "echoed": (*scanner).echoed,
	"code": func(sc *scanner, i int) span { return lookFrom(sc, i+len("pin ")) },
}

// onInput converts a function that needs only the text, and no scanner, to a finder.
func onInput(find func(t *input, i int) span) finder {
	return func(sc *scanner, i int) span { return find(&sc.input, i) }
}

//go:embed rules.txt
var ruleList string

// ruleRows are the rows of rules.txt, as lists of fields, by kind of row. An invalid row makes the program panic at its
// start. A test reads all rows, so this cannot happen in a tested program.
var ruleRows = readRules(ruleList)

func readRules(list string) map[string][][]string {
	rows, blanks := map[string][][]string{}, strings.NewReplacer("·", " ")
	for row := range strings.Lines(list) {
		f := strings.Fields(row)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		for i := range f {
			f[i] = blanks.Replace(f[i])
		}
		switch f[0] {
		case "class", "token", "after", "flags", "words":
			rows[f[0]] = append(rows[f[0]], f[1:])
		default:
			panic("rules.txt: unknown kind of row: " + f[0])
		}
	}
	return rows
}

// vocabularies are the rows of the kind "words", by name.
var vocabularies = func() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range ruleRows["words"] {
		if all[f[0]] == nil {
			all[f[0]] = map[string]bool{}
		}
		for _, w := range f[1:] {
			all[f[0]][w] = true
		}
	}
	return all
}()

func words(name string) map[string]bool { return vocabularies[name] }

// program lists the one-letter flags of a program after which a secret follows. The secret is the next word (spaced),
// is in the same word (glued), or follows the name of a user and a colon (user).
type program struct{ spaced, glued, user string }

func newPrograms() map[string]program {
	all := map[string]program{}
	for _, f := range ruleRows["flags"] {
		for _, name := range f[3:] {
			all[name] = program{strings.Trim(f[0], "-"), strings.Trim(f[1], "-"), strings.Trim(f[2], "-")}
		}
	}
	return all
}

// newTokenRules returns the rules in the rows of the kinds token and after. It panics if a row is invalid, because the
// rows are part of the program.
func newTokenRules() (all []tokenRule) {
	classes := map[string]class{"none": newClass(""), "rest": nil}
	for _, f := range ruleRows["class"] {
		classes[f[0]] = newClass(f[1])
	}
	for _, f := range ruleRows["token"] {
		r := tokenRule{find: finders[f[0]], minAfter: number(f[1]), where: f[2], prefixClass: classes["none"]}
		if r.find == nil {
			r.in = classOf(classes, f[0])
		}
		var prefixes []string
		for _, field := range f[3:] {
			switch name, value, found := strings.Cut(field, "="); {
			case name == "value" && !found:
				r.value = true
			case name == "back":
				name, most, _ := strings.Cut(value, ":")
				r.prefixClass, r.maxBefore = classOf(classes, name), number(most)
			case name == "like":
				r.like = append(r.like, lazyRegexp(value))
			case name == "unlike":
				r.unlike = lazyRegexp(value)
			default:
				prefixes = append(prefixes, field)
			}
		}
		for _, r.prefix = range prefixes {
			all = append(all, r)
		}
	}
	for _, f := range ruleRows["after"] {
		o := operand{command: strings.Join(f[2:], " ") + " ", skip: number(f[0]), named: f[1] == "named"}
		all = append(all, tokenRule{prefix: o.command, where: "start", prefixClass: classes["none"], value: true, find: o.secret})
	}
	return all
}

func classOf(classes map[string]class, name string) class {
	c, found := classes[name]
	if !found {
		panic("rules.txt: there is no class " + name)
	}
	return c
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("rules.txt: " + err.Error())
	}
	return n
}
