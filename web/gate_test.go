package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// Equal requests share one response; few different ones are rendered at a time.
func TestGateSharesAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, running, most atomic.Int64
		h := newGate(zerolog.Nop()).guardHandler(func(w http.ResponseWriter, r *http.Request) {
			made.Add(1)
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-time.After(time.Second)
			running.Add(-1)
			fmt.Fprint(w, "answer to "+r.URL.RawQuery)
		})
		ask := func(query string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h(w, httptest.NewRequest("GET", "/?"+query, nil))
			return w
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { require.Equal(t, "answer to same", ask("same").Body.String()) })
		}
		wg.Wait()
		require.EqualValues(t, 1, made.Load())

		var ok, refused atomic.Int64
		for i := range 100 {
			wg.Go(func() {
				switch w := ask(fmt.Sprint(i)); w.Code {
				case http.StatusOK:
					ok.Add(1)
				case http.StatusServiceUnavailable:
					require.Equal(t, "1", w.Header().Get("Retry-After"))
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, most.Load())
		require.EqualValues(t, 100, ok.Load()+refused.Load())
		require.EqualValues(t, patience/(time.Second+maxRest), ok.Load(), "every request that fits into the patience is served")
		<-time.After(time.Minute) // lets abandoned responses finish
	})
}

// While requests queue, the slot rests after each for as long as it took.
func TestGateRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 100 * time.Millisecond
		h := newGate(zerolog.Nop()).guardHandler(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(takes)
			w.WriteHeader(http.StatusOK)
		})
		all := func(n int) time.Duration {
			began := time.Now()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { h(httptest.NewRecorder(), httptest.NewRequest("GET", fmt.Sprintf("/?%d", i), nil)) })
			}
			wg.Wait()
			return time.Since(began)
		}
		require.Equal(t, takes, all(1))
		require.Equal(t, 7*takes, all(4))
		require.Equal(t, takes, all(1), "one request does not wait")
	})
}

// A plain request queues only behind other plain requests.
func TestGateServesPlainRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGate(zerolog.Nop()).guardHandler(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Second)
			w.WriteHeader(http.StatusOK)
		})
		var wg sync.WaitGroup
		for i := range 2 * maxQueued {
			wg.Go(func() { h(httptest.NewRecorder(), httptest.NewRequest("GET", fmt.Sprintf("/?%d", i), nil)) })
		}
		synctest.Wait()
		began := time.Now()
		for _, path := range []string{"/%72ules", "/rules", "/ru%6ces"} { // share one response
			wg.Go(func() {
				w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
				r.Pattern = "GET /rules"
				h(w, r)
				require.Equal(t, http.StatusOK, w.Code)
				require.Equal(t, time.Second, time.Since(began))
			})
		}
		wg.Wait()
		<-time.After(time.Minute)
	})
}

// Accept headers are normalized to the formats that the server can write.
func TestMetricsFormats(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	f := func(accept, encoding, wantType, wantEncoding string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = "localhost"
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), wantType)
		require.Equal(t, wantEncoding, w.Header().Get("Content-Encoding"))
	}
	f("", "", "text/plain; version=0.0.4", "")
	f("text/html, */*;q=0.1", "br", "text/plain; version=0.0.4", "")
	f("text/plain;version=1.0.0;escaping=allow-utf-8", "zstd, gzip", "text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8", "gzip")
	f("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2", "gzip;q=0", "application/openmetrics-text; version=1.0.0", "")
	f("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "gzip", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", "gzip")
}

// slow is a connection whose client reads nothing; writes block until the deadline.
type slow struct {
	http.ResponseWriter
	mu       sync.Mutex
	deadline time.Time
	changed  chan struct{}
}

func newSlow() *slow {
	return &slow{ResponseWriter: httptest.NewRecorder(), changed: make(chan struct{})}
}

func (s *slow) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *slow) Write([]byte) (int, error) {
	for {
		s.mu.Lock()
		wait, changed := time.Until(s.deadline), s.changed
		s.mu.Unlock()
		if wait <= 0 {
			return 0, io.ErrClosedPipe
		}
		select {
		case <-time.After(wait):
		case <-changed:
		}
	}
}

// The gate disconnects slow readers when others need room.
func TestGateCutsOffSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(zerolog.Nop())
		h := g.guardHandler(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", maxUnread/4))
		})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { h(newSlow(), httptest.NewRequest("GET", fmt.Sprintf("/?slow=%d", i), nil)) })
		}
		synctest.Wait()
		began := time.Now()
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest("GET", "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Less(t, time.Since(began), patience)
		wg.Wait()
		require.Zero(t, g.unread)
		require.Empty(t, g.readers)
		require.Empty(t, g.flights)
	})
}

