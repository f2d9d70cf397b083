package template

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
)

// missing stands in the output of an execution for a value that the alert does not have, and
// for a condition that adds nothing. Values and sources of templates never contain it.
const missing = "\x00"

// joining are the characters that join two values to one word, such as namespace/name.
const joining = "/:-._@="

var (
	// beforeNoun are prepositions and conjunctions, behind which a noun begins.
	beforeNoun = words("about as after against and at because before behind between but by for from if in into like near nor of on onto or out over per since than that through to under until using via when whether while with within without")
	// determiners begin a phrase that ends with a noun.
	determiners = words("a all an any both each every its no one other same some that the their this")
	// auxiliaries are followed by a verb.
	auxiliaries = words("can cannot could did do does keeps may might must never not will would")
	// infinitives are followed by "to" and a verb.
	infinitives = words("able about asked begins fail failed fails has have needs refused refuses tried tries unable wants")
	// particles belong to the verb before them.
	particles = words("again away back down off on out up")
	// transitive are verbs that are followed by their object.
	transitive = words("contains holds keeps lacks misses names needs owns refuses rejects reports serves uses")
	// being are verbs behind which a value says what something is.
	being = words("are be been is was were")
	// verbs follow the noun that they are about.
	verbs = slices.Concat(auxiliaries, transitive, being, words("fails failed had has have lost needs waits"))
	// sayings are names of whole sentences.
	sayings = words("error message problem reason")
	// counts are names of numbers.
	counts = words("count days hours minutes number percent restarts seconds size times total")
	// aliases are nouns for names that are none.
	aliases = map[string]string{
		"addr": "address", "dev": "device", "err": "error", "kind": "object", "mhc": "MachineHealthCheck", "msg": "message", "ns": "namespace", "q": "quota",
		"what": "object", "why": "reason",
	}
)

func words(list string) []string { return strings.Fields(list) }

// withoutMissing returns a text that reads as sentences although values are missing: they
// become what their names say, such as "a pod", or are omitted where a noun is before them.
// names are those of the missing values, in order; "" belongs to a condition that adds nothing.
func withoutMissing(text string, names []string) string {
	left, right, found := strings.Cut(text, missing)
	for ; found; left, right, found = cutAfter(left, right) {
		name := ""
		if len(names) > 0 {
			name, names = names[0], names[1:]
		}
		if name == "" {
			left, right = join(left, right)
			continue
		}
		left, right = omit(left, right, name)
	}
	return left
}

// cutAfter finds the next missing value in right.
func cutAfter(left, right string) (before, after string, found bool) {
	before, after, found = strings.Cut(right, missing)
	return left + before, after, found
}

// omit returns the text around a missing value without it.
func omit(left, right, name string) (string, string) {
	noun := nounOf(name)
	if next, width := utf8.DecodeRuneInString(right); width > 0 && strings.ContainsRune(joining, next) && begins(right[width:]) {
		return left, right[width:] // the other part of a joined word stays
	}
	if n := len(left); n > 1 && strings.IndexByte(joining, left[n-1]) >= 0 && left[n-2] != ' ' {
		return join(left[:n-1], right)
	}
	for {
		open, closes := lastRune(left), firstRune(right)
		if !enclose(open, closes) {
			break
		}
		if open == '(' || open == '[' {
			return join(strings.TrimRight(left[:len(left)-1], " "), right[1:])
		}
		left, right = left[:len(left)-utf8.RuneLen(open)], right[utf8.RuneLen(closes):]
	}
	if begin := strings.TrimLeft(right, " "); begin != right && unicode.IsUpper(firstRune(begin)) && strings.ContainsRune(":.", lastRune(strings.TrimRight(left, " "))) {
		// The value is a sentence, or its end, and another one follows.
		if strings.HasSuffix(strings.TrimRight(left, " "), ".") {
			return join(left, right)
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
		return join(before+" not known", right)
	case slices.Contains(being, word) && !followedByNoun(right):
		return join(before+" unknown", right)
	case strings.HasPrefix(right, " times"):
		return join(left+"several", right)
	case strings.HasSuffix(before, ":") && ends && !slices.Contains(beforeNoun, strings.TrimSuffix(word, ":")) && len(strings.Fields(sentence(before))) > 4:
		return join(strings.TrimSuffix(before, ":"), right)
	case strings.HasSuffix(before, ":") && ends:
		return join(before+" not known", right)
	case startsSentence(before) && (strings.HasPrefix(right, ": ") || strings.HasPrefix(right, ", ")):
		return left, capital(strings.TrimLeft(right[2:], " "), before)
	case strings.EqualFold(word, "because") && ends:
		return join(before[:len(before)-len(word)], right)
	case slices.Contains(counts, noun):
		return join(left+capital("some", before), right)
	case strings.HasSuffix(before, "'s") || slices.Contains(determiners, strings.ToLower(word)):
		if followedByNoun(right) {
			return join(left, right)
		}
		return join(left+noun, right)
	case startsSentence(before), slices.Contains(beforeNoun, strings.ToLower(word)), strings.HasPrefix(right, "'s"), strings.ContainsRune(",;(", lastRune(before)):
		return join(left+capital(article(noun)+" "+noun, before), right)
	}
	head := strings.TrimRight(before[:len(before)-len(word)], " ")
	switch {
	case slices.Contains(particles, word):
		return join(before, right)
	case noun == "verb":
		return join(left+"access", right)
	case slices.Contains(transitive, word) || beforeVerb(head):
		return join(left+article(noun)+" "+noun, right)
	}
	return join(indefinite(before, noun), right)
}

// beforeVerb reports whether a verb follows a text.
func beforeVerb(text string) bool {
	last := lastWord(text)
	if last == "to" {
		return slices.Contains(infinitives, lastWord(strings.TrimRight(text[:len(text)-len(last)], " ")))
	}
	return slices.Contains(auxiliaries, last)
}

// indefinite gives the noun at the end of a text an article, where it has none and all of its
// phrase is known: "on node" becomes "on a node".
func indefinite(text, noun string) string {
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
				phrase = strings.ToLower(phrase[:1]) + phrase[1:] // unless it is a kind, such as MachineDeployment
			}
			return text[:len(text)-len(phrase)] + capital(article(phrase)+" "+phrase, head)
		}
		phrase = text[len(head)-len(before):]
	}
	return text
}

