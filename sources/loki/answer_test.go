package loki

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/rangeread"
)

func answerOf(body []byte) *rangeread.Answer { return &rangeread.Answer{Body: body} }

// plainEntry is an entry as strings.
type plainEntry struct {
	ts     int64
	labels string
	line   string
	meta   string
}

// whole replaces invalid UTF-8 byte by byte, as encoding/json does.
func whole(b []byte) string { return string([]rune(string(b))) }

func plainPairs(pairs []rangeread.Pair) string {
	m := map[string]string{}
	for _, p := range pairs {
		m[whole(p.Name)] = whole(p.Value)
	}
	return plainMap(m)
}

func plainMap(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%q=%q", k, m[k]))
	}
	return strings.Join(out, ",")
}

func plain(a *rangeread.Answer) []plainEntry {
	var out []plainEntry
	for _, e := range a.Entries {
		out = append(out, plainEntry{e.Time, plainPairs(a.Streams[e.Stream].Labels), whole(e.Line), plainPairs(e.Meta)})
	}
	return out
}

// reference decodes slowly, with encoding/json.
func reference(data []byte) (out []plainEntry, bad int, ok bool) {
	var top, body map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil || top == nil {
		return nil, 0, false
	}
	if json.Unmarshal(top["data"], &body) != nil {
		return nil, 0, true
	}
	if kind, stated := body["resultType"]; stated {
		var s any
		if json.Unmarshal(kind, &s) != nil || s != "streams" {
			return nil, 0, false
		}
	}
	var result []json.RawMessage
	_ = json.Unmarshal(body["result"], &result)
	for _, raw := range result {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			continue
		}
		var values []json.RawMessage
		_ = json.Unmarshal(fields["values"], &values)
		labels, known := texts(fields["stream"])
		for _, v := range values {
			e, good := referenceValue(v)
			if e.labels = labels; !good || !known {
				bad++
				continue
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b plainEntry) int {
		switch {
		case a.ts < b.ts:
			return -1
		case a.ts > b.ts:
			return 1
		}
		return 0
	})
	return out, bad, true
}

func referenceValue(raw json.RawMessage) (e plainEntry, ok bool) {
	var v []json.RawMessage
	if json.Unmarshal(raw, &v) != nil || len(v) < 2 {
		return e, false
	}
	var ts, line any
	_ = json.Unmarshal(v[0], &ts)
	_ = json.Unmarshal(v[1], &line)
	at, ok1 := ts.(string)
	e.line, ok = line.(string)
	n, err := strconv.ParseInt(at, 10, 64)
	if e.ts = n; !ok || !ok1 || err != nil {
		return e, false
	}
	if len(v) > 2 {
		var third map[string]json.RawMessage
		if json.Unmarshal(v[2], &third) == nil && third["structuredMetadata"] != nil {
			e.meta, ok = texts(third["structuredMetadata"])
		}
	}
	return e, ok
}

func texts(raw json.RawMessage) (string, bool) {
	var m map[string]any
	if raw == nil || json.Unmarshal(raw, &m) != nil || m == nil {
		return "", false
	}
	out := map[string]string{}
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			return "", false
		}
		out[k] = s
	}
	return plainMap(out), true
}

