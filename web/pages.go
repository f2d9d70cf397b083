package web

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

type page struct {
	Title   string
	Path    string // of the current page in the navigation
	Now     time.Time
	Missing []string // why the daemon is not ready
	// Troubles lists receivers and sources that are down: alerts may be missing or
	// undelivered.
	Troubles []string
	Data     any
}

type card struct {
	Page page
	Item row
}

type pages map[string]*template.Template

func parsePages() pages {
	out := pages{}
	for _, name := range []string{"alerts", "episode", "rules", "rule", "sources", "status", "unknown", "history", "error"} {
		t := template.New("layout.html").Funcs(template.FuncMap{
			"ago": ago, "when": when, "pairs": pairs, "bytes": humanBytes, "link": safeLink, "join": strings.Join,
			"count": text.Digits, "weekday": weekday, "int64": func(n int) int64 { return int64(n) }, "health": healthText, "waiting": waitingText, "card": func(p page, r row) card { return card{p, r} },
		})
		// The templates are embedded, and a test parses all of them.
		out[name] = template.Must(t.ParseFS(templateFiles, "templates/layout.html", "templates/"+name+".html"))
	}
	return out
}

func (s *Server) routePages(mux *router) {
	g := func(h http.HandlerFunc) http.HandlerFunc { return s.gate.guarded(h) }
	mux.HandleFunc("GET /{$}", g(s.alertsPage))
	mux.HandleFunc("GET /episodes/{fingerprint}", g(s.episodePage))
	mux.HandleFunc("GET /history", g(s.historyPage))
	mux.HandleFunc("GET /rules", g(func(w http.ResponseWriter, _ *http.Request) {
		s.render(w, "rules", http.StatusOK, page{Title: "Rules", Path: "/rules", Data: s.groups()})
	}))
	mux.HandleFunc("GET /rules/{name}", g(s.rulePage))
	mux.HandleFunc("GET /unknown", g(s.unknownPage))
	mux.HandleFunc("GET /unknown/{fingerprint}/rule", g(s.unknownRulePage))
	mux.HandleFunc("GET /sources", g(func(w http.ResponseWriter, _ *http.Request) {
		s.render(w, "sources", http.StatusOK, page{
			Title: "Sources", Path: "/sources",
			Data: map[string]any{"Sources": s.sources(), "Endpoints": s.view.Endpoints()},
		})
	}))
	mux.HandleFunc("GET /status", g(func(w http.ResponseWriter, _ *http.Request) {
		s.render(w, "status", http.StatusOK, page{Title: "Status", Path: "/status", Data: map[string]any{
			"Status": s.view.Status(), "Shadow": s.view.Shadow(), "Build": buildInfo().pairs(),
		}})
	}))
	static := http.FileServerFS(staticFiles)
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		static.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.render(w, "error", http.StatusNotFound, page{Title: "Not found", Data: "There is no page " + r.URL.Path + "."})
	})
}

