package lines

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// marked returns a line with «words of others» and ‹the error› marked.
func marked(line string) string {
	var q Quotes
	q.Reset([]byte(line))
	var out strings.Builder
	at := 0
	for _, s := range q.Spans() {
		out.WriteString(line[at:s.From])
		mark := "«»"
		if s.Voice == Error {
			mark = "‹›"
		}
		open, end := mark[:len(mark)/2], mark[len(mark)/2:]
		out.WriteString(open + line[s.From:s.To] + end)
		at = s.To
	}
	return strings.ReplaceAll(out.String()+line[at:], "›‹", "")
}

// TestQuotes has lines as marked returns them.
func TestQuotes(t *testing.T) {
	for name, want := range map[string]string{
		"plain":               `leader election lost`,
		"a quotation":         `denied the request: «"no leader"» for «'x y'» and «` + "`z`" + `»`,
		"apostrophes":         `can't find the node's name`,
		"inches":              `a 5" disk and a 3" disk`,
		"klog":                `E1120 10:00:00.000000 1 a.go:1] "Failed \«"a b\"» now" ‹err="is \›«"gone\"»‹ now›" name=«"a b"» n=«3»`,
		"klogr":               `E1120 10:00:00.000000 1 a.go:1] c "msg"="Failed" ‹"error"="no \›«"x\"»" "name"=«"a"»`,
		"klog, plain":         `E1120 10:00:00.000000 1 a.go:1] watch of «"x"» ended`,
		"logfmt":              `time=«2025-11-20T10:00:00Z» level=«info» msg="a \«"b\"»" query=«"c d"» ‹err="e>›" f=«g»`,
		"logfmt, words":       `level=«info» msg=no leader found ‹error=lost it>›`,
		"JSON":                `{"level":«"info"»,"msg":"a \«"b\"»",‹"error":"c \›«"d\"»‹>›","n":«{"msg":"e"}»,"m":«[1]»}`,
		"JSON, cut":           `{"msg":"a","query":«"b c»`,
		"zap on a console":    "t\tERROR\tx\tReconciler error\t{\"name\": «\"a b\"», ‹\"error\": \"c>›\"}",
		"JSON in a message":   `the body: {«"error"»: «"leader is lost"»}`,
		"JSON in quotes":      `asked «'why {"msg": "the leader is lost"}?'»`,
		"a header in quotes":  `grep «'E1120 10:00:00.000000 1 a.go:1] "Failed" err="x"'» /tmp/a`,
		"a continued line":    "«\tE1120 10:00:00.000000 1 a.go:1] \"Failed\"»",
		"a repeated panic":    "\tpanic: the map is nil [recovered]",
		"continued JSON":      "«\t{\"msg\":\"Failed\"}»",
		"a block":             "E1120 10:00:00.000000 1 a.go:1] \"Failed\" err=«<\n\tno leader\n >» name=«\"a\"»",
		"quotes in quotes":    `refused: «"E1120 "Failed" err="a "b" c" name="d""» by x`,
		"and in an error":     `E1120 10:00:00.000000 1 a.go:1] "Failed" ‹err="refused: \›«"E1120 \"Failed\" err=\"x\"\"»‹ by x>›" n=«1»`,
		"and of a path":       `open() «"/html/"Failed" now"» failed`,
		"escaped twice":       `{"msg":"a \«"b \\\"c\\\" d\"» e"}`,
		"empty quotations":    `Kind:«""», Name:«""» is gone`,
		"nothing closes it":   `asked for «"the leader is lost»`,
		"a request":           `10.0.0.1 «"GET /?q=a b HTTP/1.1"» 200 «"-"» «"curl"»`,
		"a journal":           `Mar 02 09:10:11 n1 a[1]: level=«info» msg="x \«"y\"»" z=«"w"»`,
		"a name before pairs": "level=«info» caller=«a.go:1» msg=\"executing query\" query=«\"{a=\\\"b\\\"} |= `c d`\"» status=«200»",
	} {
		line := strings.NewReplacer("«", "", "»", "", "‹", "", "›", "").Replace(want)
		assert.Equal(t, want, marked(line), name)
	}
}

