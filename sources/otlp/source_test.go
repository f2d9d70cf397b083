package otlp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"crowsnest/rules"
	"crowsnest/sources"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

const wantHit = `boom 2026-01-02T03:04:05.000000006Z [m1] map[cluster:prod container:manager namespace:capi-system node_name:n1 pod:capi-0 service_name:capi]`

func (b *bench) described() (out []string) {
	for _, h := range b.p.hits {
		out = append(out, describe(h))
	}
	return out
}

// A record becomes a line with the labels of its resource, and the attributes of the record are fields.
func TestHits(t *testing.T) {
	f := func(body []byte, headers ...string) {
		t.Helper()
		b := newBench(t, Config{})
		w := b.post(body, headers...)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, []string{wantHit}, b.described())
		require.Equal(t, map[string]bool{"otlp/prod/n1": true}, b.p.members)
	}
	asJSON := `{"resourceLogs": [{"scopeLogs": [{"scope": {"name": "x"}, "logRecords": [{
		"timeUnixNano": "1767323045000000006", "severityNumber": 17, "severityText": "ERROR", "body": {"stringValue": "boom"}, "new": {"a": []},
		"traceId": "5B8EFFF798038103D269B633813FC60", "spanId": "EEE19B7EC3C1B17",
		"attributes": [{"key": "controller", "value": {"stringValue": "machine"}}, {"key": "name", "value": {"stringValue": "m1"}}]}]}],
		"resource": {"attributes": [{"key": "k8s.cluster.name", "value": {"stringValue": "prod"}}, {"key": "k8s.namespace.name", "value": {"stringValue": "capi-system"}},
			{"key": "k8s.pod.name", "value": {"stringValue": "capi-0"}}, {"key": "k8s.container.name", "value": {"stringValue": "manager"}},
			{"key": "k8s.node.name", "value": {"stringValue": "n1"}}, {"key": "service.name", "value": {"stringValue": "capi"}}]}}]}`
	whole := encode(t, message(manager, record(at, "boom")))
	f(whole)
	f(compress(t, whole), "Content-Encoding", "gzip")
	f([]byte(asJSON), "Content-Type", "application/json; charset=utf-8")
	f(compress(t, []byte(asJSON)), "Content-Type", "application/json", "Content-Encoding", "gzip")
	f([]byte(strings.NewReplacer("resourceLogs", "resource_logs", "timeUnixNano", "time_unix_nano", "stringValue", "string_value").Replace(asJSON)), "Content-Type", "application/json")
	// Without a time of its own, a record has the time at which the collector read it.
	r := record(at, "boom")
	r.TimeUnixNano, r.ObservedTimeUnixNano = 0, r.TimeUnixNano
	f(encode(t, message(manager, r)))
}

func TestText(t *testing.T) {
	list := func(items ...*common.KeyValue) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: items}}}
	}
	number := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 3}}
	f := func(body *common.AnyValue, want string) {
		t.Helper()
		l := &lines{}
		l.record.Body = body
		l.record.Attributes = []*common.KeyValue{{Key: "n", Value: number}, {Key: "empty"}}
		rec, own := l.convert(at)
		require.Equal(t, want, string(rec.Text))
		require.False(t, own)
		require.Equal(t, at, rec.Time)
		require.Equal(t, "n", string(rec.Fields[0].Name))
		require.Equal(t, "3", string(rec.Fields[0].Value))
	}
	f(nil, "")
	f(textValue("a\nb\n"), "a\nb")
	f(number, "3")
	f(&common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte("raw")}}, "raw")
	f(&common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}, "true")
	f(&common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 1.5}}, "1.5")
	f(list(&common.KeyValue{Key: "msg", Value: textValue(`say "hi"`)}, &common.KeyValue{Key: "n", Value: number}, &common.KeyValue{Key: "none"},
		&common.KeyValue{Key: "in", Value: list(&common.KeyValue{Key: "b", Value: &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte("raw")}}})},
		&common.KeyValue{Key: "all", Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{number, textValue("x")}}}}}),
		`{"msg":"say \"hi\"","n":3,"none":null,"in":{"b":"cmF3"},"all":[3,"x"]}`)
}

// A structured body is a line in JSON, so its members are fields.
func TestStructuredBody(t *testing.T) {
	b := newBench(t, Config{})
	r := &logs.LogRecord{TimeUnixNano: uint64(at.UnixNano()), Body: &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: pairs("msg", "boom", "controller", "machine", "name", "m2")}}}}
	require.Equal(t, http.StatusOK, b.post(encode(t, message(manager, r))).Code)
	require.Len(t, b.p.hits, 1)
	require.Equal(t, []string{"m2"}, b.p.hits[0].Values)
}

