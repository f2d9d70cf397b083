package lineshape

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/traffic"
)

var some = New([]string{"msg", "level", "log.level", "err", "type"}, []string{"x509", "k8s", "tls1.2", "utf-8", "route53", "s3"})

func TestAppend(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, string(some.Append(nil, line)))
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
		require.Equal(t, want, string(AppendWords(nil, line)))
	}
	f("", "*")
	f("a", "a*")
	f("1", "")
	f("I1120 10:00:00.1 a.go:12] re-try x", "*retry*x*")
	f("a  b1 c ", "a**c**")
	f("é-a", "**a*")
}

// The letters of each word without a digit, and a star: a slower way to say the same.
func TestWordsOfLogs(t *testing.T) {
	isEnd := func(r rune) bool { return r >= 0x80 || wordClassOf[r] == 0 }
	for _, kind := range traffic.Kinds() {
		for line := range strings.Lines(string(traffic.Bytes(1_000_000, traffic.Options{Kind: kind}))) {
			line = strings.TrimSuffix(line, "\n")
			if strings.IndexFunc(line, func(r rune) bool { return r >= 0x80 }) >= 0 {
				continue
			}
			var want strings.Builder
			for _, word := range strings.Split(strings.Map(func(r rune) rune {
				if isEnd(r) {
					return ' '
				}
				return r
			}, line), " ") {
				if !strings.ContainsAny(word, "0123456789") {
					want.WriteString(strings.NewReplacer("-", "", ".", "", ":", "").Replace(word) + "*")
				}
			}
			require.Equal(t, want.String(), string(AppendWords(nil, line)), line)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	log := traffic.Bytes(1_000_000, traffic.Options{})
	all := strings.Split(string(log), "\n")
	var out []byte
	for _, way := range []struct {
		name string
		of   func(string)
	}{
		{"Append", func(l string) { out = some.Append(out[:0], l) }},
		{"AppendWords", func(l string) { out = AppendWords(out[:0], l) }},
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
