package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// machines are the paths that no person looks at and that say nothing of what the
// logs said: Prometheus and probes may use any name.
var machines = map[string]bool{"/metrics": true, "/-/ready": true, "/-/healthy": true}

// guard refuses requests that a foreign page makes a browser send: those that
// change something, and those for a host that is not this one. A name that
// anybody owns may be resolved to this address (DNS rebinding), and the page
// behind it would read the alerts.
func (s *Server) guard(h http.Handler) http.Handler {
	own := http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.knows(r.Host) && !machines[r.URL.Path] {
			http.Error(w, fmt.Sprintf("crowsnest does not answer for the host %q: add it with --web.allowed-host, or set global.external_url", hostOf(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// knows tells whether a host is an address, a name without a public suffix, such
// as those of a cluster, or one that the operator stated.
func (s *Server) knows(host string) bool {
	host = hostOf(host)
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

// hostOf returns the name or address of a Host header, without port, brackets
// and the dot at the end.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