// TestNames: one or two words of others may be a name, and a word in a block without a key.
func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		`Get "https://a/apis/*leases*/b": refused`:         true,
		`of "cluster/v1, *Kind=*Machine" a`:                true,
		`asked "for the *leases*" now`:                     false,
		"\tthe volume \"x\": *AddressLimitExceeded*: many": true,
		"\tin this \tline *kind=*x":                        false,
	} {
		from := strings.Index(text, "*")
		to := strings.LastIndex(text, "*") - 1
		var q Quotes
		q.Reset([]byte(strings.ReplaceAll(text, "*", "")))
		require.Equal(t, want, q.InWords(from, to), text)
	}
}

// TestFieldsSaid: fields in words of others do not count.
func TestFieldsSaid(t *testing.T) {
	for _, line := range []string{
		`level=info asked="a" but 'kind=Pod'`, "\tkind=Pod", "\t{\"kind\":\"Pod\"}", `GET "/ "a" kind=Pod x"`,
	} {
		var f Fields
		var q Quotes
		f.Reset([]byte(line))
		q.Reset([]byte(line))
		_, ok := f.LookupSaid("kind", &q)
		require.False(t, ok, line)
	}
}

// FuzzQuotes: spans are in order, within the line, and not empty.
func FuzzQuotes(f *testing.F) {
	for _, s := range []string{
		`E1120 10:00:00.000000 1 a.go:1] "Failed \"a b\"" err="is gone" name="a b" n=3`, `{"msg":"a \"b\"","x":{"y":"z`,
		"a\tb\t{\"c\": \"d\"}", "\ta \"b", `'a' "b\\\"c" ` + "`d`", "x=<\n\ta\n >", `""""""`, `\\\\"\\"`, `a"b"c'd`,
		`level=info msg="a b" err=is gone "c d" cause="e \"f\" g" k=v w`, `{"msg":"a b","err":"c \"d\" e" f "g h"`, `{"a":x y,"msg":"b"}`, `{"a" "b":1}`,
		"o:1] \"led \\\"a b\\\"\" err=*is gone\" @\x00me\"a \"=3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var q Quotes
		q.Reset([]byte(line))
		at := 0
		for _, s := range q.Spans() {
			require.True(t, at <= s.From && s.From < s.To && s.To <= len(line), "%d %v", at, s)
			require.True(t, s.Voice == Error || s.Voice == Quotation)
			at = s.To
		}
		// What is read first does not depend on how much is read.
		for k := range min(len(line), 200) {
			var some Quotes
			some.Reset([]byte(line))
			for _, v := range []Voice{Message, Error, Quotation} {
				require.Equal(t, q.HasVoice(k, k+1, v), some.HasVoice(k, k+1, v), "%q at %d", line, k)
			}
		}
		q.HasVoice(0, len(line), Message)
		if HasWord([]byte(line)) {
			q.InWords(0, len(line))
		}
	})
}

// hostile returns lines of n bytes whose quotes cost the most.
func hostile(n int) (out []string) {
	for _, unit := range []string{
		`"`, `\"`, `\`, `a"`, `"a `, ` "a`, `a"(`, `a" "b`, `' `, `a'b `, ` 'a`, "`", "a`", "\ta\n", "\t\"\n", `{"`, `{"a":`, `[`, `]: `, `| `, `="`, `a="`, `a=" `, `a="b" `, `"a"=`,
		`"\"\\\"`, `x\"y`, `\\"a`, `: "\`, `"'`, `a"b'c `,
	} {
		for _, head := range []string{"", "E1120 10:00:00.000000 1 a.go:1] \"", `{"msg":"`, `level=info msg="`} {
			out = append(out, head+strings.Repeat(unit, n/len(unit)))
		}
	}
	return out
}

// TestQuotesAreLinear: a megabyte of quotes takes tens of milliseconds, and seconds if each looks
// at all others.
func TestQuotesAreLinear(t *testing.T) {
	for _, line := range hostile(1 << 20) {
		least := time.Hour
		for range 3 {
			var q Quotes
			q.Reset([]byte(line))
			began := time.Now()
			q.Spans()
			if least = min(least, time.Since(began)); least < time.Second {
				break
			}
		}
		require.Less(t, least, time.Second, "%.60q", line)
	}
}
