package lineshape

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/traffic"
)

var some = New([]string{"msg", "level", "log.level", "err", "type"}, []string{"x509", "k8s", "tls1.2", "utf-8", "route53", "s3"})

// requireSame compares with the plain way, also behind other text.
func requireSame(t *testing.T, line string, m *Masks) {
	t.Helper()
	want := string(some.appendPlain(nil, line))
	require.Equal(t, want, string(some.Append(nil, line, m)), "%q", line)
	require.Equal(t, "x"+want, string(some.Append([]byte("x"), line, m)), "%q", line)
	want = string(appendWordsPlain(nil, line))
	require.Equal(t, want, string(AppendWords(nil, line, m)), "%q", line)
	require.Equal(t, "x"+want, string(AppendWords([]byte("x"), line, m)), "%q", line)
}

func TestAppend(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, string(some.Append(nil, line, new(Masks))))
		require.Equal(t, want, string(some.appendPlain(nil, line)))
	}
	f("", "")
	f("0", "0")
	f("00 0 10", "# 0 #")
	f("I1120 10:00:00.1 a.go:12] x509 X509 x510 tls1.2 tls1.23 route53 s3", "I# #:#:# a.go:#] x509 X509 x# tls1.2 t# r# s3")
	f(`name="web-0" msg="web" x="a b1" ="c" level="info"`, `name="*" msg="web" x="a b#" ="c" level="info"`)
	f(`{"name":"web/0","log.level":"info","v":0}`, `{"name":"*","log.level":"info","v":0}`)
	f(`n="a`, `n="a`)
	f(`n="1`, `n="#`)
	f(`n=""`, `n=""`)
	f("\xff1\x00 é2", "\xff# \xc3#")
}

func TestAppendWords(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, string(AppendWords(nil, line, new(Masks))))
		require.Equal(t, want, string(appendWordsPlain(nil, line)))
	}
	f("", "*")
	f("a", "a*")
	f("1", "")
	f("I1120 10:00:00.1 a.go:12] re-try x", "*retry*x*")
	f("a  b1 c ", "a**c**")
	f("é-a", "**a*")
}

// Every place of a word, a value and a lone zero relative to the ends of blocks.
func TestPlaces(t *testing.T) {
	var m Masks
	for _, piece := range []string{
		" ab12cd ", " 0 ", " x509 ", ` k="v-1" `, ` msg="v-1" `, `="`, ` "k":"` + strings.Repeat("v", 70) + `"`, " " + strings.Repeat("a", 130) + "1",
		" 1" + strings.Repeat("a", 130) + " b", ` k="` + strings.Repeat("9", 200) + `" 1`, "x5", "é0",
	} {
		for before := range 140 {
			for _, after := range []string{"", " ", "end 1", strings.Repeat("z", 64)} {
				requireSame(t, strings.Repeat("p", before)+piece+after, &m)
				requireSame(t, strings.Repeat(" ", before)+piece+after, &m)
			}
		}
	}
}

func TestRandomLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "0", "1", "9", "x509", "k8s", "utf-8", " ", " ", `"`, `="`, `":"`, `msg="`, "-", ".", "/", "_", ":", "=", `\`, "\x00", "\xff", "é", "name", "B", strings.Repeat("q", 61), "0 "}
	var m Masks
	for range 60_000 {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		requireSame(t, b.String(), &m)
	}
}

func TestLogs(t *testing.T) {
	var m Masks
	for _, kind := range traffic.Kinds() {
		for line := range strings.Lines(string(traffic.Bytes(1_000_000, traffic.Options{Kind: kind}))) {
			requireSame(t, strings.TrimSuffix(line, "\n"), &m)
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add(`I1120 10:00:00.000000       1 a.go:12] "x" pod="shop/web-0" v=0`)
	f.Fuzz(func(t *testing.T, line string) { requireSame(t, line, new(Masks)) })
}

func BenchmarkAppend(b *testing.B) {
	log := traffic.Bytes(1_000_000, traffic.Options{})
	all := strings.Split(string(log), "\n")
	var m Masks
	var out []byte
	for _, way := range []struct {
		name string
		of   func(string)
	}{
		{"Append", func(l string) { out = some.Append(out[:0], l, &m) }},
		{"AppendWords", func(l string) { out = AppendWords(out[:0], l, &m) }},
		{"plain words", func(l string) { out = appendWordsPlain(out[:0], l) }},
		{"plain", func(l string) { out = some.appendPlain(out[:0], l) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				for _, l := range all {
					way.of(l)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/line")
		})
	}
}