// render writes a page, or only an error if its template fails.
func (s *Server) render(w http.ResponseWriter, name string, code int, data page) {
	data.Now = s.opt.Now().UTC()
	status := s.view.Status()
	data.Missing, data.Troubles = status.Missing, append(slices.Clone(status.Absent), downReceivers(s.view.Endpoints())...)
	var b bytes.Buffer
	if err := s.pages[name].Execute(&b, data); err != nil {
		s.opt.Log.Error().Str("page", name).Err(err).Msg("render page")
		http.Error(w, "the page could not be rendered; see the log of crowsnest", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client may have disconnected
}

func downReceivers(all []Endpoint) []string {
	var out []string
	for _, e := range all {
		if !e.Up {
			text := fmt.Sprintf("The receiver %s %s is down", e.Sink, e.Endpoint)
			if e.Error != "" {
				text += ": " + e.Error
			}
			out = append(out, text)
		}
	}
	return out
}

// waitingText says what an alert waits for. Until it fires, its text describes a failure
// that may still recover.
func waitingText(e episodes.Episode) string {
	switch {
	case e.State == episodes.StateFiring && e.OnHold:
		return "Silence does not end the alert. It is " + onHoldText(e.WaitsFor) + "."
	case e.State != episodes.StatePending:
		return ""
	case e.OnHold:
		return "Nobody has been notified. The alert is " + onHoldText(e.WaitsFor) + ". The text describes the failure if it has not recovered by then."
	case e.Deadline.IsZero():
		return "Nobody has been notified yet."
	}
	return "Nobody has been notified yet. The alert fires at " + when(e.Deadline) + " if the failure has not recovered by then; the text describes it as of that time."
}

// maxCards bounds the episodes in each section of the alerts page.
const maxCards = 200

type alertsData struct {
	Filter              string
	Error               string
	Open, Silent, Ended []row
	More                int64 // open alerts that are not shown
	Rules, Streams      int
}

func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) {
	data := alertsData{Filter: r.URL.Query().Get("filter"), Rules: len(s.view.Stats().Rules)}
	for _, src := range s.view.Sources() {
		data.Streams += len(src.Streams)
	}
	code := http.StatusOK
	eps, err := s.filtered(r)
	if err != nil {
		data.Error, code = err.Error(), http.StatusBadRequest
	}
	var sections [3][]episodes.Episode
	for _, e := range eps {
		switch {
		case e.Rule == nil && e.Labels["severity"] == "none":
			// The heartbeat: the page itself shows that the daemon is alive.
		case !open(e):
			sections[2] = append(sections[2], e)
		case e.Silent:
			sections[1] = append(sections[1], e)
		default:
			sections[0] = append(sections[0], e)
		}
	}
	data.More = int64(max(0, len(sections[0])-maxCards))
	for i, rows := range []*[]row{&data.Open, &data.Silent, &data.Ended} {
		*rows = grouped(sections[i])
		*rows = (*rows)[:min(len(*rows), maxCards)]
		for k := range *rows {
			(*rows)[k].Seen = s.seen(&(*rows)[k].Episode)
		}
	}
	s.render(w, "alerts", code, page{Title: "Alerts", Path: "/", Data: data})
}

type episodeData struct {
	episodes.Episode
	Where      string // its labels as a matcher
	Events     []Event
	Skipped    int
	Deliveries []Delivery
	Symptoms   []episodes.Episode // open ones
	Seen       *Seen              // nil: never before
}

func (s *Server) episodePage(w http.ResponseWriter, r *http.Request) {
	e, tl, ok := s.timeline(r.PathValue("fingerprint"))
	if !ok {
		s.render(w, "error", http.StatusNotFound, page{
			Title: "Not found",
			Data:  "This episode is not open, and the history does not have it.",
		})
		return
	}
	data := episodeData{
		Episode: e, Where: selector(e.Labels), Events: tl.Events, Skipped: tl.Skipped, Deliveries: newestAnswers(s.view.Deliveries(e.Fingerprint)),
		Seen: s.seen(&e),
	}
	if open(e) {
		data.Symptoms = symptomsOf(s.view.Episodes())[e.Fingerprint]
	}
	s.render(w, "episode", http.StatusOK, page{Title: e.Alert, Path: "/", Data: data})
}

// healthText formats the health of a rule for people; the API keeps the codes.
func healthText(health string) string {
	texts := map[string]string{"given_up": "quarantined", "held": "on hold"}
	return cmp.Or(texts[health], health)
}

type ruleData struct {
	Rule
	Pack, File string
}

func (s *Server) rulePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	full := s.view.Rules().Set.Rule(name)
	if full == nil {
		s.render(w, "error", http.StatusNotFound, page{Title: "Not found", Data: "No rule has the name " + name + "."})
		return
	}
	data := ruleData{Pack: full.Pack, File: full.File}
	for _, g := range s.groups() {
		for _, rule := range g.Rules {
			if rule.Name == name {
				data.Rule = rule
			}
		}
	}
	s.render(w, "rule", http.StatusOK, page{Title: name, Path: "/rules", Data: data})
}

// sortEpisodes orders by state (firing, pending, ended), severity and start, the
// most severe and newest first.
func sortEpisodes(eps []episodes.Episode) {
	state := map[episodes.State]int{episodes.StateFiring: 0, episodes.StatePending: 1, episodes.StateResolved: 2}
	severity := map[string]int{"critical": 0, "warning": 1, "info": 2}
	rank := func(e episodes.Episode) int {
		sev, ok := severity[e.Labels["severity"]]
		if !ok {
			sev = len(severity)
		}
		return state[e.State]*10 + sev
	}
	slices.SortStableFunc(eps, func(a, b episodes.Episode) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
}

type pair struct{ Name, Value string }

// pairs returns labels ordered by name, except those that a page shows elsewhere.
func pairs(m map[string]string, without ...string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(without, k) {
			out = append(out, pair{k, m[k]})
		}
	}
	return out
}

func selector(labels map[string]string) string {
	var parts []string
	for _, p := range pairs(labels) {
		parts = append(parts, fmt.Sprintf("%s=%q", p.Name, p.Value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// safeLink returns an absolute http or https address, or "".
func safeLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	return u.String()
}
