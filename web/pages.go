package web

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
)

//go:embed templates/*.html
var templateFiles embed.FS

type page struct {
	Title   string
	Path    string // path of the current page, which the navigation highlights
	Now     time.Time
	Missing []string // reasons why the daemon is not ready
	// Troubles describes outages because of which alerts may be missing or undelivered.
	Troubles []string
	// SourceMissing is the address of the page of the open alert CrowsnestSourceMissing. It is empty if there is no
	// such alert.
	SourceMissing string
	Data          any
}

// pages contains the templates by name. They are parsed when they are first used, because most processes show no pages.
type pages map[string]func() *template.Template

func newPages(files func() assets) pages {
	out := pages{}
	for _, name := range []string{"alerts", "episode", "rules", "rule", "sources", "status", "unknown", "history", "runbook", "scan", "silence", "error"} {
		out[name] = sync.OnceValue(func() *template.Template { return parsePage(files, name) })
	}
	return out
}

func parsePage(files func() assets, name string) *template.Template {
	t := template.New("layout.html").Funcs(template.FuncMap{
		"ago": agoTime, "since": sinceTime, "when": whenTime, "pairs": labelPairs, "bytes": humanBytes, "link": safeLink, "host": hostOfLink, "join": strings.Join,
		"count": text.GroupThousands, "number": formatCount, "health": healthText, "span": formatDuration, "asset": func(name string) string { return files().assetURL(name) },
		"waiting": waitingText, "lacksSource": lacksSource, "plural": pluralWord, "capital": capitalise, "code": codeText, "about": func(alert string) string { return strings.TrimPrefix(alert, "Crowsnest") }, "state": stateText, "tame": func(text any) string { return tameText(fmt.Sprint(text)) }, "lower": strings.ToLower, "breakable": breakableName, "yaml": highlightYAML, "hours": silenceSpan, "suppression": SuppressionText,
		"weekday": formatWeekday, "int64": func(n int) int64 { return int64(n) },
		"nest": func(p page, x any) partOfPage { return partOfPage{p, x} },
	})
	// Must cannot panic, because the templates are embedded and a test parses all of them.
	return template.Must(t.ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
}

// partOfPage is the data for a template that renders a part of a page, together with the data of the whole page.
type partOfPage struct {
	Page page
	Item any
}

func (s *Server) routePages(mux *router) {
	get := func(path string, h http.HandlerFunc) { mux.HandleFunc("GET "+path, s.gate.guardHandler(h)) }
	get("/{$}", s.alertsPage)
	get("/episodes/{fingerprint}", s.episodePage)
	get("/episodes/{fingerprint}/case", s.caseFile)
	mux.HandleFunc("GET /episodes/{fingerprint}/silence", func(w http.ResponseWriter, r *http.Request) {
		s.gate.guardHandler(s.silencePage, s.view.Links().IdentityHeader)(w, r) // users do not share the page, which names its user
	})
	mux.HandleFunc("POST /episodes/{fingerprint}/silence", s.makeSilence)
	get("/history", s.historyPage)
	get("/rules", s.rulesPage)
	get("/rules/{name}", s.rulePage)
	get("/runbooks/{name}", s.runbookPage)
	get("/unknown", s.unknownPage)
	get("/unknown/{fingerprint}/rule", s.unknownRulePage)
	get("/sources", s.sourcesPage)
	get("/scan", s.scanPage)
	mux.HandleFunc("POST /scan", s.limitReading(s.scanner.admit, s.serveScan))
	get("/playground", func(w http.ResponseWriter, r *http.Request) { // former address of the page Scan
		http.Redirect(w, r, "/scan?"+r.URL.RawQuery, http.StatusMovedPermanently) //nolint:gosec // the path is fixed
	})
	get("/status", func(w http.ResponseWriter, _ *http.Request) {
		s.renderPage(w, "status", http.StatusOK, page{Title: "Status", Path: "/status", Data: map[string]any{
			"Status": s.view.Status(), "Build": buildInfo().versionFacts(),
		}})
	})
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) { s.assets().ServeHTTP(w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.serveError(w, http.StatusNotFound, "Not found", "There is no page "+tameText(r.URL.Path)+".")
	})
}

