package redact

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/redact/internal/marks"
	"crowsnest/redact/internal/shape"
	"crowsnest/test/plant"
)

// checkQuick compares the quick way with the thorough one, also on processors on which it
// is not used.
func checkQuick(t *testing.T, r *Redactor, q *quick, s string) {
	t.Helper()
	if s == "" || s == Mask {
		return
	}
	want := thoroughly(r, s)
	require.Equal(t, want, r.String(s), "%q", s)
	if q.isHarmless(r, s) {
		require.Equal(t, s, want, "%q", s)
	}
	checkPlaces(t, r, q, s)
}

// thoroughly is String without the quick way.
func thoroughly(r *Redactor, s string) (out string) {
	defer func() {
		if recover() != nil {
			out = Mask
		}
	}()
	return r.thorough(s)
}

// checkPlaces: the patterns mark each place at which a finder finds something.
func checkPlaces(t *testing.T, r *Redactor, q *quick, s string) {
	t.Helper()
	if len(s) > 2000 || strings.Contains(s, "%") {
		return
	}
	known := quickKnown()
	q.text.Read(known.alphabet, s)
	tokens, signs := q.text.Find(known.tokens, 0), q.text.Find(known.signs, 1)
	at := func(places []uint64, i int) bool { return places[i/64]>>(i%64)&1 != 0 }
	q.s = s
	for i := range len(s) {
		sc := new(scanner)
		sc.start(r, s, 0)
		require.True(t, at(tokens, i) || sc.token(i).empty(), "token at %d of %q", i, s)
		marked := at(tokens, i) || at(signs, i) && !q.isInTime(i)
		require.True(t, marked || !sc.looksAt(i) || sc.at(i).empty(), "sign at %d of %q", i, s)
	}
}

// looksAt reports whether scan looks at the byte at i.
func (sc *scanner) looksAt(i int) bool {
	if i+1 >= len(sc.s) {
		return false
	}
	h, before := sc.tables.hints, uint32(codeEdge)
	if i > 0 {
		before = h.codes[sc.s[i-1]]
	}
	return h.signs.has(h.window(before, sc.s[i], sc.s[i+1]))
}

// pieces of secrets and of what is around them.
var pieces = strings.Fields(`password passwd pwd secret token Token TOKEN api_key apiKey key Key sig auth user USER value name kty community snmp
	Authorization Cookie Bearer bearer Basic eyJhbGciOiJIUzI1NiJ9 AKIAIOSFODNN7EXAMPLE ghp_ glpat- xoxb- s. SK AC K10 sk- re_ pat AIza ya29.
	-----BEGIN -----END PRIVATE KEY----- $2a$ $6$ {SSHA} data: Data Secret kind robot$ .atlasv1. Q~ :AA -us NRAL jdbc:oracle: @// @tcp(
	hunter2 Xk29dkQ81zPq 0123456789abcdef 7 42 a b P d q abcdef.0123456789abcdef 5b3c4c2e-8f3e-4a65-9d2e-0a8d5cf6a4a1 dXNlcjpwYXNzd29yZDEyMw
	= : := => -> == :// / // @ . .. - -- -p -P -u --token --user mysql curl redis-cli \ \" \\\" " ' ` + "`" + ` { } [ ] ( ) < > </ , ; & ? | ! * ~ % %20 %3D + #
	host:5432 10.0.0.1:6443 example.com https http ftp // \n \t \u003c &quot; &#34; é <redacted> echo AUTH identified BY IDENTIFIED is for with 10:04: 20 10:04:05 12: k dp qi pw "k": "v":0 ]=> ]"`)

