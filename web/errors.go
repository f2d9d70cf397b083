package web

import (
	"net/http"
	"net/url"
	"strconv"

	"crowsnest/internal/strictyaml"
)

// failure is the data of a page that shows an error instead of the requested content.
type failure struct {
	Text  string
	Links []namedLink
}

type namedLink struct{ Text, Address string }

// serveError serves a page that explains an error and links to pages that may help.
func (s *Server) serveError(w http.ResponseWriter, code int, title, text string, links ...namedLink) {
	links = append(links, namedLink{"All alerts", "/"})
	s.renderPage(w, "error", code, page{Title: title, Data: failure{text, links}})
}

// noRule serves an error page for a link from an alert whose rule no longer exists.
func (s *Server) noRule(w http.ResponseWriter, name string) {
	set := s.view.Rules().Set
	names := make([]string, len(set.Rules))
	for i, r := range set.Rules {
		names[i] = r.Alert
	}
	text := "No rule has the name " + tameText(name) + "."
	var links []namedLink
	if best := strictyaml.Closest(name, names); best != "" {
		links = append(links, namedLink{"Did you mean " + best + "?", "/rules/" + url.PathEscape(best)})
	}
	if had := s.countAlerts(name); had > 0 {
		text = "The rule " + tameText(name) + " was removed or renamed, or its pack is no longer loaded. Its open alerts ended then, with the reason \u201cits rule was removed or changed\u201d."
		links = append(links, namedLink{"Its ended alerts", "/history?filter=" + url.QueryEscape("alertname="+strconv.Quote(name))})
	}
	s.serveError(w, http.StatusNotFound, "No such rule", text, append(links, namedLink{"All rules", "/rules"})...)
}

func (s *Server) countAlerts(name string) (n int) {
	for _, x := range s.view.History() {
		if x.Alert == name {
			n++
		}
	}
	for _, e := range s.view.Episodes() {
		if e.Alert == name {
			n++
		}
	}
	return n
}
