package plant

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fresh is a secret with a name of real software, in the syntax of some program.
type Fresh struct {
	Text, Key, Secret string
	Pair              bool // the text is key=value
	Held              bool // not looked at while the patterns were written
}

// FreshList combines names with syntaxes to N kinds.
type FreshList struct {
	Name string
	N    int

	keys, syntaxes string
}

// FreshLists are the lists: each was written before anybody looked how the patterns do on it.
var FreshLists = []FreshList{
	{"ordinary", 480, "keys", "ordinary"},
	{"odd", 240, "keys", "odd"},
	{"wild ordinary", 486, "wild-names", "wild-ordinary"},
	{"wild odd", 290, "wild-names", "wild-odd"},
}

//go:embed fresh/*.txt
var freshFiles embed.FS

func freshRows(name string) []string {
	b, err := freshFiles.ReadFile("fresh/" + name + ".txt")
	if err != nil {
		panic(err) // the file is in the program
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// Kinds returns the kinds. Each has another name, and a random secret. A row of the syntaxes says
// whether it is held out, and each second name is.
func (l FreshList) Kinds(rnd *rand.Rand) (out []Fresh) {
	keys, rows := freshRows(l.keys), freshRows(l.syntaxes)
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := range l.N {
		part, syntax, _ := strings.Cut(rows[i%len(rows)], " ")
		key := i / 2 * 2 % (len(keys) - 1)
		if part == "hold" {
			key++
		}
		k := Fresh{Key: strings.ReplaceAll(keys[key], " ", "_"), Secret: freshSecret(rnd), Pair: syntax == "%K=%V", Held: part == "hold"}
		k.fill(syntax, strings.Fields(keys[key]), rnd)
		out = append(out, k)
	}
	return out
}

var shortValue = regexp.MustCompile(`%A(\d+)`)

// fill makes the text. The words of the name are joined as the syntax says: %K a_b, %E A_B,
// %C aB, %P AB, %D a-b, %T a.b, %H A-B, %W a b. The value is %V, or %A20 if it has 20 letters and
// digits, or %B in base64.
func (k *Fresh) fill(syntax string, words []string, rnd *rand.Rand) {
	if m := shortValue.FindStringSubmatch(syntax); m != nil {
		n, _ := strconv.Atoi(m[1])
		k.Secret = "k" + random(rnd, letters+digits, n-2) + "7"
		syntax = strings.ReplaceAll(syntax, m[0], "%V")
	}
	pascal := slices.Clone(words)
	for i, w := range pascal {
		pascal[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	join := func(by string) string { return strings.Join(words, by) }
	k.Text = strings.NewReplacer(
		`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r",
		"%K", join("_"), "%E", strings.ToUpper(join("_")), "%C", words[0]+strings.Join(pascal[1:], ""), "%P", strings.Join(pascal, ""),
		"%D", join("-"), "%T", join("."), "%H", strings.Join(pascal, "-"), "%W", join(" "),
		"%V", k.Secret, "%B", base64.StdEncoding.EncodeToString([]byte(k.Secret)),
	).Replace(syntax)
}

const letters = lower + upper

func random(rnd *rand.Rand, set string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = set[rnd.IntN(len(set))]
	}
	return string(b)
}

// freshSecret returns a random password or key.
func freshSecret(rnd *rand.Rand) string {
	const signs = "!@#*$%^+-_.~?"
	from := func(set string, n int) string { return random(rnd, set, n) }
	switch rnd.IntN(8) {
	case 0:
		return from(letters, 6) + from(digits, 2) + from(letters, 2) + from("!@#*", 1) + from(letters, 2) + from(digits, 1)
	case 1:
		return from(letters+digits, 30) + from(digits, 2)
	case 2:
		return from("abcdef"+digits, 40)
	case 3:
		return from(letters, 1) + from(letters+digits, 12) + from(digits, 1)
	case 4:
		return from(letters, 1) + from(letters+digits+"+/", 42) + "="
	case 5:
		return from(letters, 2) + from(signs, 1) + from(letters, 3) + from(signs, 1) + from(digits, 2) + from(letters, 4)
	case 6:
		return from(lower, 5) + "-" + from(lower, 6) + "-" + from(digits, 2)
	}
	return from(lower, 7) + from(digits, 3)
}

// FreshEncoding is a way in which a text reaches a log.
type FreshEncoding struct {
	Name   string
	Encode func(k Fresh) string
}

// FreshEncodings are the ways.
var FreshEncodings = []FreshEncoding{
	{"plain", func(k Fresh) string { return k.Text }},
	{"json", func(k Fresh) string { return freshJSON(k.field()) }},
	{"json in json", func(k Fresh) string { return freshJSON("msg", freshJSON(k.field())) }},
	{"logfmt", func(k Fresh) string {
		name, value := k.field()
		return "level=error " + name + "=" + strconv.Quote(value) + " pod=a"
	}},
	{"yaml", func(k Fresh) string {
		name, value := k.field()
		return "kind: X\n" + name + ": " + strconv.Quote(value) + "\nend: y"
	}},
	{"url", func(k Fresh) string {
		name, value := k.field()
		return "GET /x?a=b&" + url.QueryEscape(name) + "=" + url.QueryEscape(value) + " 400"
	}},
	{"go", func(k Fresh) string {
		name, value := k.field()
		return fmt.Sprintf("got %+v and %q", map[string]string{name: value}, k.Text)
	}},
	{"nginx", func(k Fresh) string { // the escapes of its access log
		return `10.0.0.1 - - "POST /x HTTP/1.1" 400 "` + unprinted.ReplaceAllStringFunc(k.Text, func(c string) string {
			return strings.ReplaceAll(fmt.Sprintf(" % X", c), " ", `\x`)
		}) + `"`
	}},
	{"base64", func(k Fresh) string {
		return "payload " + base64.StdEncoding.EncodeToString([]byte("x\n"+k.Text+"\n"))
	}},
}

var (
	unprinted = regexp.MustCompile(`[^ -!#-\[\]-~]`)
	hexEscape = regexp.MustCompile(`\\x[0-9A-Fa-f]{2}`)
)

func (k Fresh) field() (name, value string) {
	if k.Pair {
		return k.Key, k.Secret
	}
	return "msg", k.Text
}

func freshJSON(name, value string) string {
	b, _ := json.Marshal(map[string]string{"a": "b", name: value}) // strings marshal
	return string(b)
}

// Leaks reports whether the secret is in what became of a text.
func (k Fresh) Leaks(before, after string) bool {
	forms := func(s string) string {
		return Forms(s) + "\n\n" + hexEscape.ReplaceAllStringFunc(s, func(m string) string {
			n, _ := strconv.ParseUint(m[2:], 16, 8)
			return string(rune(n))
		})
	}
	return Survives(forms(before), forms(after), []string{k.Secret}) != ""
}
