package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/plant"
)

// freshKind is a secret with a name of real software, in the syntax of some program.
type freshKind struct {
	text, key, secret string
	pair              bool // the text is key=value
	held              bool // not looked at while the patterns were written
}

// freshList is a list of names and one of syntaxes, and how many of a thousand kinds may leak.
type freshList struct {
	name, keys, syntaxes string
	n                    int
	most                 [2]int // looked at, held out
}

var freshLists = []freshList{
	{"ordinary", "fresh-keys.txt", "fresh-ordinary.txt", 480, [2]int{30, 30}},
	{"odd", "fresh-keys.txt", "fresh-odd.txt", 240, [2]int{150, 150}},
	{"wild ordinary", "wild-names.txt", "wild-ordinary.txt", 486, [2]int{30, 30}},
	{"wild odd", "wild-names.txt", "wild-odd.txt", 290, [2]int{150, 150}},
}

// kinds combines names with syntaxes. Each kind has another name, and a random secret. Every
// second syntax and name is held out, unless the list says which.
func (l freshList) kinds(t *testing.T, rnd *rand.Rand) (out []freshKind) {
	t.Helper()
	read := func(name string) []string {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	keys, rows := read(l.keys), read(l.syntaxes)
	said := strings.HasPrefix(l.name, "wild")
	if !said {
		keys = strings.Fields(strings.Join(keys, " "))
	}
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := range l.n {
		n := i % len(rows)
		syntax, held, key := rows[n], n%2 == 1, keys[i%len(keys)]
		if said {
			key = keys[(i/2*2+n%2)%(len(keys)/2*2)]
		} else {
			var part string
			part, syntax, _ = strings.Cut(syntax, " ")
			held = part == "hold"
		}
		k := freshKind{key: strings.ReplaceAll(key, " ", "_"), secret: freshSecret(rnd, i, said), pair: syntax == "%K=%V", held: held}
		k.text = freshText(syntax, key, &k.secret, rnd)
		out = append(out, k)
	}
	return out
}

var freshShort = regexp.MustCompile(`%A(\d+)`)

// freshText fills the syntax. The words of the name are joined as the syntax says: %K a_b, %E A_B,
// %C aB, %P AB, %D a-b, %T a.b, %H A-B, %W a b. The value is %V, or %A20 if it has 20 letters and
// digits, or %B in base64.
func freshText(syntax, key string, secret *string, rnd *rand.Rand) string {
	if m := freshShort.FindStringSubmatch(syntax); m != nil {
		n, _ := strconv.Atoi(m[1])
		*secret = "k" + freshRandom(rnd, freshLetters+freshDigits, n-2) + "7"
	}
	words := strings.Fields(key)
	pascal := slices.Clone(words)
	for i, w := range pascal {
		pascal[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	camel := words[0] + strings.Join(pascal[1:], "")
	join := func(by string) string { return strings.Join(words, by) }
	return freshShort.ReplaceAllLiteralString(strings.NewReplacer(
		`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", "%K", join("_"), "%E", strings.ToUpper(join("_")), "%C", camel, "%P", strings.Join(pascal, ""),
		"%D", join("-"), "%T", join("."), "%H", strings.Join(pascal, "-"), "%W", key,
		"%V", *secret, "%B", base64.StdEncoding.EncodeToString([]byte(*secret)),
	).Replace(syntax), *secret)
}

const freshLetters, freshDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"

func freshRandom(rnd *rand.Rand, set string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = set[rnd.IntN(len(set))]
	}
	return string(b)
}

// freshSecret returns a random password or key.
func freshSecret(rnd *rand.Rand, i int, wild bool) string {
	const letters, digits = freshLetters, freshDigits
	from := func(set string, n int) string { return freshRandom(rnd, set, n) }
	n := 6
	if wild {
		i, n = rnd.IntN(8), 8
	}
	switch i % n {
	case 6:
		return from(letters, 2) + from("!@#*$%^+-_.~?", 1) + from(letters, 3) + from("!@#*$%^+-_.~?", 1) + from(digits, 2) + from(letters, 4)
	case 7:
		return from(letters[:26], 5) + "-" + from(letters[:26], 6) + "-" + from(digits, 2)
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
	}
	return from(letters[:26], 7) + from(digits, 3)
}

// freshEncodings are the ways in which a text reaches a log.
var freshEncodings = []struct {
	name   string
	encode func(k freshKind) string
}{
	{"plain", func(k freshKind) string { return k.text }},
	{"json", func(k freshKind) string { return asFresh(k.field()) }},
	{"json in json", func(k freshKind) string { return asFresh("msg", asFresh(k.field())) }},
	{"logfmt", func(k freshKind) string {
		name, value := k.field()
		return "level=error " + name + "=" + strconv.Quote(value) + " pod=a"
	}},
	{"yaml", func(k freshKind) string {
		name, value := k.field()
		return "kind: X\n" + name + ": " + strconv.Quote(value) + "\nend: y"
	}},
	{"url", func(k freshKind) string {
		name, value := k.field()
		return "GET /x?a=b&" + url.QueryEscape(name) + "=" + url.QueryEscape(value) + " 400"
	}},
	{"go", func(k freshKind) string {
		name, value := k.field()
		return fmt.Sprintf("got %+v and %q", map[string]string{name: value}, k.text)
	}},
	{"nginx", func(k freshKind) string { // escapes as in its access log
		return `10.0.0.1 - - "POST /x HTTP/1.1" 400 "` + regexp.MustCompile(`[^ -!#-\[\]-~]`).ReplaceAllStringFunc(k.text, func(c string) string {
			return strings.ReplaceAll(fmt.Sprintf(" % X", c), " ", `\x`)
		}) + `"`
	}},
	{"base64", func(k freshKind) string {
		return "payload " + base64.StdEncoding.EncodeToString([]byte("x\n"+k.text+"\n"))
	}},
}

// freshForms also decodes \x22 and the like.
func freshForms(s string) string {
	return plant.Forms(s) + "\n\n" + hexEscape.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[2:], 16, 8)
		return string(rune(n))
	})
}

