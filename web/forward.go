package web

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// forwarded marks a request that another process has forwarded. It is answered here, because
// otherwise two standbys would pass it to each other forever.
const forwarded = "X-Crowsnest-Forwarded"

// forwardToLeader forwards requests, except those for metrics and probes, to the leader while
// this process is the standby. So a Service in front of both always shows the same pages.
func (s *Server) forwardToLeader(h http.Handler) http.Handler {
	if s.opt.Elsewhere == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := url.Parse(s.opt.Elsewhere())
		if anyHost[r.URL.Path] || r.Header.Get(forwarded) != "" || err != nil || to.Host == "" {
			h.ServeHTTP(w, r)
			return
		}
		proxy := httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(to)
				p.SetXForwarded()
				p.Out.Host = p.In.Host
				p.Out.Header.Set(forwarded, "1")
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, fmt.Sprintf("this process stands by, and the leader at %s does not answer: %v", to, err), http.StatusBadGateway)
			},
		}
		proxy.ServeHTTP(w, r)
	})
}
