package lines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const refStamp = `\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d|[+-]\d{4})`

var (
	refCRI   = regexp.MustCompile(`(?s)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d|[+-]\d{4})) (stdout|stderr) ([FP])(?:\r?$|(?::[^ ]*)?(?: (.*))?$)`)
	refWhole = regexp.MustCompile(`^` + refStamp + `$`)
)

// FuzzCRI: the fast and the general parser read the header of a line like a regular
// expression.
func FuzzCRI(f *testing.F) {
	for _, s := range []string{
		"2025-11-20T10:00:00.123456789Z stderr F text of forty bytes and more",
		"2025-11-20T10:00:00.123456789Z stdout P ", "2025-11-20T10:00:00.123456789Z stdout F", "2025-11-20T10:00:00.123456789Z stdout F\r",
		"2025-11-20T10:00:00Z stdout F:tag:tag text", "2025-11-20T10:00:00,5+0130 stdout P: text", "2025-11-20T10:00:00.123456789Z stderr X text",
		"2025-11-20T10:00:00.123456789Z stdour F text", "2025-11-20 10:00:00Z stdout F x", "2025-1a-20T10:00:00.123456789Z stderr F text and more",
		"2025-11-20T10:00:00.12345678\xb9Z stderr F text and more of it", "2025-11-20T10:00:00.123456789Z  stderr F text and more",
		"2025-11-20T10:00:00.123456789Z stdout F 2025-11-20T10:00:00.123456789Z stderr F forged",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // a line has none
		}
		e, ok := ReadCRI(line)
		general, alike := readAnyCRI(line)
		require.Equal(t, alike, ok)
		m := refCRI.FindSubmatch(line)
		require.Equal(t, m != nil, ok)
		if !ok {
			return
		}
		require.Equal(t, string(m[1]), string(e.Stamp))
		require.Equal(t, string(m[2]) == "stderr", e.Stderr)
		require.Equal(t, string(m[3]) == "P", e.Partial)
		require.Equal(t, string(m[4]), string(e.Text))
		require.Equal(t, [3]string{string(e.Stamp), string(e.Text), fmt.Sprint(e.Stderr, e.Partial)},
			[3]string{string(general.Stamp), string(general.Text), fmt.Sprint(general.Stderr, general.Partial)})
	})
}

// FuzzStamps: the time of a stamp does not depend on the stamps before it.
func FuzzStamps(f *testing.F) {
	const usual = "2025-11-20T10:00:00.123456789Z"
	for _, s := range []string{
		usual, "2025-11-20T10:00:00.000000001Z", "2025-11-20T10:00:60.123456789Z", "2025-02-30T10:00:00.123456789Z", "2025-11-20 10:00:00,123456789Z",
		"2025-11-20T10:00:00.5Z", "2025-11-20T10:00:00+01:30", "2025-11-20T10:00:00.1234+01:30", "2025/11/20T10:00:00.123456789Z", "0000-00-00T00:00:00.000000000Z",
	} {
		f.Add([]byte(usual), []byte(s))
		f.Add([]byte(s), []byte(usual))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var known Stamps
		for _, b := range [][]byte{first, second, first} {
			if n, _ := stampLen(b); n == 0 || n != len(b) {
				continue
			}
			want, wantOK := StampTime(b)
			got, ok := known.Time(b)
			require.Equal(t, wantOK, ok)
			require.Equal(t, want, got)
		}
	})
}

// FuzzDocker: a line of docker-json is read as encoding/json reads it.
func FuzzDocker(f *testing.F) {
	for _, s := range []string{
		`{"log":"text\n","stream":"stdout","time":"2025-11-20T10:00:00.123456789Z"}`,
		`{"log":"part","stream":"stderr","attrs":{"a":"b"},"time":"2025-11-20T10:00:00Z"}`,
		`{"stream":"stderr","log":"\u003cx\u003e\t\"q\"\\\n","time":"2025-11-20T10:00:00Z"}`,
		` {"time":"2025-11-20T10:00:00Z","log":"a","log":"b\n","stream":"stdout"} `,
		`{"log":"\ud83d\ude00\udead\n","stream":"stdout","time":"2025-11-20T10:00:00Z"}`,
		`{"log":"a\n","stream":"stdout","time":"2025-11-20T10:00:00Z","namespace":"kube-system"}`,
		`{"log":"a\n","stream":"stdout","time":"yesterday"}`, `{"log":1,"stream":"stdout","time":"2025-11-20T10:00:00Z"}`, `{"log":"a","stream":"stdout","time":"2025-11-20T10:00:00Z"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		e, ok := new(Docker).Read(line)
		if ok {
			require.True(t, bytes.Contains(line, []byte(`"log"`)), "a key that is escaped")
		}
		// Invalid JSON may be read in part; valid JSON is read completely.
		var d struct {
			Log, Stream, Time *string
		}
		if !utf8.Valid(line) || !json.Valid(line) || json.Unmarshal(line, &d) != nil || ambiguous(line) {
			return
		}
		want := d.Log != nil && d.Stream != nil && d.Time != nil && (*d.Stream == "stdout" || *d.Stream == "stderr") &&
			refWhole.MatchString(*d.Time) && bytes.Contains(line, []byte(`"log"`))
		require.Equal(t, want, ok)
		if !ok {
			return
		}
		text, whole := strings.CutSuffix(*d.Log, "\n")
		require.Equal(t, text, string(e.Text))
		require.Equal(t, !whole, e.Partial)
		require.Equal(t, *d.Stream == "stderr", e.Stderr)
		require.Equal(t, *d.Time, string(e.Stamp))
	})
}

// ambiguous reports whether encoding/json reads the line differently from
// the reader does: keys in other cases, twice, or null.
func ambiguous(line []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(line))
	seen := map[string]bool{}
	depth, key := 0, false
	for {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			key = depth == 1
			continue
		case string:
			if key && depth == 1 {
				low := strings.ToLower(v)
				upper := strings.ToUpper(v) // EqualFold would fold more
				if low != v || seen[v] || strings.ToUpper(low) != upper || strings.ContainsRune(v, 'ſ') {
					return true
				}
				seen[v] = true
				key = false
				continue
			}
		}
		if depth == 1 {
			key = true
		}
	}
}
