package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
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

// freshKinds combines names with syntaxes. Each kind has another name, and a random secret.
func freshKinds(t *testing.T, syntaxes string, n int, rnd *rand.Rand) (out []freshKind) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return string(b)
	}
	keys, rows := strings.Fields(read("fresh-keys.txt")), strings.Split(strings.TrimSpace(read(syntaxes)), "\n")
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := range n {
		part, syntax, _ := strings.Cut(rows[i%len(rows)], " ")
		k := freshKind{key: keys[i%len(keys)], secret: freshSecret(rnd, i), pair: syntax == "%K=%V", held: part == "hold"}
		k.text = strings.NewReplacer("%K", k.key, "%V", k.secret, `\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(syntax)
		out = append(out, k)
	}
	return out
}

// freshSecret returns a random password or key.
func freshSecret(rnd *rand.Rand, i int) string {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	from := func(set string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = set[rnd.IntN(len(set))]
		}
		return string(b)
	}
	switch i % 6 {
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
	{"base64", func(k freshKind) string {
		return "payload " + base64.StdEncoding.EncodeToString([]byte("x\n"+k.text+"\n"))
	}},
}

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
	for _, list := range []struct {
		name, syntaxes string
		n, most        int // leaked kinds, in a thousand
	}{{"ordinary", "fresh-ordinary.txt", 480, 200}, {"odd", "fresh-odd.txt", 240, 310}} {
		var texts, kinds [2]leaks
		for _, k := range freshKinds(t, list.syntaxes, list.n, rnd) {
			half, leaked := 0, false
			if k.held {
				half = 1
			}
			for _, e := range freshEncodings {
				in := e.encode(k)
				out := r.String(in)
				leaks := plant.Survives(plant.Forms(in), plant.Forms(out), []string{k.secret}) != ""
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
			require.LessOrEqual(t, 1000*kinds[half].leaked, list.most*kinds[half].texts)
		}
	}
}