func randomLine(r *rand.Rand, kinds []plant.Kind) string {
	var b strings.Builder
	for range 1 + r.IntN(12) {
		switch r.IntN(30) {
		case 0:
			text, _ := kinds[r.IntN(len(kinds))].Fill(r)
			b.WriteString(text)
		case 1:
			b.WriteString(strings.Repeat(pieces[r.IntN(len(pieces))], r.IntN(9)))
		default:
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		b.WriteString([]string{"", "", "", " ", "  ", "\t", "\n", `\n`}[r.IntN(8)])
	}
	return b.String()
}

func TestQuickOnRandomLines(t *testing.T) {
	r, q := New(nil), new(quick)
	rnd := rand.New(rand.NewPCG(11, 12))
	ks := kinds(t)
	harmless := 0
	for range 30_000 {
		s := randomLine(rnd, ks)
		checkQuick(t, r, q, s)
		if q.isHarmless(r, s) {
			harmless++
		}
	}
	require.Greater(t, harmless, 5000)
}

func TestQuickOnPlantedSecrets(t *testing.T) {
	r, q := New(nil), new(quick)
	rnd := rand.New(rand.NewPCG(13, 14))
	for _, k := range kinds(t) {
		text, _ := k.Fill(rnd)
		checkQuick(t, r, q, text)
		for _, encode := range encodings() {
			checkQuick(t, r, q, encode(text))
			checkQuick(t, r, q, ordinary()[rnd.IntN(len(ordinary()))]+encode(text))
		}
	}
	for _, s := range hostile(1000) {
		checkQuick(t, r, q, s)
	}
	for _, n := range []int{marks.MaxText - 1, marks.MaxText, marks.MaxText + 1} {
		checkQuick(t, r, q, strings.Repeat("a", n-10)+"password=x")
	}
}

// TestQuickOnLogs: nearly all lines of controllers are harmless the quick way, unless they have
// percent signs or colours.
func TestQuickOnLogs(t *testing.T) {
	r, q := New(nil), new(quick)
	lines, harmless := 0, 0
	for _, line := range slices.Concat(logLines(t), ruleTestLines(t), plant.Ordinary(rand.New(rand.NewPCG(5, 6)), 3)) {
		checkQuick(t, r, q, line)
		if line == "" || strings.ContainsAny(line, "%\x1b") {
			continue
		}
		lines++
		if q.isHarmless(r, line) {
			harmless++
		}
	}
	require.Greater(t, lines, 500)
	require.Greater(t, 100*harmless, 95*lines)
	t.Logf("%d of %d lines", harmless, lines)
}

// logLines returns the lines of the recorded incidents.
func logLines(t *testing.T) (lines []string) {
	t.Helper()
	var more []string
	require.NoError(t, filepath.WalkDir("../testdata/incidents", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".log" {
			more = append(more, path)
		}
		return err
	}))
	for _, name := range more {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		lines = append(lines, strings.Split(string(b), "\n")...)
	}
	return lines
}

// TestDullWords: the filters of words exclude no secret.
func TestDullWords(t *testing.T) {
	r, q := New(nil), new(quick)
	rnd := rand.New(rand.NewPCG(15, 16))
	befores := []string{"", "token ", "token: ", "Secret=", `"password":"`, "the apiKey is ", "credential\\\"", Mask + " ", "id ", "x] ", "my-token ", "api_token: ", "the encryption key ", strings.Repeat("x", 30)}
	dull := 0
	for range 50_000 {
		letters := []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "abcdef0123456789", "-_/+"}
		word := make([]byte, shape.MinAnnounced+rnd.IntN(30))
		if rnd.IntN(4) == 0 {
			word = make([]byte, 36)
		}
		list := letters[rnd.IntN(5)]
		for i := range word {
			if rnd.IntN(1+rnd.IntN(12)) == 0 {
				list = letters[rnd.IntN(5)]
			}
			word[i] = list[rnd.IntN(len(list))]
		}
		if rnd.IntN(2) == 0 && len(word) == 36 {
			copy(word, fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", rnd.Uint32(), rnd.IntN(1<<16), rnd.IntN(1<<16), rnd.IntN(1<<16), rnd.IntN(1<<48)))
		}
		before := befores[rnd.IntN(len(befores))]
		s := before + string(word)
		q.text.Read(quickKnown().alphabet, s)
		q.start(r, s, 0)
		q.text.Words(func(from, to int) bool {
			first, end := q.secretWord(s, from, to)
			if is := q.isOrdinary(from, to); is {
				dull++
				require.GreaterOrEqual(t, first, end, s)
			}
			return true
		})
		q.forget()
	}
	require.Greater(t, dull, 1000)
}

// TestQuickForgets: no text stays in memory.
func TestQuickForgets(t *testing.T) {
	q, r := new(quick), New(nil)
	q.isHarmless(r, "password=hunter2")
	require.NotContains(t, fmt.Sprintf("%q", q.s), "hunter2")
	require.Equal(t, scanner{}, q.scanner)
}

func FuzzQuick(f *testing.F) {
	r, q := New(nil), new(quick)
	for _, k := range announced(f) {
		text, _ := k.Fill(rand.New(rand.NewPCG(3, 4)))
		f.Add(text)
	}
	for _, s := range append(hostile(60), ordinary()...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkQuick(t, r, q, s) })
}
