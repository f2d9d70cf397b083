package victorialogs

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/rangeread"
)

const rows = `{"_msg":"one \u003cb> \"q\"","_stream":"{app=\"a\",k8s.ns=\"x, {y}=\\\"z\\\"\"}","_stream_id":"0","_time":"2026-11-29T16:51:31Z","app":"a","k8s.ns":"x, {y}=\"z\"","trace_id":"t"}
{"_msg":"two","_stream":"{}","_stream_id":"1","_time":"2026-11-29T16:51:31.000000001Z"}
{"_msg":"three","_stream":"{app=\"a\",k8s.ns=\"x, {y}=\\\"z\\\"\"}","_time":"2026-11-29T16:51:30.5Z","app":"a"}
`

func decoded(t *testing.T, body string) (*rangeread.Answer, error) {
	t.Helper()
	a := &rangeread.Answer{Body: []byte(body)}
	return a, lineWriter{}.decode(a)
}

func plain(a *rangeread.Answer) (out []string) {
	pairs := func(all []rangeread.Pair) (text string) {
		for _, p := range all {
			text += fmt.Sprintf(" %s=%s", p.Name, p.Value)
		}
		return text
	}
	for _, e := range a.Entries {
		out = append(out, fmt.Sprintf("%s %s:%s;%s", time.Unix(0, e.Time).UTC().Format("05.999999999"), e.Line, pairs(a.Streams[e.Stream].Labels), pairs(e.Meta)))
	}
	return out
}

func TestDecode(t *testing.T) {
	want := []string{
		`30.5 three: app=a k8s.ns=x, {y}="z";`,
		`31 one <b> "q": app=a k8s.ns=x, {y}="z"; trace_id=t`,
		`31.000000001 two:;`,
	}
	a, err := decoded(t, rows)
	require.NoError(t, err)
	require.Equal(t, want, plain(a))
	require.Len(t, a.Streams, 2)
	a, err = decoded(t, "")
	require.NoError(t, err)
	require.Zero(t, a.Count)
	// Rows without a time or a stream count as unreadable.
	a, err = decoded(t, rows+`{"_msg":"x","_stream":"{}"}{"_msg":"x","_time":"2026-11-29T16:51:31Z"}{"_msg":5}{"_stream":"{a","_time":"2026-11-29T16:51:31Z"}`)
	require.NoError(t, err)
	require.Equal(t, want, plain(a))
	require.Equal(t, 7, a.Count)
	require.Equal(t, 4, a.Bad)
	// VictoriaLogs ends a response with the text of an error.
	for _, end := range []string{"\ncannot execute query\n", "[]", "null", "5", `"x"`, "{"} {
		a, err = decoded(t, rows+end)
		require.Error(t, err, end)
		require.Equal(t, want, plain(a))
	}
	// Of a broken response, exactly the complete entries are decoded.
	whole := map[int]bool{0: true}
	for n := range len(rows) {
		if rows[n] == '\n' {
			whole[n], whole[n+1] = true, true
		}
	}
	for n := range len(rows) {
		a, err = decoded(t, rows[:n])
		require.Equal(t, whole[n], err == nil, n)
		for _, e := range plain(a) {
			require.Contains(t, want, e)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(rows))
	f.Add([]byte(`{"_stream":"{a=\"\\xff\"}","_time":"2026-11-29T16:51:31+01:00"} x`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &rangeread.Answer{Body: body}
		_ = lineWriter{fields: []string{"*"}}.decode(a)
		for _, e := range a.Entries {
			require.Less(t, e.Stream, len(a.Streams))
		}
		require.Equal(t, a.Count, len(a.Entries)+a.Bad)
	})
}

// A response that does not end as it should is not complete, although its text may look so.
func TestCutResponses(t *testing.T) {
	f := func(raw, reason string) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(raw))
			_ = conn.(*net.TCPConn).Close()
		}))
		defer server.Close()
		cfg := rangeread.Config{URL: server.URL, Timeout: 10 * time.Second, MaxBody: 1 << 20}
		c := rangeread.NewClient(Config{}.dialect(), cfg, "")
		defer c.Close()
		var a rangeread.Answer
		failure := c.Query(t.Context(), rangeread.Query{Text: `{a="b"}`, To: 1, Limit: 10}, &a)
		if reason == "" {
			require.Nil(t, failure)
			require.Equal(t, 3, a.Count)
			return
		}
		require.NotNil(t, failure)
		require.Equal(t, reason, failure.Reason)
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(rows), rows)
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+"0\r\n\r\n", "")
	f(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(rows), rows), "")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk, "broken")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+"\nthe connection has been aborted\n", "broken")
	f(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(rows)+1, rows), "broken")
	f("HTTP/1.0 200 OK\r\n\r\n"+rows, "malformed")
}

func TestRefine(t *testing.T) {
	f := func(said, reason string, allowed int) {
		t.Helper()
		got := &rangeread.Failure{Reason: rangeread.ReasonRefused}
		refine(got, http.StatusBadRequest, said)
		require.Equal(t, reason, got.Reason)
		require.Equal(t, allowed, got.Allowed)
	}
	f("the `query` arg length cannot exceed -search.maxQueryLen=16384 bytes; the current query length is 20000 bytes", "query_length", 16384-overhead)
	f("cannot parse `query` arg [x]: unexpected token", "syntax", 0)
	f("too big time range selected: [a, b]; it cannot exceed -search.maxQueryTimeRange=1h", "range", 0)
	f("cannot execute query [x]: cannot calculate [sort by (_time) limit 5000], since it requires more than 8MB of memory", "limit", 0)
	f("cannot execute query [since it requires]: no storage node", "refused", 0)
}