func TestOrigin(t *testing.T) {
	f := func(want string, of ...string) {
		t.Helper()
		o := newOrigin(pairs(of...), map[string]string{"container.image.name": "image"})
		require.Equal(t, want, fmt.Sprint(o.sender, " ", o.labels))
	}
	f("unnamed map[]")
	f("unnamed map[namespace:a service_name:s]", "k8s.namespace.name", "a", "service.name", "s", "other", "x")
	f("h map[]", "host.name", "h")
	f("c/n map[cluster:c image:i node_name:n]", "k8s.cluster.name", "c", "k8s.node.name", "n", "host.name", "h", "container.image.name", "i")
	f("_a_ map[node_name:<a>]", "k8s.node.name", "<a>")
	long := strings.Repeat("n", 2*maxLabel)
	f(long[:maxLabel]+" map[node_name:"+long[:maxLabel]+"]", "k8s.node.name", long)
}

// The answer to a refused request is a google.rpc.Status in the encoding of the request, and names the fix.
func TestRefusals(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	good := encode(t, message(manager, record(at, "boom")))
	leads := true
	b := newBench(t, Config{BearerTokenFile: token, MaxBody: 1, MaxSenders: 1, Leads: func() (bool, string) { return leads, "the leader runs on x" }})
	f := func(body []byte, code int, want string, headers ...string) {
		t.Helper()
		w := b.post(body, append([]string{"Authorization", "Bearer secret"}, headers...)...)
		require.Equal(t, code, w.Code, w.Body)
		message, status := "", 0
		if w.Header().Get("Content-Type") == "application/json" {
			var got struct {
				Code    int
				Message string
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			message, status = got.Message, got.Code
		} else {
			_, _, n := protowire.ConsumeTag(w.Body.Bytes())
			code, m := protowire.ConsumeVarint(w.Body.Bytes()[n:])
			_, _, k := protowire.ConsumeTag(w.Body.Bytes()[n+m:])
			text, _ := protowire.ConsumeString(w.Body.Bytes()[n+m+k:])
			message, status = text, int(code)
		}
		require.Contains(t, message, want)
		require.Positive(t, status)
		require.Equal(t, code == 429 || code == 503, w.Header().Get("Retry-After") != "")
	}
	f(good, 401, "set the extension bearertokenauth", "Authorization", "")
	f(good, 401, "present the token", "Authorization", "Bearer secretx")
	f(good, 415, `the content type "text/plain" is unknown`, "Content-Type", "text/plain")
	f(good, 415, "set compression of the collector's exporter to gzip or none", "Content-Encoding", "zstd")
	f(good, 400, "decompress request", "Content-Encoding", "gzip")
	f([]byte("x"), 400, "the protobuf message is damaged")
	f([]byte{0o10, 1}, 400, "not an OTLP request")
	f([]byte("x"), 400, "the JSON text is damaged", "Content-Type", "application/json")
	f([]byte("{} {}"), 400, "followed by more data", "Content-Type", "application/json")
	f([]byte(`{"resourceLogs":{}}`), 400, "resourceLogs is not a list", "Content-Type", "application/json")
	f([]byte(`{"resourceLogs":[`), 400, "the JSON text is damaged", "Content-Type", "application/json")
	f(make([]byte, mib+1), 413, "raise sources.otlp.max_body_mib")
	f(compress(t, make([]byte, mib+1)), 413, "lower send_batch_max_size", "Content-Encoding", "gzip")
	f(encode(t, message([]string{"k8s.pod.name", strings.Repeat("x", maxResource)})), 400, "a resource has")
	leads = false
	f(good, 503, "this process is not the leader; the leader runs on x")
	leads = true
	require.Equal(t, http.StatusOK, b.post(good, "Authorization", "Bearer secret").Code)
	f(encode(t, message([]string{"k8s.node.name", "n2"}, record(at, "boom"))), 429, "raise sources.otlp.max_senders")
	require.NoError(t, os.Remove(token))
	f(good, 503, "read bearer_token_file")
	st := b.s.Status()
	require.Contains(t, st.Error, "requests are refused: read bearer_token_file")
	require.Equal(t, int64(3), st.Errors[refusedAuth])
	require.Equal(t, int64(2), st.Errors[refusedSize])
	require.Equal(t, int64(10), st.Losses[lossRefused].Count)

	for _, r := range [][2]string{{http.MethodPost, "/v1/traces"}, {http.MethodGet, Path}} {
		req, err := http.NewRequest(r[0], r[1], nil)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		b.h.ServeHTTP(w, req)
		require.Contains(t, []int{404, 405}, w.Code)
	}
}

// A record that cannot be read is refused alone.
func TestRefusedRecords(t *testing.T) {
	deep := textValue("x")
	for range maxNesting {
		deep = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{deep}}}}
	}
	body := encode(t, message(manager, record(at, strings.Repeat("x", maxRecord)), record(at, "boom"), &logs.LogRecord{Body: deep}))
	b := newBench(t, Config{})
	w := b.post(body)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "2 records refused, such as one of prod/n1: a record cannot be decoded")
	require.Equal(t, []string{wantHit}, b.described())
	require.Equal(t, int64(2), b.s.Status().Losses[lossRefused].Count)
	w = b.post([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"a"},1,{"body":{"stringValue":"good"}}]}]}]}`), "Content-Type", "application/json")
	require.JSONEq(t, `{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"2 records refused, such as one of unnamed: a record cannot be decoded, because it is damaged, nested too deeply or not in UTF-8; check the encoding of the collector's receiver"}}`, w.Body.String())
	require.Equal(t, "good", b.p.texts[len(b.p.texts)-1])
}

// A request that does not arrive completely is sent again, so it is no loss.
func TestPartialRequest(t *testing.T) {
	b := newBench(t, Config{})
	for _, failure := range []error{io.ErrUnexpectedEOF, os.ErrDeadlineExceeded} {
		r := httptest.NewRequest(http.MethodPost, Path, io.MultiReader(strings.NewReader("\n"), iotest.ErrReader(failure)))
		r.Header.Set("Content-Type", protobuf.contentType)
		w := httptest.NewRecorder()
		b.h.ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), failure.Error()+"; send again")
	}
	require.Equal(t, int64(2), b.s.Status().Errors[refusedPartial])
	require.Empty(t, b.s.Status().Losses)
	require.Equal(t, http.StatusOK, b.post(encode(t, message(manager, record(at, "boom")))).Code, "its memory is free again")
}

// A request is answered when its records are saved, and otherwise must be sent again.
func TestAnswersWhenSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		b.unsaved = true
		body := encode(t, message(manager, record(at, "boom")))
		answers := make(chan int, 2)
		go func() { answers <- b.post(body).Code }()
		synctest.Wait()
		b.s.ConfirmSaved() // of a state from before the request
		synctest.Wait()
		require.Empty(t, answers)
		b.s.Positions()
		go func() { answers <- b.post(body).Code }() // not part of these positions
		synctest.Wait()
		b.s.ConfirmSaved()
		require.Equal(t, http.StatusOK, <-answers)
		w := b.post(body)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "the records are not saved yet")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusServiceUnavailable, <-answers)
		// All of these are the same line.
		require.Len(t, b.p.hits, 3)
		require.Equal(t, b.p.hits[0].ID, b.p.hits[1].ID)
		require.Equal(t, b.p.hits[0].ID, b.p.hits[2].ID)

		stopping := make(chan struct{})
		b.h.stopping = stopping
		close(stopping)
		require.Contains(t, b.post(body).Body.String(), "this process stops")
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{MaxRate: 1, MaxBody: 1})
		body := encode(t, message(manager, record(at, strings.Repeat("x", 400<<10))))
		codes := ""
		for range 5 {
			codes += fmt.Sprint(b.post(body).Code, " ")
		}
		require.Equal(t, "200 200 200 429 429 ", codes)
		require.Equal(t, "1", b.post(body).Header().Get("Retry-After"))
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, b.post(body).Code)
	})
}

// proven returns the watermark of the sender n1 by its age, or "none".
func (b *bench) proven() string {
	b.h.advance()
	t, ok := b.p.watermarks["otlp/prod/n1"]
	if !ok {
		return "none"
	}
	return time.Since(t).Round(time.Second).String()
}

// A sender is read up to the newest record that arrived at least the lateness ago.
func TestWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Lateness: 10 * time.Second, ForgetAfter: 5 * time.Minute})
		send := func(age time.Duration) int {
			return b.post(encode(t, message(manager, record(time.Now().Add(-age), "line")))).Code
		}
		pass := func(n int, age time.Duration) {
			for range n {
				send(age)
				b.h.advance()
				time.Sleep(time.Second)
			}
		}
		require.Equal(t, []string{"otlp/?"}, b.s.Members())
		pass(5, 0)
		require.Equal(t, "none", b.proven())
		require.Equal(t, []string{"otlp/?", "otlp/prod/n1"}, b.s.Members())
		pass(20, 0)
		require.Equal(t, "10s", b.proven(), "as old as the lateness")
		require.Equal(t, []string{"otlp/prod/n1"}, b.s.Members())

		time.Sleep(15 * time.Second)
		require.Equal(t, "16s", b.proven(), "silent: up to its newest record, and no further")
		require.Contains(t, b.s.Status().Members["otlp/prod/n1"].Error, "it has sent nothing for 16s")
		require.Equal(t, "16s", time.Since(b.s.Status().Members["otlp/prod/n1"].Watermark).Round(time.Second).String())

		// A queue of an hour arrives at once. What was sent first may arrive last.
		for age := 3600 * time.Second; age > 0; age -= time.Second {
			send(age)
		}
		require.Equal(t, "16s", b.proven())
		time.Sleep(9 * time.Second)
		require.Equal(t, "25s", b.proven())
		time.Sleep(time.Second)
		require.Equal(t, "11s", b.proven())

		// A refused request may hold an older record.
		pass(20, 0)
		require.Equal(t, "10s", b.proven())
		b.s.noteRefusal(&refusal{status: http.StatusTooManyRequests, reason: refusedRate}, "")
		pass(9, 0)
		require.Equal(t, "19s", b.proven())
		pass(15, 0)
		require.Equal(t, "10s", b.proven())

		// A record of the future proves no more than one of now.
		pass(20, -time.Hour)
		require.Equal(t, "10s", b.proven())

		time.Sleep(5 * time.Minute)
		b.h.forget()
		require.Empty(t, b.s.Members())
		require.NotContains(t, b.p.members, "otlp/prod/n1")
		require.Contains(t, b.s.Status().Error, "no collector has sent a record yet")
	})
}

// After a restart decisions wait for the senders that were known, and what arrived before proves nothing.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Lateness: 10 * time.Second, ForgetAfter: time.Minute}
		b := newBench(t, cfg)
		b.post(encode(t, message(manager, record(time.Now(), "line"))))
		saved := b.s.Positions()
		b = newBench(t, cfg)
		require.NoError(t, b.s.Restore(saved))
		require.Equal(t, []string{"otlp/prod/n1"}, b.s.Members())
		time.Sleep(20 * time.Second)
		require.Equal(t, "none", b.proven())
		require.Contains(t, b.s.Status().Members["otlp/prod/n1"].Error, "nothing since this process began")
		require.Empty(t, b.s.expired(time.Now()))
		time.Sleep(40 * time.Second)
		require.Len(t, b.s.expired(time.Now()), 1)

		require.NoError(t, b.s.Restore(nil))
		for _, bad := range []string{"x", "{}", `{"v":2}`} {
			require.ErrorContains(t, b.s.Restore(json.RawMessage(bad)), "restore senders")
		}
	})
}

func TestServes(t *testing.T) {
	s := New(Config{Labels: map[string]string{"container.image.name": "image"}})
	f := func(selector string, want bool) {
		t.Helper()
		set := pack(t, `- {alert: R, from: '`+selector+`', match: x, severity: warning}`)
		for from := range set.Rules[0].Selectors() {
			require.Equal(t, want, s.Serves(from))
			require.Equal(t, want, s.MemberServes("otlp/a")(from))
		}
	}
	f(`{container="manager", namespace=~".+", image="x"}`, true)
	f(`{component="leases"}`, false)
	require.Nil(t, s.MismatchedRules(&rules.Set{}))
}

// The own log is never read.
func TestOwnLog(t *testing.T) {
	b := newBench(t, Config{OwnPod: sources.OwnPod{SelfNamespace: "capi-system", SelfPod: "capi-0"}})
	require.Equal(t, http.StatusOK, b.post(encode(t, message(manager, record(at, "boom")))).Code)
	require.Empty(t, b.p.texts)
}

func TestValidate(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		if err := c.Validate(); want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err)
		}
	}
	f(Config{}, "")
	f(Config{Labels: map[string]string{"container.image.name": "image"}}, "")
	f(Config{ListenAddress: "4318"}, `listen_address: "4318" is not an address; write it like :4318 or 10.0.0.1:4318`)
	f(Config{ForgetAfter: 5 * time.Second}, "forget_after: 5s is less than lateness; use at least 1m0s")
	f(Config{Labels: map[string]string{"k8s.pod.name": "x"}}, "labels: the attribute k8s.pod.name always becomes the label pod; remove it here")
	f(Config{Labels: map[string]string{"a": "x", "b": "x"}}, "labels: a and b both become the label x; use two names")
	f(Config{Labels: map[string]string{"a": "pod"}}, "is already set by a resource attribute")
	f(Config{Labels: map[string]string{"a": "x.y"}}, "is not a label name")
}

// A request that gets no turn is sent again, before the connection times out.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		for range maxWorkers {
			<-b.s.workers
		}
		w := b.post(encode(t, message(manager, record(at, "boom"))))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "too many requests at a time")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	})
}
