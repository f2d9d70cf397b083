package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"crowsnest/test/daemon"
	"crowsnest/test/wait"
)

const (
	otlpMemory  = 128 << 10 // KiB
	otlpSenders = 16        // that send at the same time
	otlpToken   = "Bearer secret"
	mib         = 1 << 20
)

// field returns a protobuf message that contains a field n times.
func field(number protowire.Number, value []byte, n int) []byte {
	return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value), n)
}

// export returns an OTLP request with these fields of its scope.
func export(scope []byte) []byte { return field(1, field(2, scope, 1), 1) }

// number returns a field of 8 bytes.
func number(n protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, n, protowire.Fixed64Type), v)
}

// said returns a record with a time and a text.
func said(at uint64, text string) []byte {
	return field(2, append(number(1, at), field(5, field(1, []byte(text), 1), 1)...), 1)
}

func exportJSON(record string) []byte {
	return []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + record + `]}]}]}`)
}

// otlpRequest is a hostile request to the source otlp.
type otlpRequest struct {
	body    []byte
	headers map[string]string
	method  string // default POST
	path    string // default /v1/logs
	codes   []int  // that may answer it, besides 429 and 503
}

// otlpRequests returns hostile requests by name, each in a plain and in a compressed form.
func otlpRequests() map[string]otlpRequest {
	deep := func(levels int) (value []byte) {
		for range levels {
			value = field(5, field(1, value, 1), 1)
		}
		return value
	}
	senders := bytes.Buffer{}
	for i := range 2000 {
		name := append(field(1, []byte("k8s.node.name"), 1), field(2, field(1, fmt.Append(nil, "n", i), 1), 1)...)
		senders.Write(field(1, append(field(1, field(1, name, 1), 1), field(2, said(1, "x"), 1)...), 1))
	}
	noise := make([]byte, 4*mib)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	attributes := field(6, nil, 130_000)
	valid := export(said(uint64(time.Now().UnixNano()), "a line"))
	protobufs := map[string]otlpRequest{
		"zeros":                   {body: make([]byte, 200*mib), codes: []int{400, 413}},
		"empty resources":         {body: field(1, nil, 3*mib), codes: []int{413}},
		"empty records":           {body: export(field(2, nil, mib)), codes: []int{413}},
		"many records":            {body: export(field(2, nil, 200_000)), codes: []int{200}},
		"attributes":              {body: export(field(2, attributes, 1)), codes: []int{200}},
		"records of attributes":   {body: export(field(2, attributes, 25)), codes: []int{200}},
		"attributes of resource":  {body: field(1, field(1, field(1, nil, 30_000), 1), 1), codes: []int{200}},
		"huge resource":           {body: field(1, field(1, field(1, nil, 2*mib), 1), 1), codes: []int{400}},
		"deep body":               {body: export(field(2, field(5, deep(4000), 1), 1)), codes: []int{200}},
		"wide body":               {body: export(field(2, field(5, field(5, field(1, nil, 120_000), 1), 1), 1)), codes: []int{200}},
		"huge attribute":          {body: export(field(2, field(6, field(2, field(1, bytes.Repeat([]byte("x"), 250<<10), 1), 1), 1), 25)), codes: []int{200}},
		"huge body":               {body: export(said(1, strings.Repeat("x", 7*mib))), codes: []int{200}},
		"huge bodies":             {body: export(bytes.Repeat(said(1, strings.Repeat("x ", 120<<10)), 30)), codes: []int{200}},
		"too large":               {body: export(said(1, strings.Repeat("x", 15*mib))), codes: []int{413}},
		"senders":                 {body: senders.Bytes(), codes: []int{429}},
		"groups":                  {body: bytes.Repeat([]byte{0x13}, 7*mib), codes: []int{400}},
		"noise":                   {body: noise, codes: []int{400, 413}},
		"wrong type of field":     {body: []byte{0o10, 1}, codes: []int{400}},
		"truncated":               {body: valid[:len(valid)-3], codes: []int{400}},
		"not in UTF-8":            {body: export(said(1, "\xff\xfe boom")), codes: []int{200}},
		"without a time":          {body: export(said(0, "a line")), codes: []int{200}},
		"in the far future":       {body: export(said(1<<63-1, "a line")), codes: []int{200}},
		"negative time":           {body: export(said(1<<64-1, "a line")), codes: []int{200}},
		"no token":                {body: valid, headers: map[string]string{"Authorization": ""}, codes: []int{401}},
		"another token":           {body: make([]byte, mib), headers: map[string]string{"Authorization": "Bearer secret2"}, codes: []int{401}},
		"long token":              {body: valid, headers: map[string]string{"Authorization": "Bearer " + strings.Repeat("x", 10<<10)}, codes: []int{401}},
		"basic authentication":    {body: valid, headers: map[string]string{"Authorization": "Basic c2VjcmV0OnNlY3JldA=="}, codes: []int{401}},
		"GET":                     {body: valid, method: http.MethodGet, codes: []int{405}},
		"PUT":                     {body: valid, method: http.MethodPut, codes: []int{405}},
		"traces":                  {body: valid, path: "/v1/traces", codes: []int{404}},
		"content type":            {body: valid, headers: map[string]string{"Content-Type": "text/plain"}, codes: []int{415}},
		"no content type":         {body: valid, headers: map[string]string{"Content-Type": ""}, codes: []int{415}},
		"content encoding":        {body: valid, headers: map[string]string{"Content-Encoding": "zstd"}, codes: []int{415}},
		"protobuf as JSON":        {body: valid, headers: map[string]string{"Content-Type": "application/json"}, codes: []int{400}},
		"not compressed":          {body: valid, headers: map[string]string{"Content-Encoding": "gzip"}, codes: []int{400}},
		"cut compressed":          {body: compressed(valid)[:20], headers: map[string]string{"Content-Encoding": "gzip"}, codes: []int{400}},
		"compressed twice":        {body: compressed(compressed(make([]byte, 100*mib))), headers: map[string]string{"Content-Encoding": "gzip"}, codes: []int{400}},
		"a normal request, empty": {codes: []int{200}},
		"a normal request":        {body: valid, codes: []int{200}},
	}
	jsons := map[string]otlpRequest{
		"deep JSON":           {body: exportJSON(`{"body":` + strings.Repeat(`{"arrayValue":{"values":[`, 5000) + strings.Repeat(`]}}`, 5000) + `}`), codes: []int{200, 400}},
		"empty JSON records":  {body: exportJSON(strings.Repeat("{},", mib) + "{}"), codes: []int{413}},
		"JSON attributes":     {body: exportJSON(`{"attributes":[` + strings.Repeat("{},", 80_000) + `{}]}`), codes: []int{200}},
		"JSON escapes":        {body: exportJSON(`{"body":{"stringValue":"` + strings.Repeat(`\u0000`, mib) + `"}}`), codes: []int{200}},
		"brackets":            {body: bytes.Repeat([]byte("["), 7*mib), codes: []int{400}},
		"objects":             {body: []byte(strings.Repeat(`{"a":`, mib)), codes: []int{400}},
		"wrong types":         {body: exportJSON(`{"timeUnixNano":"x","body":5}`), codes: []int{200}},
		"wrong type of list":  {body: []byte(`{"resourceLogs":{}}`), codes: []int{400}},
		"a number":            {body: []byte("5"), codes: []int{400}},
		"a long number":       {body: exportJSON(`{"timeUnixNano":` + strings.Repeat("9", mib) + `}`), codes: []int{200}},
		"negative JSON time":  {body: exportJSON(`{"timeUnixNano":"-1","body":{"stringValue":"a line"}}`), codes: []int{200}},
		"JSON not in UTF-8":   {body: exportJSON("{\"body\":{\"stringValue\":\"\xff\"}}"), codes: []int{200, 400}},
		"cut JSON":            {body: exportJSON("{}")[:30], codes: []int{400}},
		"normal JSON request": {body: exportJSON(`{"body":{"stringValue":"a line"}}`), codes: []int{200}},
	}
	out := map[string]otlpRequest{}
	add := func(kind string, all map[string]otlpRequest) {
		for name, r := range all {
			r.headers = maps.Clone(r.headers)
			if r.headers == nil {
				r.headers = map[string]string{}
			}
			if _, own := r.headers["Content-Type"]; !own {
				r.headers["Content-Type"] = kind
			}
			if _, own := r.headers["Authorization"]; !own {
				r.headers["Authorization"] = otlpToken
			}
			if _, own := r.headers["Content-Encoding"]; !own {
				z := r
				z.body, z.headers = compressed(r.body), maps.Clone(r.headers)
				z.headers["Content-Encoding"] = "gzip"
				out[name+", compressed"] = z
			}
			if len(r.body) > 16*mib {
				r.body, r.codes = r.body[:16*mib], []int{413}
			}
			out[name] = r
		}
	}
	add("application/x-protobuf", protobufs)
	add("application/json", jsons)
	return out
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close() // writing to memory never fails
	return out.Bytes()
}

