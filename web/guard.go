package web

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"crowsnest/internal/text"
)

// anyHost contains the paths that accept any Host header. Their responses contain no log text, and Prometheus and
// probes may reach this process by any name.
var anyHost = map[string]bool{"/metrics": true, "/-/ready": true, "/-/healthy": true}

// guardRequests refuses cross-origin requests that change state. It also refuses requests for an unknown host name,
// because a foreign page with that name could read the alerts (DNS rebinding).
func (s *Server) guardRequests(h http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(s.guardIdentity(h))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.allowsHost(r.Host) && !anyHost[r.URL.Path] {
			http.Error(w, fmt.Sprintf("the host %q is not allowed: add it with --web.allowed-host, or set global.external_url", hostName(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		sameOrigin.ServeHTTP(w, r)
	})
}

// guardIdentity removes the identity header of Links from requests that no trusted proxy sent. All handlers behind
// guardIdentity can believe the header. guardIdentity ignores X-Forwarded-For, which everybody can write.
func (s *Server) guardIdentity(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		links := s.view.Links()
		if values := r.Header.Values(links.IdentityHeader); len(values) > 0 {
			sender, err := netip.ParseAddrPort(r.RemoteAddr)
			contains := func(p netip.Prefix) bool { return p.Contains(sender.Addr().Unmap().WithZone("")) }
			switch {
			case err != nil || !slices.ContainsFunc(links.TrustedProxies, contains):
				r.Header.Del(links.IdentityHeader)
			case len(values) > 1:
				http.Error(w, fmt.Sprintf("the request has several headers %s: the proxy must replace the header that a client sends", links.IdentityHeader), http.StatusBadRequest)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// userName returns the name of the user according to a trusted proxy. It returns "" if the name is not known.
func (s *Server) userName(r *http.Request) string {
	return text.Truncate(strings.TrimSpace(tameText(r.Header.Get(s.view.Links().IdentityHeader))), maxAuthor)
}

// allowsHost reports whether a host is an IP address, a name without a public suffix, or a name in Options.Hosts.
func (s *Server) allowsHost(host string) bool {
	host = hostName(host)
	if host == "" || slices.Contains(s.opt.Hosts, "*") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	for _, suffix := range []string{".svc", ".svc.cluster.local", ".localhost", ".local", ".internal"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return !strings.Contains(host, ".") || slices.ContainsFunc(s.opt.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// hostName returns the host of a Host header in lower case, without its port, brackets and trailing dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// forwarded is a header that marks a request forwarded by another process. Such a request is never forwarded again,
// because otherwise two standbys could pass it to each other forever.
const forwarded = "X-Crowsnest-Forwarded"

// forwardToLeader forwards requests to the leader while this process is the standby. It does not forward requests for
// metrics and probes. So a Service in front of both processes always shows the same pages.
func (s *Server) forwardToLeader(h http.Handler) http.Handler {
	if s.opt.LeaderAddress == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := url.Parse(s.opt.LeaderAddress())
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
				http.Error(w, fmt.Sprintf("this process is the standby, and the leader at %s does not answer: %v", to, err), http.StatusBadGateway)
			},
		}
		proxy.ServeHTTP(w, r)
	})
}
