package servers

import (
	"bytes"
	"context"
	_ "embed" // the configuration of Loki
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"crowsnest/test/child"
)

//go:embed loki.yaml
var lokiConfig []byte

// LokiOptions configure a Loki. The zero value is a single binary on a free port, without
// tenants or rules.
type LokiOptions struct {
	Port int // of HTTP; 0: a free one
	// Auth makes it require a tenant in each request.
	Auth bool
	// RulesDir holds the rules of the ruler, as TENANT/FILE.yml; without Auth the
	// tenant is "fake". "": no rules.
	RulesDir string
	// Alertmanager is the base address for the ruler's alerts; "": none.
	Alertmanager string
	// Args are additional flags; they override the configuration.
	Args []string
}

// LokiServer is a running Loki.
type LokiServer struct{ *Server }

// NoTenant is the tenant of a Loki without Auth, as the name of a folder of rules.
const NoTenant = "fake"

// Loki starts one.
func Loki(t testing.TB, opt LokiOptions) *LokiServer {
	t.Helper()
	bin := Program(t, "loki")
	dir, port, grpc := t.TempDir(), portOr(t, opt.Port), FreePort(t)
	config := filepath.Join(dir, "loki.yaml")
	if err := os.WriteFile(config, lokiConfig, 0o600); err != nil {
		t.Fatalf("start loki: %v", err)
	}
	rules := opt.RulesDir
	if rules == "" {
		rules = filepath.Join(dir, "rules")
		if err := os.MkdirAll(rules, 0o755); err != nil {
			t.Fatalf("start loki: %v", err)
		}
	}
	l := &LokiServer{&Server{
		Name: "loki", URL: "http://" + child.Address(port), Dir: dir, t: t, bin: bin, ready: "/ready",
		args: append([]string{"-config.file=" + config, "-config.expand-env=true"}, opt.Args...),
		env: []string{
			"LOKI_DIR=" + dir, "LOKI_HTTP_PORT=" + strconv.Itoa(port), "LOKI_GRPC_PORT=" + strconv.Itoa(grpc),
			"LOKI_AUTH=" + strconv.FormatBool(opt.Auth), "LOKI_RULES=" + rules, "LOKI_ALERTMANAGER=" + opt.Alertmanager,
		},
	}}
	l.start()
	return l
}

// Entry is a log line in Loki.
type Entry struct {
	Time     time.Time
	Line     string
	Labels   map[string]string // of its stream
	Metadata map[string]string // structured metadata
	Parsed   map[string]string // labels that the query extracted from the line
}

// Push writes entries for a tenant ("" without Auth). Entries of one stream must be
// adjacent to become one stream of the request.
func (l *LokiServer) Push(tenant string, entries ...Entry) {
	l.t.Helper()
	if err := l.TryPush(tenant, entries...); err != nil {
		l.t.Fatalf("push to loki: %v", err)
	}
}

// TryPush is Push that returns the error.
func (l *LokiServer) TryPush(tenant string, entries ...Entry) error {
	type stream struct {
		Stream map[string]string `json:"stream"`
		Values [][]any           `json:"values"`
	}
	var body struct {
		Streams []stream `json:"streams"`
	}
	last := ""
	for _, e := range entries {
		if id := LabelText(e.Labels); id != last || len(body.Streams) == 0 {
			body.Streams, last = append(body.Streams, stream{Stream: e.Labels}), id
		}
		value := []any{strconv.FormatInt(e.Time.UnixNano(), 10), e.Line}
		if len(e.Metadata) > 0 {
			value = append(value, e.Metadata)
		}
		s := &body.Streams[len(body.Streams)-1]
		s.Values = append(s.Values, value)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, l.URL+"/loki/api/v1/push", bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	setTenant(req, tenant)
	return do(req, nil)
}

func setTenant(req *http.Request, tenant string) {
	if tenant != "" {
		req.Header.Set("X-Scope-OrgID", tenant)
	}
}

// Query returns the entries of a log query from start to ten minutes from now, at most
// 5000, in order of time within each stream.
func (l *LokiServer) Query(tenant, query string, start time.Time) []Entry {
	l.t.Helper()
	values := url.Values{
		"query": {query}, "limit": {"5000"}, "direction": {"forward"},
		"start": {strconv.FormatInt(start.UnixNano(), 10)}, "end": {strconv.FormatInt(time.Now().Add(10*time.Minute).UnixNano(), 10)},
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, l.URL+"/loki/api/v1/query_range?"+values.Encode(), nil)
	if err != nil {
		l.t.Fatalf("query loki: %v", err)
	}
	setTenant(req, tenant)
	req.Header.Set("X-Loki-Response-Encoding-Flags", "categorize-labels")
	var out []Entry
	if err := do(req, func(body []byte) error { out, err = readEntries(body); return err }); err != nil {
		l.t.Fatalf("query loki: %v", err)
	}
	return out
}

func readEntries(body []byte) ([]Entry, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Stream map[string]string    `json:"stream"`
				Values [][3]json.RawMessage `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	var out []Entry
	for _, r := range answer.Data.Result {
		for _, v := range r.Values {
			var ns, line string
			var more struct {
				StructuredMetadata map[string]string `json:"structuredMetadata"`
				Parsed             map[string]string `json:"parsed"`
			}
			for i, to := range []any{&ns, &line, &more} {
				if len(v[i]) == 0 {
					continue
				}
				if err := json.Unmarshal(v[i], to); err != nil {
					return nil, fmt.Errorf("read an entry: %w", err)
				}
			}
			n, err := strconv.ParseInt(ns, 10, 64)
			if err != nil {
				return nil, err
			}
			out = append(out, Entry{Time: time.Unix(0, n).UTC(), Line: line, Labels: r.Stream, Metadata: more.StructuredMetadata, Parsed: more.Parsed})
		}
	}
	return out, nil
}
