package web

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

func (s *Server) routeMetrics(mux *router) {
	scrape := promhttp.InstrumentMetricHandler(s.opt.Registry,
		promhttp.HandlerFor(s.opt.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: s.opt.Registry}))
	guarded := s.gate.guardHandler(scrape.ServeHTTP, "Accept", "Accept-Encoding")
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		// Normalize the headers, so that equal responses have the same key in the gate.
		r.Header.Set("Accept", string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)))
		encoding := "identity"
		if acceptsGzip(r) {
			encoding = "gzip"
		}
		r.Header.Set("Accept-Encoding", encoding)
		guarded(w, r)
	})
}
