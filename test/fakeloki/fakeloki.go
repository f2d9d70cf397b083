// Package fakeloki is a Loki for tests with injectable faults. It answers query_range
// and series like the real one, for queries with a selector and at most one line filter.
// It imitates what readers depend on: ranges are half open, a page has the oldest entries
// of all streams, equal entries are stored once, and an entry can arrive long after its
// timestamp.
//
// It is reachable over the network, as an http.Handler, or without one (Transport), which
// works inside testing/synctest.
package fakeloki

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// Entry is one log line.
type Entry struct {
	Tenant   string // "": none
	Labels   map[string]string
	Time     time.Time
	Line     string
	Metadata map[string]string // structured
	// Arrives is when Loki receives it; zero: when it is pushed.
	Arrives time.Time
}

// Request is a received request.
type Request struct {
	Method, Path, Tenant, Query string
	From, To                    time.Time
	Limit                       int
	Header                      http.Header
}

// stored is an entry with its identity. Tests query large entries again and again, so
// it keeps what a query makes of them.
type stored struct {
	Entry
	stream  string
	at      int64
	value   []byte          // as in a response, with structured metadata
	matches map[string]bool // by query
}

// Loki is the fake. It is safe for concurrent use.
type Loki struct {
	mu       sync.Mutex
	entries  map[string][]*stored // by tenant, in order of time
	known    map[string]bool
	fault    Fault
	mangle   func(body []byte) []byte
	requests []Request
	// MaxEntries and MaxQuery are its limits; set them before use. 0: 5000 and
	// 131072.
	MaxEntries, MaxQuery int
	// MaxRange is the maximum time range of a query; 0: no limit.
	MaxRange time.Duration
	// Tenants are the accepted tenants; nil: all.
	Tenants []string
}

// New returns a Loki without entries.
func New() *Loki {
	return &Loki{entries: map[string][]*stored{}, known: map[string]bool{}, MaxEntries: 5000, MaxQuery: 131072}
}

// Push stores entries. Equal entries are stored once.
func (l *Loki) Push(entries ...Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		s := &stored{Entry: e, stream: text(e.Labels), at: e.Time.UnixNano(), matches: map[string]bool{}}
		id := fmt.Sprint(e.Tenant, "\xff", s.stream, "\xff", s.at, "\xff", e.Line, "\xff", text(e.Metadata))
		if l.known[id] {
			continue
		}
		l.known[id] = true
		if len(e.Metadata) > 0 {
			s.value = encoded(s.at, e.Line, map[string]any{"structuredMetadata": e.Metadata})
		} else {
			s.value = encoded(s.at, e.Line, struct{}{})
		}
		all := l.entries[e.Tenant]
		i, _ := slices.BinarySearchFunc(all, s, func(a, b *stored) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.stream, b.stream), -1)
		})
		l.entries[e.Tenant] = slices.Insert(all, i, s)
	}
}

func text(labels map[string]string) string {
	b, _ := json.Marshal(labels) // sorted; cannot fail
	return string(b)
}

// Set sets the fault of all further requests; nil: none.
func (l *Loki) Set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

// Mangle changes the body of all further responses to query_range; nil: none.
func (l *Loki) Mangle(f func(body []byte) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mangle = f
}

// Requests returns the requests since the last call.
func (l *Loki) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.requests
	l.requests = nil
	return out
}

// ServeHTTP implements what readers use, below any prefix.
func (l *Loki) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req := read(r)
	l.mu.Lock()
	l.requests = append(l.requests, req)
	fault := l.fault
	l.mu.Unlock()
	if fault == nil || !fault(w, r) {
		l.answer(w, r)
	}
}

// read parses the parameters of a request.
func read(r *http.Request) Request {
	req := Request{
		Method: r.Method, Path: r.URL.Path, Tenant: r.Header.Get("X-Scope-OrgID"), Query: r.Form.Get("query") + r.Form.Get("match[]"),
		From: when(r.Form.Get("start")), To: when(r.Form.Get("end")), Header: r.Header.Clone(),
	}
	req.Limit, _ = strconv.Atoi(r.Form.Get("limit"))
	return req
}

