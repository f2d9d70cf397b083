package web

import (
	_ "embed"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

func (s *Server) routeProbes(mux *router) {
	mux.HandleFunc("GET /-/healthy", s.serveHealthy)
	mux.HandleFunc("GET /-/ready", s.serveReady)
}

// serveHealthy serves the liveness probe. It reports a failure only if a restart may help.
func (s *Server) serveHealthy(w http.ResponseWriter, _ *http.Request) {
	if why := s.view.Status().Unhealthy; why != "" {
		writeText(w, http.StatusServiceUnavailable, "crowsnest is not healthy: "+why+"\n")
		return
	}
	writeText(w, http.StatusOK, "crowsnest is healthy.\n")
}

// serveReady serves the readiness probe. It lists what the daemon lacks. It also lists unreachable peers, but these do
// not change the status code.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	st := s.view.Status()
	code, text := http.StatusOK, "crowsnest is ready.\n"
	if len(st.Missing) > 0 {
		code, text = http.StatusServiceUnavailable, "crowsnest is not ready:\n"+bulletList(st.Missing)
	}
	if len(st.Absent) > 0 {
		text += "Not watched:\n" + bulletList(st.Absent)
	}
	writeText(w, code, text)
}

func bulletList(lines []string) string {
	return "- " + strings.Join(lines, "\n- ") + "\n"
}

func (s *Server) routeMetrics(mux *router) {
	scrape := promhttp.InstrumentMetricHandler(s.opt.Registry,
		promhttp.HandlerFor(s.opt.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: s.opt.Registry}))
	guarded := s.gate.guardHandler(scrape.ServeHTTP, "Accept", "Accept-Encoding")
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		// The headers are normalized, so that requests for equal responses have the same key in the gate.
		r.Header.Set("Accept", string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)))
		encoding := "identity"
		if acceptsGzip(r) {
			encoding = "gzip"
		}
		r.Header.Set("Accept-Encoding", encoding)
		guarded(w, r)
	})
}

// openAPI describes the API. A test generates it from the types of the answers and checks it
// against the handlers. With UPDATE_SNAPSHOTS=1, the test writes the file.
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the OpenAPI 3.1 document of the API, as JSON. The caller must not change it.
func OpenAPI() []byte { return openAPI }

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(openAPI) // the client may have disconnected
}