// renderPage writes a page. If its template fails, it writes only an error message.
func (s *Server) renderPage(w http.ResponseWriter, name string, code int, data page) {
	data.Now = s.opt.Now().UTC()
	status := s.view.Status()
	data.Missing = status.Missing
	for _, text := range status.Absent {
		data.Troubles = append(data.Troubles, text+": alerts may be missing")
	}
	for _, d := range status.Discoveries {
		if !d.FailingSince.IsZero() {
			data.Troubles = append(data.Troubles, fmt.Sprintf("%s cannot look up %s: %s. The %d that it found last stay", d.Sink, d.Discovery, d.Error, d.Targets))
		}
	}
	data.Troubles = append(data.Troubles, s.downReceivers(data.Now)...)
	for i := range data.Troubles {
		data.Troubles[i] = tameText(data.Troubles[i])
	}
	var b bytes.Buffer
	if err := s.pages[name]().Execute(&b, data); err != nil {
		s.opt.Log.Error().Str("page", name).Err(err).Msg("render page")
		http.Error(w, "the page could not be rendered; see the log of crowsnest", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client may have disconnected
}

// downReceivers returns a sentence for each receiver that is down, with the start and the reason.
func (s *Server) downReceivers(now time.Time) []string {
	var out []string
	for _, e := range s.view.Endpoints() {
		if e.Up {
			continue
		}
		text := fmt.Sprintf("Not delivered to %s %s", e.Sink, e.Endpoint)
		if since := s.samples.downSince(e); !since.IsZero() && now.Sub(since) >= sampleEvery {
			text += " for " + formatDuration(now.Sub(since))
		}
		if e.Error != "" {
			text += ": " + e.Error
		}
		out = append(out, text)
	}
	return out
}

// healthText describes the health of a rule for people. The API returns codes instead.
func healthText(health string) string {
	texts := map[string]string{"given_up": "quarantined", "held": "on hold"}
	return cmp.Or(texts[health], health)
}

type ruleData struct {
	Rule
	Pack, File string
	Charts     []chart
	Tests      []TestOutcome
	NoTests    string // reason why the page has no test results
}

// chart is a small chart of the last hour.
type chart struct{ Name, Value, Path string }

// ruleCharts returns the charts of a rule's activity in the last hour.
func (s *Server) ruleCharts(rule string) []chart {
	var out []chart
	for _, c := range []struct {
		name, series string
		format       func(uint64) string
	}{
		{"Lines matched, last hour", ruleSeries(rule), formatDigits},
		{"Lines tried", triesSeries(rule), formatDigits},
		{"CPU time", costSeries(rule), func(n uint64) string { return (time.Duration(n) * time.Microsecond).String() }},
	} {
		if path, sum := s.sparkline(c.series); path != "" {
			out = append(out, chart{c.name, c.format(sum), path})
		}
	}
	return out
}

func formatDigits(n uint64) string { return text.GroupThousands(int64(min(n, math.MaxInt64))) }

type rulesData struct {
	Filter string
	Groups []groupView
	Health map[string]int // number of rules by health
}

type groupView struct {
	Group
	Shown           []ruleView
	Health          map[string]int
	Firing, Pending int // number of firing and of pending alerts
}

type ruleView struct {
	Rule
	Spark string
}

// rulesPage serves the page with all rules. It states how many rules cannot detect their failure.
func (s *Server) rulesPage(w http.ResponseWriter, r *http.Request) {
	data := rulesData{Filter: r.URL.Query().Get("filter"), Health: map[string]int{}}
	words := strings.Fields(strings.ToLower(data.Filter))
	for _, g := range s.ruleGroups() {
		shown := groupView{Group: g, Health: map[string]int{}}
		for _, rule := range g.Rules {
			data.Health[rule.Health]++
			shown.Health[rule.Health]++
			shown.Firing, shown.Pending = shown.Firing+rule.Firing, shown.Pending+rule.Pending
			if !hasWords(words, rule.Name, g.Name, rule.Health, healthText(rule.Health), string(rule.Severity), rule.From, rule.Unverified()) {
				continue
			}
			view := ruleView{Rule: rule}
			if rule.PerMinute != nil {
				view.Spark, _ = sparkPath(rule.PerMinute.Counts)
			}
			shown.Shown = append(shown.Shown, view)
		}
		if len(words) == 0 || len(shown.Shown) > 0 {
			data.Groups = append(data.Groups, shown)
		}
	}
	s.renderPage(w, "rules", http.StatusOK, page{Title: "Rules", Path: "/rules", Data: data})
}

// hasWords reports whether the texts together contain all words. The words are in lower case.
func hasWords(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
}

func (s *Server) rulePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	full := s.view.Rules().Set.Rule(name)
	if full == nil {
		s.noRule(w, name)
		return
	}
	data := ruleData{Pack: full.Pack, File: full.File, Charts: s.ruleCharts(name)}
	data.Tests, data.NoTests = s.ruleTests(full)
	for _, g := range s.ruleGroups() {
		for _, rule := range g.Rules {
			if rule.Name == name {
				data.Rule = rule
			}
		}
	}
	s.renderPage(w, "rule", http.StatusOK, page{Title: name, Path: "/rules", Data: data})
}

// sortEpisodes orders episodes by state (firing, pending, ended), then by severity, the most
// severe first, and then by start, the newest first.
func sortEpisodes(eps []episodes.Episode) {
	state := map[episodes.State]int{episodes.StateFiring: 0, episodes.StatePending: 1, episodes.StateUnwatched: 2, episodes.StateResolved: 3}
	rank := func(e *episodes.Episode) int { return state[e.State]*10 + severityRank(e.Labels["severity"]) }
	slices.SortStableFunc(eps, func(a, b episodes.Episode) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), newerFirst(&a, &b))
	})
}

func newerFirst(a, b *episodes.Episode) int {
	return cmp.Or(b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// severityRank returns the position of a severity in a list. The most severe one comes first.
func severityRank(severity string) int {
	severities := []string{"critical", "warning", "info"}
	if i := slices.Index(severities, severity); i >= 0 {
		return i
	}
	return len(severities)
}

type pair struct{ Name, Value string }

// labelPairs returns labels ordered by name, except the names in without.
func labelPairs(m map[string]string, without ...string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(without, k) {
			out = append(out, pair{k, m[k]})
		}
	}
	return out
}

func formatSelector(labels map[string]string) string {
	var parts []string
	for _, p := range labelPairs(labels) {
		parts = append(parts, fmt.Sprintf("%s=%q", p.Name, p.Value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// safeLink returns s if it is an absolute http or https address, and otherwise "".
func safeLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	return u.String()
}

// hostOfLink returns the host name in an address.
func hostOfLink(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