// otlpConnections returns hostile connections to the source otlp.
func otlpConnections() map[string]attack {
	head := "POST /v1/logs HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\nAuthorization: " + otlpToken + "\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("c", 64<<10))
	return map[string]attack{
		"slow head":      slowly(raw("%sX-Slow: %s\r\n\r\n", head, strings.Repeat("s", 1000)), 10),
		"slow body":      slowly(raw("%sContent-Length: 8000000\r\n\r\n%s", head, strings.Repeat("s", 1000)), 300),
		"no body":        raw("%sContent-Length: 8000000\r\n\r\n", head),
		"half a body":    {parts: []string{head + "Content-Length: 8000000\r\n\r\n" + strings.Repeat("x", 4000)}, reset: true},
		"endless chunks": raw("%sTransfer-Encoding: chunked\r\n\r\n%s", head, strings.Repeat(chunk, 400)),
		"endless chunk":  raw("%sTransfer-Encoding: chunked\r\n\r\nffffffffffffff\r\nx", head),
		"damaged chunk":  raw("%sTransfer-Encoding: chunked\r\n\r\nxyz\r\n", head),
		"two lengths":    raw("%sContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", head),
		"huge header":    raw("%sX-Large: %s\r\n\r\n", head, strings.Repeat("h", mib)),
		"unread":         unread(raw("%s", strings.Repeat(head+"Content-Length: 0\r\n\r\n", 200))),
		"garbage":        raw("%s", strings.Repeat("\x00\xff\x7f\r", 10000)),
	}
}

