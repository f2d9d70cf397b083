package template

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
)

// missing marks, in the output of an execution, a value that the alert does not have, or a
// condition that adds nothing. Values and sources of templates never contain it.
const missing = "\x00"

// joining are the characters that join two values into one word, such as namespace/name.
const joining = "/:-._@="

var (
	// beforeNoun lists prepositions and conjunctions that a noun can follow.
	beforeNoun = wordList("about as after against and at because before behind between but by for from if in into like near nor of on onto or out over per since than that through to under until using via when whether while with within without")
	// determiners lists words that begin a phrase that ends with a noun.
	determiners = wordList("a all an any both each every its no one other same some that the their this")
	// auxiliaries lists words that a verb follows.
	auxiliaries = wordList("can cannot could did do does keeps may might must never not will would")
	// infinitives lists words that "to" and a verb follow.
	infinitives = wordList("able about asked begins fail failed fails has have needs refused refuses tried tries unable wants")
	// particles lists words that belong to the verb before them.
	particles = wordList("again away back down off on out up")
	// transitive lists verbs that an object follows.
	transitive = wordList("contains holds keeps lacks misses names needs owns refuses rejects reports serves uses")
	// being lists forms of "be", after which a value describes something.
	being = wordList("are be been is was were")
	// verbs lists verbs that follow their subject.
	verbs = slices.Concat(auxiliaries, transitive, being, wordList("fails failed had has have lost needs waits"))
	// sayings lists names of values that are whole sentences.
	sayings = wordList("error message problem reason")
	// counts lists names of values that are numbers.
	counts = wordList("count days hours minutes number percent restarts seconds size times total")
	// aliases maps names that are not nouns to nouns.
	aliases = map[string]string{
		"addr": "address", "dev": "device", "err": "error", "kind": "object", "mhc": "MachineHealthCheck", "msg": "message", "ns": "namespace", "q": "quota",
		"what": "object", "why": "reason",
	}
)

func wordList(list string) []string { return strings.Fields(list) }

// withoutMissing returns a text that still reads as sentences although values are missing. A
// missing value is replaced by a phrase made from its name, such as "a pod", or is omitted if a
// noun precedes it. names are the names of the missing values, in order. The name of a
// condition that adds nothing is "".
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

// cutAfter splits right at the next missing value and reports whether there is one.
func cutAfter(left, right string) (before, after string, found bool) {
	before, after, found = strings.Cut(right, missing)
	return left + before, after, found
}

// omitValue returns the texts around a missing value, without what belonged to the value.
func omitValue(left, right, name string) (string, string) {
	noun := nameInWords(name)
	if next, width := utf8.DecodeRuneInString(right); width > 0 && strings.ContainsRune(joining, next) && startsPart(right[width:]) {
		return left, right[width:] // the other part of the joined word stays
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
		// The value is a sentence, or the end of one, and another sentence follows.
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

// beforeVerb reports whether text begins with a verb.
func beforeVerb(text string) bool {
	last := lastWord(text)
	if last == "to" {
		return slices.Contains(infinitives, lastWord(strings.TrimRight(text[:len(text)-len(last)], " ")))
	}
	return slices.Contains(auxiliaries, last)
}

// addArticle adds an article to the noun at the end of a text. It does so only if the noun has
// none and every word of its phrase is known, so that "on node" becomes "on a node".
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
				phrase = strings.ToLower(phrase[:1]) + phrase[1:] // a kind such as MachineDeployment keeps its capital letter
			}
			return text[:len(text)-len(phrase)] + matchCase(indefiniteArticle(phrase)+" "+phrase, head)
		}
		phrase = text[len(head)-len(before):]
	}
	return text
}

// startsPart reports whether a text begins with a part of a word or with a missing value.
func startsPart(text string) bool {
	r := firstRune(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.HasPrefix(text, missing)
}

func isPair(open, closes rune) bool {
	return open != utf8.RuneError && (open == '"' || open == '\'' || open == '`') && open == closes ||
		open == '(' && closes == ')' || open == '[' && closes == ']' || open == '“' && closes == '”'
}

// joinTexts joins two parts of a text without the spaces and brackets of an omitted value.
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

// startsSentence reports whether the text that follows begins a sentence, or the part after a
// colon. text must not end with spaces.
func startsSentence(text string) bool {
	return text == "" || strings.ContainsRune(".!?:\n", lastRune(text))
}

// matchCase returns text in upper case if a sentence begins after before.
func matchCase(text, before string) string {
	if before != "" && !strings.ContainsRune(".!?\n", lastRune(before)) {
		return text
	}
	r, width := utf8.DecodeRuneInString(text)
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsAny(word, "-./_0123456789") || !unicode.IsLower(r) {
		return text // a name keeps its case
	}
	return string(unicode.ToUpper(r)) + text[width:]
}

// followedByNoun reports whether right begins with a word that the missing value may belong to.
func followedByNoun(right string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(right, " "), " ")
	return strings.HasPrefix(right, " ") && len(word) > 0 && unicode.IsLower(firstRune(word)) &&
		!slices.Contains(beforeNoun, word) && !slices.Contains(verbs, word)
}

// nameInWords returns a name as words, such as "node group". Kinds stay unchanged.
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
		return "object" // a word such as crashing or waiting
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
