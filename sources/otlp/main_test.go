package otlp

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resources "go.opentelemetry.io/proto/otlp/resource/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/test/linesink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a pipeline that matches what it receives.
type sink struct {
	sources.Pipeline
	set  *rules.Set
	prog *matcher.Program

	mu         sync.Mutex
	texts      []string
	hits       []matcher.Hit
	watermarks map[string]time.Time
	members    map[string]bool
	quiet      bool // keeps nothing
}

func (p *sink) Rules() *rules.Set { return p.set }

func (p *sink) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	hits := p.prog.Match(s, rec)
	commit()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.texts = append(p.texts, string(rec.Text))
		p.hits = append(p.hits, hits...)
	}
}

func (p *sink) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	find(p.set)
	commit()
}

func (p *sink) AdvanceWatermark(source string, t time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermarks[source] = t
}

func (p *sink) AddMember(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[name] = true
}

func (p *sink) RemoveMember(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.members, name)
}

var pack = linesink.Pack

const failing = `- {alert: Failing, from: '{container="manager"}', match: {contains: boom, field: {controller: machine}}, by: [name], severity: warning}`

// bench is a source with a pipeline. Its state counts as saved once a request is accepted, unless unsaved is set.
type bench struct {
	t testing.TB
	s *Source
	p *sink
	h *handler

	unsaved bool
}

func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	set := pack(t, failing)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	b := &bench{t: t, s: New(cfg), p: &sink{set: set, prog: prog, watermarks: map[string]time.Time{}, members: map[string]bool{}}}
	b.h = &handler{s: b.s, p: (*saving)(b)}
	b.s.beganAt = b.s.cfg.Clock()
	return b
}

// saving is the pipeline of a bench.
type saving bench

func (p *saving) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.p.Ingest(find, commit)
	if !p.unsaved {
		p.s.Positions()
		p.s.ConfirmSaved()
	}
}

func (p *saving) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.p.Match(s, rec, commit)
}

func (p *saving) AdvanceWatermark(source string, t time.Time, l ...matcher.LaggingStream) {
	p.p.AdvanceWatermark(source, t, l...)
}
func (p *saving) AddMember(name string)                { p.p.AddMember(name) }
func (p *saving) RemoveMember(name string)             { p.p.RemoveMember(name) }
func (p *saving) Rules() *rules.Set                    { return p.p.Rules() }
func (p *saving) Flush(*matcher.Stream)                { panic("unused") }
func (p *saving) Scan(*matcher.Stream, []byte, func()) { panic("unused") }
func (p *saving) PodDeleted(matcher.Labels, time.Time) { panic("unused") }

// post sends a body with pairs of header names and values. Default is protobuf.
func (b *bench) post(body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", protobuf.contentType)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	return w
}

func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

// pairs returns attributes from names and values.
func pairs(of ...string) (out []*common.KeyValue) {
	for i := 0; i+1 < len(of); i += 2 {
		out = append(out, &common.KeyValue{Key: of[i], Value: textValue(of[i+1])})
	}
	return out
}

var manager = []string{
	"k8s.cluster.name", "prod", "k8s.namespace.name", "capi-system", "k8s.pod.name", "capi-0", "k8s.container.name", "manager", "k8s.node.name", "n1", "service.name", "capi",
}

// record returns a record of a manager that fails.
func record(at time.Time, body string) *logs.LogRecord {
	return &logs.LogRecord{TimeUnixNano: uint64(at.UnixNano()), Body: textValue(body), Attributes: pairs("controller", "machine", "name", "m1")}
}

// message returns a request with the records of one resource.
func message(resource []string, records ...*logs.LogRecord) *logs.LogsData {
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resources.Resource{Attributes: pairs(resource...)}, ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}},
	}}}
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return b
}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// describe returns what an alert gets to know of a hit.
func describe(h matcher.Hit) string {
	return fmt.Sprintf("%s %s %v %s", h.Line, h.Time.UTC().Format(time.RFC3339Nano), h.Values, h.Labels)
}
