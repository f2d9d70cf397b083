package web

import (
	"net/http"
	"strings"
)

func (s *Server) routeProbes(mux *http.ServeMux) {
	mux.HandleFunc("GET /-/healthy", s.healthy)
	mux.HandleFunc("GET /-/ready", s.ready)
}

// healthy fails only where a restart may help.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	if why := s.view.Status().Unhealthy; why != "" {
		writeText(w, http.StatusServiceUnavailable, "crowsnest is not healthy: "+why+"\n")
		return
	}
	writeText(w, http.StatusOK, "crowsnest is healthy.\n")
}

// ready says what is missing, a line each.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if missing := s.view.Status().Missing; len(missing) > 0 {
		writeText(w, http.StatusServiceUnavailable, "crowsnest is not ready:\n- "+strings.Join(missing, "\n- ")+"\n")
		return
	}
	writeText(w, http.StatusOK, "crowsnest is ready.\n")
}