// begins reports whether a text begins with a part of a word, or with a missing value.
func begins(text string) bool {
	r := firstRune(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.HasPrefix(text, missing)
}

// enclose reports whether two characters are a pair of quotes or brackets.
func enclose(open, closes rune) bool {
	return open != utf8.RuneError && (open == '"' || open == '\'' || open == '`') && open == closes ||
		open == '(' && closes == ')' || open == '[' && closes == ']' || open == '“' && closes == '”'
}

// join removes the spaces and brackets that an omitted value leaves between two parts of a text.
func join(left, right string) (string, string) {
	if left == "" || strings.HasSuffix(left, " ") || strings.HasSuffix(left, "\n") {
		right = strings.TrimLeft(right, " ")
	}
	if right == "" || strings.ContainsRune(".,;:!?)]\n", firstRune(right)) {
		left = strings.TrimRight(left, " ")
	}
	if strings.HasSuffix(left, "(") && strings.HasPrefix(right, ")") {
		return join(strings.TrimRight(left[:len(left)-1], " "), right[1:])
	}
	if left == "" {
		right = capital(right, "")
	}
	return left, right
}

var sentenceEnd = lazyre.New(`[.!?\n]\s`)

// sentence returns the last, unfinished sentence of a text.
func sentence(text string) string {
	if all := sentenceEnd.FindAllStringIndex(text, -1); len(all) > 0 {
		return text[all[len(all)-1][1]:]
	}
	return text
}

// startsSentence reports whether what follows a text, which does not end with spaces, begins a
// sentence or the part after a colon.
func startsSentence(text string) bool {
	return text == "" || strings.ContainsRune(".!?:\n", lastRune(text))
}

// capital returns text as it stands behind before: in upper case where a sentence begins.
func capital(text, before string) string {
	if before != "" && !strings.ContainsRune(".!?\n", lastRune(before)) {
		return text
	}
	r, width := utf8.DecodeRuneInString(text)
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsAny(word, "-./_0123456789") || !unicode.IsLower(r) {
		return text // a name
	}
	return string(unicode.ToUpper(r)) + text[width:]
}

// followedByNoun reports whether a word follows that may be what the missing value describes.
func followedByNoun(right string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(right, " "), " ")
	return strings.HasPrefix(right, " ") && len(word) > 0 && unicode.IsLower(firstRune(word)) &&
		!slices.Contains(beforeNoun, word) && !slices.Contains(verbs, word)
}

// nounOf returns what a name says, in words: "node group" for node_group. Kinds stay as they are.
func nounOf(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	noun := strings.ReplaceAll(strings.TrimRight(name, "_0123456789"), "_", " ")
	if noun == "" {
		return "value"
	}
	if to := aliases[noun]; to != "" {
		return to
	}
	if strings.HasSuffix(noun, "ing") {
		return "object" // crashing, waiting
	}
	return noun
}

// article returns the indefinite article of a noun.
func article(noun string) string {
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
