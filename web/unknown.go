package web

import "net/http"

func (s *Server) unknownPage(w http.ResponseWriter, _ *http.Request) {
	s.renderPage(w, "unknown", http.StatusOK, page{Title: "Unknown failures", Path: "/unknown", Data: s.view.Unknown()})
}

// unknownRulePage serves, as text, a pack with a generated rule for an unknown failure.
func (s *Server) unknownRulePage(w http.ResponseWriter, r *http.Request) {
	pack, err := s.view.UnknownRule(r.PathValue("fingerprint"))
	if err != nil {
		s.serveError(w, http.StatusNotFound, "Not found", "There is no rule: "+err.Error()+".")
		return
	}
	writeText(w, http.StatusOK, pack)
}

// apiUnknownRule returns a pack with a generated rule for an unknown failure, for programs.
func (s *Server) apiUnknownRule(r *http.Request) (any, *apiError) {
	pack, err := s.view.UnknownRule(r.PathValue("fingerprint"))
	if err != nil {
		return nil, notFound(err.Error())
	}
	return RulePack{pack}, nil
}
