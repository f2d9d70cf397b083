package web

import (
	"net/http"
	"strings"
)

func (s *Server) routeProbes(mux *router) {
	mux.HandleFunc("GET /-/healthy", s.serveHealthy)
	mux.HandleFunc("GET /-/ready", s.serveReady)
}

// serveHealthy reports a failure only if a restart may help.
func (s *Server) serveHealthy(w http.ResponseWriter, _ *http.Request) {
	if why := s.view.Status().Unhealthy; why != "" {
		writeText(w, http.StatusServiceUnavailable, "crowsnest is not healthy: "+why+"\n")
		return
	}
	writeText(w, http.StatusOK, "crowsnest is healthy.\n")
}

// serveReady lists what the daemon lacks, and unreachable peers, which do not change the status code.
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
