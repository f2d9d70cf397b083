package sentinel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/traffic"
)

func TestAppendWords(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, string(appendWords(nil, line)))
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
			require.Equal(t, want.String(), string(appendWords(nil, line)), line)
		}
	}
}