var hexEscape = regexp.MustCompile(`\\x[0-9A-Fa-f]{2}`)

func (k freshKind) field() (name, value string) {
	if k.pair {
		return k.key, k.secret
	}
	return "msg", k.text
}

func asFresh(name, value string) string {
	b, _ := json.Marshal(map[string]string{"a": "b", name: value}) // strings marshal
	return string(b)
}

// TestFreshKinds counts the leaks of 720 kinds in seven encodings, and in base64. Of
// the held-out half it reports nothing but the number. CROWSNEST_KINDS=1 lists the leaks of the
// other half.
func TestFreshKinds(t *testing.T) {
	r, rnd := New(nil), rand.New(rand.NewPCG(2026, 11))
	for _, list := range freshLists {
		var texts, kinds [2]leaks
		for _, k := range list.kinds(t, rnd) {
			half, leaked := 0, false
			if k.held {
				half = 1
			}
			for _, e := range freshEncodings {
				in := e.encode(k)
				out := r.String(in)
				leaks := plant.Survives(freshForms(in), freshForms(out), []string{k.secret}) != ""
				texts[half].add(leaks)
				leaked = leaked || leaks
				if leaks && !k.held && os.Getenv("CROWSNEST_KINDS") != "" {
					t.Logf("%s %s\n in: %.300q\nout: %.300q", list.name, e.name, in, out)
				}
			}
			kinds[half].add(leaked)
		}
		for half, name := range []string{"looked at", "held out"} {
			t.Logf("%s, %s: of %d kinds %d leak (%.1f %%), of %d texts %d (%.1f %%)", list.name, name, kinds[half].texts, kinds[half].leaked,
				100*float64(kinds[half].leaked)/float64(kinds[half].texts), texts[half].texts, texts[half].leaked, 100*float64(texts[half].leaked)/float64(texts[half].texts))
			require.LessOrEqual(t, 1000*kinds[half].leaked, list.most[half]*kinds[half].texts)
		}
	}
}
