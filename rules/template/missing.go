package template

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
)

// missing stands in the output of an execution for a value that the alert does not have, and for an `if` without
// output. Values and sources of templates never contain it.
const missing = "\x00"

// joining are the characters that join two values into one word, such as the slash in namespace/name.
const joining = "/:-._@="

var (
	// beforeNoun lists prepositions and conjunctions after which a noun can stand.
	beforeNoun = wordList("about as after against and at because before behind between but by for from if in into like near nor of on onto or out over per since than that through to under until using via when whether while with within without")
	// determiners lists words that begin a noun phrase.
	determiners = wordList("a all an any both each every its no one other same some that the their this")
	// auxiliaries lists verbs after which another verb stands.
	auxiliaries = wordList("can cannot could did do does keeps may might must never not will would")
	// infinitives lists words after which "to" and a verb stand.
	infinitives = wordList("able about asked begins fail failed fails has have needs refused refuses tried tries unable wants")
	// particles lists words that belong to the preceding verb.
	particles = wordList("again away back down off on out up")
	// transitive lists verbs that have an object.
	transitive = wordList("contains holds keeps lacks misses names needs owns refuses rejects reports serves uses")
	// being lists forms of "be", after which a value describes the subject.
	being = wordList("are be been is was were")
	// verbs lists verbs that stand after their subject.
	verbs = slices.Concat(auxiliaries, transitive, being, wordList("fails failed had has have lost needs waits"))
	// sayings lists names whose values are whole sentences.
	sayings = wordList("error message problem reason")
	// counts lists names whose values are numbers.
	counts = wordList("count days hours minutes number percent restarts seconds size times total")
	// aliases maps names that are abbreviations or no nouns to nouns.
	aliases = map[string]string{
		"addr": "address", "dev": "device", "err": "error", "kind": "object", "mhc": "MachineHealthCheck", "msg": "message", "ns": "namespace", "q": "quota",
		"what": "object", "why": "reason",
	}
)

func wordList(list string) []string { return strings.Fields(list) }

// withoutMissing returns a text that still consists of correct sentences although values are missing. A missing value
// is replaced by a phrase made from its name, such as "a pod". It is omitted if a noun precedes it. names are the names
// of the missing values, in order. An `if` without output has the name "".
func withoutMissing(text string, names []string) string {
	left, right, found := strings.Cut(text, missing)
	for ; found; left, right, found = cutAfter(left, right) {
		name := ""
		if len(names) > 0 {
			name, names = names[0], names[1:]
		}
		if name == "" {
			left, right = joinTexts(left, right)
			continue
		}
		left, right = omitValue(left, right, name)
	}
	return left
}

// cutAfter moves the text before the next missing value from right to the end of left, and drops the mark of that
// value. found reports whether right has a missing value.
func cutAfter(left, right string) (before, after string, found bool) {
	before, after, found = strings.Cut(right, missing)
	return left + before, after, found
}