// twice reports whether an object has a duplicate name: the two decoders may then
// differ in the effect of a bad value.
func twice(data []byte) bool {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	type level struct {
		object, value bool
		seen          map[string]bool
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		if n := len(stack) - 1; n >= 0 && stack[n].object && tok != json.Delim('}') {
			if name, isName := tok.(string); isName && !stack[n].value {
				if stack[n].seen[name] {
					return true
				}
				stack[n].seen[name], stack[n].value = true, true
				continue
			}
			stack[n].value = false
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			stack = append(stack, level{object: tok == json.Delim('{'), seen: map[string]bool{}})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
}

var answers = []string{
	`{"status":"success","data":{"resultType":"streams","encodingFlags":["categorize-labels"],"result":[{"stream":{"app":"a","pod":"p"},"values":[["1","one",{}],["3","three",{"structuredMetadata":{"trace_id":"x","detected_level":"error"},"parsed":{"a":"b"}}]]},{"stream":{"app":"b"},"values":[["2","two"]]}],"stats":{"summary":{"bytes":1.5e3,"x":[null,true,false,-0.1E+2]}}}}`,
	`{"data":{"result":[{"values":[["5","late labels"]],"stream":{"a":"b"}}]}}`,
	`{"data":{"result":[{"stream":{"a":1},"values":[["5","x"]]},{"values":[["6","y"]]},{"stream":{"a":"b"},"values":[["x","y"],[7,"y"],["8"],["9",null],{},null,["10","good",5],["11","bad",{"structuredMetadata":{"a":[]}}]]}]}}`,
	`{"data":{"result":[{"stream":{"a":"b\u0041\ud83d\ude00\ud800\n\"\\"},"values":[["-5","é\u00e9\u0000 ` + "\xff\xc3" + `"]]}]}}`,
	`{"data":null}`, `{"data":{"result":null}}`, `{"data":{"result":{}}}`, `[]`, `null`, ``, `{`, `{"data":{"result":[{"stream":{"a":"b"},"values":[["1","x"],["2","y`,
	`{"data":{"resultType":"matrix","result":[]}}`, `{"data":{"result":[]}} x`, `{"warnings":["some"],"data":{"result":[]}}`,
	`{"data":{"result":[{"stream":{},"values":[["1","no labels"]]}]}}`,
	`{"data":{"result":[{"stream":{"a":"b"},"values":[["1","a\` + "u12" + `"]]}]}}`,
	`{"a":01}`, `{"a":"` + "\n" + `"}`, `{"a":tru}`, `{"a":1.}`, `{"a":1e}`, `{"a" 1}`, `{"a":[1 2]}`, `{"a":"\x"}`,
}

func FuzzAnswer(f *testing.F) {
	for _, s := range answers {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := answerOf(slices.Clone(data))
		err := decode(a)
		for _, e := range a.Entries {
			require.Less(t, e.Stream, len(a.Streams))
		}
		require.LessOrEqual(t, len(a.Entries)+a.Bad, a.Count)
		if twice(data) {
			return
		}
		want, bad, ok := reference(data)
		if !ok {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, plain(a))
		require.Equal(t, bad, a.Bad)
	})
}

func TestAnswer(t *testing.T) {
	for _, s := range answers {
		a := answerOf([]byte(s))
		err := decode(a)
		want, bad, ok := reference([]byte(s))
		require.Equal(t, ok, err == nil, "%s: %v", s, err)
		if ok {
			require.Equal(t, want, plain(a), s)
			require.Equal(t, bad, a.Bad, s)
			require.Equal(t, len(want)+bad, a.Count, s)
		}
	}
}

// Of a broken response, exactly the complete entries are decoded.
func TestAnswerCutAnywhere(t *testing.T) {
	all, _, _ := reference([]byte(answers[0]))
	for n := range len(answers[0]) {
		a := answerOf([]byte(answers[0][:n]))
		require.Error(t, decode(a))
		for _, e := range plain(a) {
			require.Contains(t, all, e)
		}
	}
	a := answerOf([]byte(`{"data":{"result":[{"stream":{"a":"b"},"values":[["1","x"],["25","y`))
	require.Error(t, decode(a))
	require.Len(t, a.Entries, 1)
	require.EqualValues(t, 25, a.Cut, "the time of the entry that is cut")
}

func TestAnswerBounds(t *testing.T) {
	a := answerOf([]byte(`{"data":` + strings.Repeat("[", 100_000)))
	require.ErrorContains(t, decode(a), "depth")
	a = answerOf([]byte(`{"warnings":["half of it", "more"]}`))
	require.NoError(t, decode(a))
	require.Equal(t, "half of it", a.Warning)
}

// A full page of ordinary lines.
func BenchmarkAnswer(b *testing.B) {
	var page strings.Builder
	page.WriteString(`{"status":"success","data":{"resultType":"streams","result":[`)
	for k := range 20 {
		fmt.Fprintf(&page, `%s{"stream":{"app":"a","pod":"p%d","namespace":"capi-system"},"values":[`, strings.Repeat(",", min(k, 1)), k)
		for i := range 250 {
			fmt.Fprintf(&page, `%s["%d","E0101 00:00:00.000000       1 controller.go:329] \"Reconciler error\" err=\"failed to get node\" name=\"workers-%d\" reconcileID=\"%d\"",{"structuredMetadata":{"detected_level":"error"}}]`,
				strings.Repeat(",", min(i, 1)), 1_700_000_000_000_000_000+i*20+k, i, i)
		}
		page.WriteString(`]}`)
	}
	page.WriteString(`]}}`)
	b.SetBytes(int64(page.Len()))
	b.ReportAllocs()
	a := answerOf(nil)
	for b.Loop() {
		a.Reset()
		a.Body = append(a.Body, page.String()...)
		if err := decode(a); err != nil || len(a.Entries) != 5000 {
			b.Fatal(err, len(a.Entries))
		}
	}
}
