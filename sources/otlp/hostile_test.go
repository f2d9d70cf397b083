package otlp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// repeated returns a message that contains a field n times.
func repeated(field protowire.Number, value []byte, n int) []byte {
	return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value), n)
}

// wrapped returns a message around a message for each field.
func wrapped(message []byte, fields ...protowire.Number) []byte {
	for _, f := range fields {
		message = repeated(f, message, 1)
	}
	return message
}

// hostile are requests that try to take memory, by name. Those that end with JSON are in JSON.
func hostile(t testing.TB) map[string][]byte {
	const most = 15 * mib
	nested := func(levels int, one func([]byte) []byte, inner []byte) []byte {
		for range levels {
			inner = one(inner)
		}
		return inner
	}
	inRecord := func(record []byte) []byte { return wrapped(record, fieldLogRecords, fieldScopeLogs, fieldResourceLogs) }
	attributes := repeated(6, nil, maxRecord/2-10)
	asJSON := func(record string) []byte {
		return []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + record + `]}]}]}`)
	}
	return map[string][]byte{
		"a bomb of zeros":             make([]byte, 100*mib),
		"empty resources":             repeated(fieldResourceLogs, nil, most/2),
		"empty scopes":                wrapped(repeated(fieldScopeLogs, nil, most/2), fieldResourceLogs),
		"empty records":               wrapped(repeated(fieldLogRecords, nil, mib), fieldScopeLogs, fieldResourceLogs),
		"a record of attributes":      inRecord(attributes),
		"records of attributes":       wrapped(repeated(fieldLogRecords, attributes, 10), fieldScopeLogs, fieldResourceLogs),
		"a resource of attributes":    wrapped(repeated(1, nil, maxResource/2-10), fieldResource, fieldResourceLogs),
		"a large resource":            wrapped(repeated(1, nil, most/2), fieldResource, fieldResourceLogs),
		"lists in lists":              inRecord(repeated(5, nested(4000, func(b []byte) []byte { return wrapped(b, 1, 5) }, nil), 1)),
		"a list of empty values":      inRecord(repeated(5, wrapped(repeated(1, nil, maxRecord/2-20), 5), 1)),
		"many resources":              manySenders(t),
		"a large body":                encode(t, message(manager, record(at, strings.Repeat("x", most)))),
		"groups":                      bytes.Repeat([]byte{0x13}, most),
		"random":                      random(most),
		"lists in lists JSON":         asJSON(`{"body":` + strings.Repeat(`{"arrayValue":{"values":[`, 5000) + strings.Repeat(`]}}`, 5000) + `}`),
		"empty records JSON":          asJSON(strings.Repeat(`{},`, mib) + `{}`),
		"attributes JSON":             asJSON(`{"attributes":[` + strings.Repeat(`{},`, maxRecord/3-20) + `{}]}`),
		"brackets JSON":               bytes.Repeat([]byte("["), most),
		"strings JSON":                asJSON(`{"body":{"stringValue":"` + strings.Repeat(`\u0000`, most/6-100) + `"}}`),
		"numbers JSON":                asJSON(`{"timeUnixNano":` + strings.Repeat("9", mib) + `}`),
		"one object JSON":             []byte(`{"a":` + strings.Repeat(`{"a":`, mib)),
		"an array for an object JSON": asJSON(strings.Repeat(`[[]],`, mib) + `{}`),
	}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func manySenders(t testing.TB) []byte {
	d := &logs.LogsData{}
	for i := range 20_000 {
		d.ResourceLogs = append(d.ResourceLogs, message([]string{"k8s.node.name", fmt.Sprint("n", i)}, &logs.LogRecord{Body: textValue("x"), Attributes: []*common.KeyValue{{Key: "k"}}}).ResourceLogs...)
	}
	return encode(t, d)
}

// Hostile requests get an answer, and take bounded memory, also when many arrive at the same time.
func TestHostileRequests(t *testing.T) {
	b := newBench(t, Config{MaxRate: 4096})
	b.p.quiet = true
	require.Equal(t, http.StatusOK, b.post(encode(t, message(nil, record(at, "boom")))).Code, "a sender that is known before")
	type request struct {
		body    []byte
		headers []string
	}
	var all []request
	for name, body := range hostile(t) {
		headers := []string{"Content-Encoding", "gzip"}
		if strings.HasSuffix(name, "JSON") {
			headers = append(headers, "Content-Type", jsonEncoding.contentType)
		}
		all = append(all, request{compress(t, body), headers})
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	codes := make(chan int)
	for range 2 {
		for _, r := range all {
			go func() { codes <- b.post(r.body, r.headers...).Code }()
		}
	}
	for range 2 * len(all) {
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable}, <-codes)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(40*mib), "what it keeps")
	require.LessOrEqual(t, len(b.s.senders), b.s.cfg.MaxSenders)
	require.LessOrEqual(t, b.s.streams.Len(), maxStreams)
	require.Equal(t, http.StatusOK, b.post(encode(t, message(nil, record(at, "boom")))).Code, "it still works")
}

// Any request gets an answer, and whatever is accepted is accepted again in the same way.
func FuzzRequest(f *testing.F) {
	f.Add(encode(f, message(manager, record(at, "boom"))), false)
	f.Add([]byte(`{"resourceLogs":[{"resource":{"attributes":[{"key":"a","value":{"intValue":"1"}}]},"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","body":{"kvlistValue":{"values":[{"key":"a","value":{"arrayValue":{"values":[{"boolValue":true}]}}}]}}}]}]}]}`), true)
	f.Add([]byte{0x0a, 0x02, 0x12, 0x00}, false)
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		enc := protobuf
		if asJSON {
			enc = jsonEncoding
		}
		b := newBench(t, Config{})
		first := b.post(body, "Content-Type", enc.contentType)
		hits, texts := len(b.p.hits), len(b.p.texts)
		second := b.post(body, "Content-Type", enc.contentType)
		require.Equal(t, first.Code, second.Code)
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, first.Code)
		require.Len(t, b.p.texts, 2*texts)
		require.Len(t, b.p.hits, 2*hits)
		for i := range hits {
			if b.s.status.Errors[untimed] == 0 {
				require.Equal(t, b.p.hits[i].ID, b.p.hits[hits+i].ID)
			}
		}
	})
}