// statusMessage returns the message of a google.rpc.Status.
func statusMessage(t *testing.T, contentType string, body []byte) string {
	if contentType == "application/json" {
		var status struct{ Message string }
		require.NoError(t, json.Unmarshal(body, &status))
		return status.Message
	}
	for len(body) > 0 {
		n, kind, size := protowire.ConsumeTag(body)
		require.Positive(t, size)
		body = body[size:]
		if n == 2 && kind == protowire.BytesType {
			text, size := protowire.ConsumeString(body)
			require.Positive(t, size)
			return text
		}
		size = protowire.ConsumeFieldValue(n, kind, body)
		require.Positive(t, size)
		body = body[size:]
	}
	return ""
}

// otlpVictim is a daemon with the shipped rules that receives from collectors.
type otlpVictim struct {
	*victim
	address string
	client  *http.Client
	mu      sync.Mutex
	answers map[int]int // number of answers by status
}

func newOTLPVictim(t *testing.T) *otlpVictim {
	v := &otlpVictim{victim: newVictim(t, true, nil), answers: map[int]int{}}
	var err error
	v.address, err = daemon.FreeAddr()
	require.NoError(t, err)
	v.client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: otlpSenders, MaxIdleConnsPerHost: otlpSenders}}
	t.Cleanup(v.client.CloseIdleConnections)
	require.NoError(t, os.WriteFile(filepath.Join(v.Dir, "token"), []byte("secret"), 0o600))
	require.NoError(t, v.Configure(fmt.Sprintf("sources: {otlp: {listen_address: %q, bearer_token_file: token, max_rate_mib: 4096}}\nsinks: {stdout: {}}\n", v.address)))
	v.start()
	return v
}