// omitValue returns the texts before and after a missing value. It replaces the value, or removes it with the
// punctuation that belongs to it.
func omitValue(left, right, name string) (string, string) {
	noun := nameInWords(name)
	if next, width := utf8.DecodeRuneInString(right); width > 0 && strings.ContainsRune(joining, next) && startsPart(right[width:]) {
		return left, right[width:] // removes the character that joined the value to the rest of the word
	}
	if n := len(left); n > 1 && strings.IndexByte(joining, left[n-1]) >= 0 && left[n-2] != ' ' {
		return joinTexts(left[:n-1], right)
	}
	for {
		open, closes := lastRune(left), firstRune(right)
		if !isPair(open, closes) {
			break
		}
		if open == '(' || open == '[' {
			return joinTexts(strings.TrimRight(left[:len(left)-1], " "), right[1:])
		}
		left, right = left[:len(left)-utf8.RuneLen(open)], right[utf8.RuneLen(closes):]
	}
	if begin := strings.TrimLeft(right, " "); begin != right && unicode.IsUpper(firstRune(begin)) && strings.ContainsRune(":.", lastRune(strings.TrimRight(left, " "))) {
		// The value is a sentence, or its end, and another sentence follows.
		if strings.HasSuffix(strings.TrimRight(left, " "), ".") {
			return joinTexts(left, right)
		}
		right = "." + right
	} else if left == "" && begin != right && (unicode.IsUpper(firstRune(begin)) || strings.HasPrefix(begin, missing)) && slices.Contains(sayings, noun) {
		return "", begin
	}
	ends := right == "" || strings.ContainsRune(".,;:!?)]\n", firstRune(right))
	before := strings.TrimRight(left, " ")
	word := lastWord(before)
	switch {
	case slices.Contains(being, word) && ends:
		return joinTexts(before+" not known", right)
	case slices.Contains(being, word) && !followedByNoun(right):
		return joinTexts(before+" unknown", right)
	case strings.HasPrefix(right, " times"):
		return joinTexts(left+"several", right)
	case strings.HasSuffix(before, ":") && ends && !slices.Contains(beforeNoun, strings.TrimSuffix(word, ":")) && len(strings.Fields(lastSentence(before))) > 4:
		return joinTexts(strings.TrimSuffix(before, ":"), right)
	case strings.HasSuffix(before, ":") && ends:
		return joinTexts(before+" not known", right)
	case startsSentence(before) && (strings.HasPrefix(right, ": ") || strings.HasPrefix(right, ", ")):
		return left, matchCase(strings.TrimLeft(right[2:], " "), before)
	case strings.EqualFold(word, "because") && ends:
		return joinTexts(before[:len(before)-len(word)], right)
	case slices.Contains(counts, noun):
		return joinTexts(left+matchCase("some", before), right)
	case strings.HasSuffix(before, "'s") || slices.Contains(determiners, strings.ToLower(word)):
		if followedByNoun(right) {
			return joinTexts(left, right)
		}
		return joinTexts(left+noun, right)
	case startsSentence(before), slices.Contains(beforeNoun, strings.ToLower(word)), strings.HasPrefix(right, "'s"), strings.ContainsRune(",;(", lastRune(before)):
		return joinTexts(left+matchCase(indefiniteArticle(noun)+" "+noun, before), right)
	}
	head := strings.TrimRight(before[:len(before)-len(word)], " ")
	switch {
	case slices.Contains(particles, word):
		return joinTexts(before, right)
	case noun == "verb":
		return joinTexts(left+"access", right)
	case slices.Contains(transitive, word) || beforeVerb(head):
		return joinTexts(left+indefiniteArticle(noun)+" "+noun, right)
	}
	return joinTexts(addArticle(before, noun), right)
}

// beforeVerb reports whether a verb can follow text.
func beforeVerb(text string) bool {
	last := lastWord(text)
	if last == "to" {
		return slices.Contains(infinitives, lastWord(strings.TrimRight(text[:len(text)-len(last)], " ")))
	}
	return slices.Contains(auxiliaries, last)
}

// addArticle adds an article to the noun at the end of a text, so that "on node" becomes "on a node". It does so only
// if the noun has no article and every other word of its phrase is known.
func addArticle(text, noun string) string {
	phrase := lastWord(text)
	if strings.HasSuffix(" "+strings.ToLower(text), " "+noun) {
		phrase = text[len(text)-len(noun):]
	}
	named := phrase != lastWord(text) || strings.EqualFold(phrase, noun)
	for words := range 2 {
		head := strings.TrimRight(text[:len(text)-len(phrase)], " ")
		before := lastWord(head)
		switch {
		case slices.Contains(determiners, strings.ToLower(before)), strings.HasSuffix(before, "'s"), !named && (before == "and" || before == "or" || words > 0 && startsSentence(head)):
			return text
		case startsSentence(head) || beforeVerb(strings.TrimRight(head[:len(head)-len(before)], " ")) || slices.Contains(beforeNoun, strings.ToLower(before)):
			if startsSentence(head) && strings.IndexFunc(phrase[1:], unicode.IsUpper) < 0 {
				phrase = strings.ToLower(phrase[:1]) + phrase[1:] // a kind such as MachineDeployment keeps its capital letters
			}
			return text[:len(text)-len(phrase)] + matchCase(indefiniteArticle(phrase)+" "+phrase, head)
		}
		phrase = text[len(head)-len(before):]
	}
	return text
}