// A panic in a handler fails only its own request.
func TestGatePanic(t *testing.T) {
	h := newGate(zerolog.Nop()).guardHandler(func(http.ResponseWriter, *http.Request) { panic("x") })
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
}

func TestFilterBounds(t *testing.T) {
	good := func(text string, n int) {
		t.Helper()
		ms, err := parseFilters([]string{text})
		require.NoError(t, err)
		require.Len(t, ms, n)
	}
	bad := func(text, want string) {
		t.Helper()
		_, err := parseFilters([]string{text})
		require.ErrorContains(t, err, want)
	}
	good(`{severity="critical",namespace=~"team-.*"}`, 2)
	good(`severity=critical, namespace!~"a|b,c"`, 2)
	good(` {} `, 0)
	good(`a="x\",y"`, 1)
	good(`a=~"`+strings.Repeat("x", maxPattern)+`"`, 1)
	bad(`a=~"`+strings.Repeat("x", maxPattern+1)+`"`, "at most 256 are allowed")
	bad(`a=~"(x{100}){100}"`, "invalid repeat")
	bad(`a=~"[\\pL]{900}"`, "too large")
	bad(`a!~"((\\pL{10}){10}){9}"`, "too large")
	bad(strings.Repeat(`a="b",`, maxMatchers+1), "more than 32")
	bad(`a="`+strings.Repeat("x", maxFilters)+`"`, "at most 4096")
	bad(`a`, "bad matcher format")
	bad(`a=~"("`, "missing closing")
}

func TestGuard(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{Hosts: []string{"crowsnest.example.org"}})
	f := func(host string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", "/api/v1/episodes", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
	}
	for _, host := range []string{"localhost:9797", "127.0.0.1:9797", "[::1]:9797", "10.1.2.3", "crowsnest", "crowsnest.monitoring.svc:9797", "Crowsnest.Example.org."} {
		f(host, http.StatusOK)
	}
	for _, host := range []string{"evil.example", "evil.example:9797", "127.0.0.1.evil.example", "crowsnest.example.org.evil.example"} {
		f(host, http.StatusMisdirectedRequest)
	}
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusForbidden} {
		r := httptest.NewRequest("POST", "/-/reload", nil)
		r.Host = "localhost"
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
		require.Equal(t, site == "same-origin", strings.Contains(w.Body.String(), "reload over HTTP is off"))
	}
}

// Fingerprints in Alertmanager include the external labels.
func TestExternalLabels(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	require.Contains(t, request(s, "GET", "/?filter=cluster%3D%22east%22").Body.String(), "LeaseLost")
	require.Contains(t, request(s, "GET", "/?filter=cluster%3D%22west%22").Body.String(), "No open alert")
	for _, e := range exampleView().Episodes() {
		set := model.LabelSet{"cluster": "east"}
		for name, value := range e.Labels {
			set[model.LabelName(name)] = model.LabelValue(value)
		}
		for _, known := range []string{e.Fingerprint.String(), set.Fingerprint().String()} {
			w := request(s, "GET", "/api/v1/episodes/"+known)
			require.Equal(t, http.StatusOK, w.Code)
			require.Contains(t, w.Body.String(), `"fingerprint":"`+e.Fingerprint.String()+`"`)
		}
	}
}

// The alerts page bounds the number of alerts, says how many there are and has pages.
func TestPageOfManyAlerts(t *testing.T) {
	view := exampleView()
	one := view.Episodes()[3]
	view.Episodes = func() []episodes.Episode {
		all := make([]episodes.Episode, perPage+1234)
		for i := range all {
			all[i] = one
			all[i].Fingerprint = episodes.Fingerprint(i)
		}
		return all
	}
	s := newTestServer(t, view, Options{})
	for query, want := range map[string]string{
		"": "1 to 50 of 1,284", "&page=2": "51 to 100 of 1,284", "&page=26": "1251 to 1284 of 1,284", "&page=99": "1251 to 1284 of 1,284",
		"&page=-1": "1 to 50 of 1,284", "&page=x": "1 to 50 of 1,284", "&page=9999999999999999999": "1 to 50 of 1,284",
	} {
		w := request(s, "GET", "/?group=none"+query)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), want, query)
		require.LessOrEqual(t, strings.Count(w.Body.String(), "<article"), perPage)
		require.Less(t, w.Body.Len(), 400<<10)
	}
}