// answer answers without a fault.
func (l *Loki) answer(w http.ResponseWriter, r *http.Request) {
	req := read(r)
	l.mu.Lock()
	mangle := l.mangle
	l.mu.Unlock()
	if l.Tenants != nil && !slices.Contains(l.Tenants, req.Tenant) {
		http.Error(w, "no org id", http.StatusUnauthorized)
		return
	}
	var body []byte
	var err error
	switch {
	case strings.HasSuffix(r.URL.Path, "/loki/api/v1/query_range"):
		body, err = l.queryRange(req)
	case strings.HasSuffix(r.URL.Path, "/loki/api/v1/series"):
		body, err = l.series(req)
		mangle = nil
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if mangle != nil {
		body = mangle(body)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(body)
}

func when(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Unix(0, n).UTC()
}

var comment = regexp.MustCompile(` # [0-9]+$`)

// parse parses a selector and at most one filter.
func parse(logql string) (sel rules.Selector, match func(line string) bool, err error) {
	logql = comment.ReplaceAllString(logql, "")
	end := strings.Index(logql, "} |")
	match = func(string) bool { return true }
	head := logql
	if end >= 0 {
		head = logql[:end+1]
		op, quoted, _ := strings.Cut(strings.TrimSpace(logql[end+1:]), " ")
		want, err := strconv.Unquote(quoted)
		if err != nil {
			return sel, nil, fmt.Errorf("parse error at %q", quoted)
		}
		switch op {
		case "|=":
			match = func(line string) bool { return strings.Contains(line, want) }
		case "|~":
			re, err := regexp.Compile(want)
			if err != nil {
				return sel, nil, fmt.Errorf("parse error: %w", err)
			}
			match = re.MatchString
		default:
			return sel, nil, fmt.Errorf("parse error at %q", op)
		}
	}
	if sel, err = selector.Parse(head); err != nil {
		return sel, nil, fmt.Errorf("parse error: %w", err)
	}
	for _, m := range sel.Matchers() {
		if !m.Matches("") && (m.Op == selector.Equal || m.Op == selector.Regexp) {
			return sel, match, nil
		}
	}
	return sel, nil, fmt.Errorf("parse error: queries require at least one regexp or equality matcher that does not have an empty-compatible value")
}

func (l *Loki) queryRange(req Request) ([]byte, error) {
	if len(req.Query) >= l.MaxQuery {
		return nil, fmt.Errorf("parse error : input size too long (%d > %d)", len(req.Query), l.MaxQuery)
	}
	if req.Limit > l.MaxEntries {
		return nil, fmt.Errorf("max entries limit per query exceeded, limit > max_entries_limit_per_query (%d > %d)", req.Limit, l.MaxEntries)
	}
	if d := req.To.Sub(req.From); l.MaxRange > 0 && d > l.MaxRange {
		return nil, fmt.Errorf("the query time range exceeds the limit (query length: %s, limit: %s)", d, l.MaxRange)
	}
	if !req.From.Before(req.To) {
		return nil, fmt.Errorf("end timestamp must not be before or equal to start time")
	}
	sel, match, err := parse(req.Query)
	if err != nil {
		return nil, err
	}
	categorized := req.Header.Get("X-Loki-Response-Encoding-Flags") == "categorize-labels"
	var order []string
	values := map[string][][]byte{}
	for _, e := range l.visible(req, sel, match) {
		key, value := e.stream, e.value
		if !categorized {
			key, value = text(merged(e.Labels, e.Metadata)), encoded(e.at, e.Line)
		}
		if values[key] == nil {
			order = append(order, key)
		}
		values[key] = append(values[key], value)
	}
	var body bytes.Buffer
	body.WriteString(`{"status":"success","data":{"resultType":"streams","result":[`)
	for i, key := range order {
		fmt.Fprintf(&body, `%s{"stream":%s,"values":[`, strings.Repeat(",", min(i, 1)), key)
		body.Write(bytes.Join(values[key], []byte(",")))
		body.WriteString("]}")
	}
	body.WriteString("]}}")
	return body.Bytes(), nil
}

// encoded returns an entry as in a response.
func encoded(at int64, line string, more ...any) []byte {
	b, _ := json.Marshal(append([]any{strconv.FormatInt(at, 10), line}, more...)) // cannot fail
	return b
}

func merged(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// visible returns the oldest entries of a range that have arrived.
func (l *Loki) visible(req Request, sel rules.Selector, match func(string) bool) []*stored {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.entries[req.Tenant]
	from := req.From.UnixNano()
	i, _ := slices.BinarySearchFunc(all, from, func(s *stored, t int64) int { return cmp.Or(cmp.Compare(s.at, t), 1) })
	chosen := map[string]bool{}
	filter := comment.ReplaceAllString(req.Query, "")
	var out []*stored
	for ; i < len(all) && all[i].at < req.To.UnixNano() && len(out) < req.Limit; i++ {
		e := all[i]
		if e.Arrives.After(now) {
			continue
		}
		ok, known := chosen[e.stream]
		if !known {
			ok = sel.Matches(e.Labels, false)
			chosen[e.stream] = ok
		}
		if !ok {
			continue
		}
		matches, known := e.matches[filter]
		if !known {
			matches = match(e.Line)
			e.matches[filter] = matches
		}
		if matches {
			out = append(out, e)
		}
	}
	return out
}

func (l *Loki) series(req Request) ([]byte, error) {
	sel, _, err := parse(req.Query)
	if err != nil {
		return nil, err
	}
	req.Limit = 1 << 30
	data, seen := []map[string]string{}, map[string]bool{}
	for _, e := range l.visible(req, sel, func(string) bool { return true }) {
		if !seen[e.stream] {
			seen[e.stream] = true
			data = append(data, e.Labels)
		}
	}
	return json.Marshal(map[string]any{"status": "success", "data": data})
}