// startsPart reports whether a text begins with a letter, a digit or a missing value.
func startsPart(text string) bool {
	r := firstRune(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.HasPrefix(text, missing)
}

func isPair(open, closes rune) bool {
	return open != utf8.RuneError && (open == '"' || open == '\'' || open == '`') && open == closes ||
		open == '(' && closes == ')' || open == '[' && closes == ']' || open == '“' && closes == '”'
}

// joinTexts joins the texts before and after an omitted value, and removes spaces and brackets around the value.
func joinTexts(left, right string) (string, string) {
	if left == "" || strings.HasSuffix(left, " ") || strings.HasSuffix(left, "\n") {
		right = strings.TrimLeft(right, " ")
	}
	if right == "" || strings.ContainsRune(".,;:!?)]\n", firstRune(right)) {
		left = strings.TrimRight(left, " ")
	}
	if strings.HasSuffix(left, "(") && strings.HasPrefix(right, ")") {
		return joinTexts(strings.TrimRight(left[:len(left)-1], " "), right[1:])
	}
	if left == "" {
		right = matchCase(right, "")
	}
	return left, right
}

var sentenceEnd = lazyre.New(`[.!?\n]\s`)

// lastSentence returns the last, unfinished sentence of a text.
func lastSentence(text string) string {
	if all := sentenceEnd.FindAllStringIndex(text, -1); len(all) > 0 {
		return text[all[len(all)-1][1]:]
	}
	return text
}

// startsSentence reports whether a sentence begins after text. A section after a colon counts as a sentence. text must
// not end with spaces.
func startsSentence(text string) bool {
	return text == "" || strings.ContainsRune(".!?:\n", lastRune(text))
}

// matchCase makes the first letter of text upper case if a sentence begins after before.
func matchCase(text, before string) string {
	if before != "" && !strings.ContainsRune(".!?\n", lastRune(before)) {
		return text
	}
	r, width := utf8.DecodeRuneInString(text)
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsAny(word, "-./_0123456789") || !unicode.IsLower(r) {
		return text // keeps the case of a name
	}
	return string(unicode.ToUpper(r)) + text[width:]
}

// followedByNoun reports whether right begins with a noun that the missing value may describe.
func followedByNoun(right string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(right, " "), " ")
	return strings.HasPrefix(right, " ") && len(word) > 0 && unicode.IsLower(firstRune(word)) &&
		!slices.Contains(beforeNoun, word) && !slices.Contains(verbs, word)
}

// nameInWords returns a name as words, such as "node group". The name of a Kubernetes kind stays unchanged.
func nameInWords(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	noun := strings.ReplaceAll(strings.TrimRight(name, "_0123456789"), "_", " ")
	if noun == "" {
		return "value"
	}
	if to := aliases[noun]; to != "" {
		return to
	}
	if strings.HasSuffix(noun, "ing") {
		return "object" // a word such as crashing or waiting is no noun
	}
	return noun
}

func indefiniteArticle(noun string) string {
	lower := strings.ToLower(noun)
	if strings.ContainsRune("aeio", firstRune(lower)) || strings.HasPrefix(lower, "un") && !strings.HasPrefix(lower, "uni") {
		return "an"
	}
	return "a"
}

func lastWord(text string) string {
	return text[strings.LastIndexAny(text, " \n(\"'`")+1:]
}

func firstRune(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}
