package redact

import (
	_ "embed" // rules.txt
	"strconv"
	"strings"
)

//go:embed rules.txt
var ruleList string

// ruleRows are the rows of rules.txt, as lists of fields by kind of row. Programs do not start with
// broken rows: a test reads them, so the panics below are mistakes in the embedded file.
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
		case "class", "token", "find", "after", "flags", "words":
			rows[f[0]] = append(rows[f[0]], f[1:])
		default:
			panic("rules.txt: unknown kind of row: " + f[0])
		}
	}
	return rows
}

// vocabularies are the rows "words", by name.
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

// words returns a vocabulary.
func words(name string) map[string]bool { return vocabularies[name] }

// program says which one-letter flags of a program have a secret: as the next word, in the same
// word, or after the name of a user.
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

// newTokenRules returns the rules of the rows token, find and after. It panics if a row is broken,
// because the rows are part of the program.
func newTokenRules() (all []tokenRule) {
	classes := map[string]class{"none": newClass(""), "rest": nil}
	for _, f := range ruleRows["class"] {
		classes[f[0]] = newClass(f[1])
	}
	for _, f := range ruleRows["token"] {
		r := tokenRule{in: classOf(classes, f[0]), least: number(f[1]), where: f[2], before: classes["none"]}
		var prefixes []string
		for _, field := range f[3:] {
			switch name, value, found := strings.Cut(field, "="); {
			case name == "value" && !found:
				r.value = true
			case name == "back":
				name, most, _ := strings.Cut(value, ":")
				r.before, r.most = classOf(classes, name), number(most)
			case name == "like":
				r.like = append(r.like, lazily(value))
			case name == "unlike":
				r.unlike = lazily(value)
			default:
				prefixes = append(prefixes, field)
			}
		}
		for _, r.prefix = range prefixes {
			all = append(all, r)
		}
	}
	for _, f := range ruleRows["find"] {
		prefixes, value := f[2:], f[len(f)-1] == "value"
		if finders[f[0]] == nil {
			panic("rules.txt: there is no finder " + f[0])
		}
		if value {
			prefixes = prefixes[:len(prefixes)-1]
		}
		for _, prefix := range prefixes {
			all = append(all, tokenRule{prefix: prefix, where: f[1], before: classes["none"], value: value, find: finders[f[0]]})
		}
	}
	for _, f := range ruleRows["after"] {
		o := operand{command: strings.Join(f[2:], " ") + " ", skip: number(f[0]), login: f[1] == "login", named: f[1] == "named"}
		all = append(all, tokenRule{prefix: o.command, where: "start", before: classes["none"], value: true, find: o.secret})
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