// send sends a request and checks the answer. It returns a problem with it.
func (v *otlpVictim) send(ctx context.Context, name string, q otlpRequest) string {
	method, path := "POST", "/v1/logs"
	if q.method != "" {
		method = q.method
	}
	if q.path != "" {
		path = q.path
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+v.address+path, bytes.NewReader(q.body))
	require.NoError(v.t, err)
	for name, value := range q.headers {
		r.Header.Set(name, value)
	}
	res, err := v.client.Do(r)
	if err != nil { // the answer came before the whole body was sent, and the connection was closed
		v.count(0)
		if slices.Contains(q.codes, 200) {
			return fmt.Sprintf("%s: %v", name, err)
		}
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	v.count(res.StatusCode)
	retried := res.StatusCode == 429 || res.StatusCode == 503
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", name, err)
	case !retried && !slices.Contains(q.codes, res.StatusCode):
		return fmt.Sprintf("%s: %d %q", name, res.StatusCode, body)
	case res.StatusCode != 200 && statusMessage(v.t, res.Header.Get("Content-Type"), body) == "":
		return fmt.Sprintf("%s: %d without a reason", name, res.StatusCode)
	case retried && res.Header.Get("Retry-After") == "":
		return fmt.Sprintf("%s: %d without Retry-After", name, res.StatusCode)
	}
	return ""
}

func (v *otlpVictim) count(status int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[status]++
}

// Hostile requests to the source otlp get answers that a collector understands, and take bounded memory. CROWSNEST_CHAOS=1
// sends 10,000.
func TestHostileOTLP(t *testing.T) {
	v := newOTLPVictim(t)
	requests, connections, hold := 204, 22, time.Second
	if long {
		requests, connections, hold = 10_000, 440, 25*time.Second
	}
	before := v.Process().Memory("VmHWM")
	all, slow := otlpRequests(), otlpConnections()
	names, slowNames := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(slow))
	began := time.Now()
	next := make(chan int)
	var problems []string
	var sending sync.WaitGroup
	for range otlpSenders {
		sending.Go(func() {
			for i := range next {
				if p := v.send(t.Context(), names[i%len(names)], all[names[i%len(names)]]); p != "" {
					v.mu.Lock()
					problems = append(problems, p)
					v.mu.Unlock()
				}
			}
		})
	}
	for i := range requests {
		next <- i
		if i%(requests/connections) == 0 {
			a := slow[slowNames[i/(requests/connections)%len(slowNames)]]
			sending.Go(func() { a.run(t.Context(), v.address, hold) })
		}
	}
	close(next)
	sending.Wait()
	peak := v.Process().Memory("VmHWM")
	t.Logf("%d requests of %d kinds and %d connections of %d kinds in %v; answers %v; VmHWM %.1f MiB, %.1f before", requests, len(names), connections,
		len(slow), time.Since(began).Round(time.Second), v.answers, float64(peak)/1024, float64(before)/1024)
	slices.Sort(problems)
	require.Empty(t, slices.Compact(problems))
	require.LessOrEqual(t, peak, int64(otlpMemory))
	normal := all["a normal request"]
	require.True(t, wait.Until(patience, func() bool {
		before := v.answers[200]
		require.Empty(t, v.send(t.Context(), "a normal request", normal))
		return v.answers[200] > before
	}), "it still works")
}
