package web

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/version"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// The kinds of errors of the API, as in Prometheus.
const (
	errBadData  = "bad_data"
	errNotFound = "not_found"
)

func (s *Server) routeAPI(mux *http.ServeMux) {
	const v1 = "GET /api/v1/"
	g := func(h http.HandlerFunc) http.HandlerFunc { return s.gate.guarded(h) }
	mux.HandleFunc(v1+"alerts", g(s.apiAlerts))
	mux.HandleFunc(v1+"episodes", g(s.apiEpisodes))
	mux.HandleFunc(v1+"episodes/{fingerprint}", g(s.apiEpisode))
	mux.HandleFunc(v1+"episodes/{fingerprint}/timeline", g(s.apiTimeline))
	mux.HandleFunc(v1+"rules", g(s.apiRules))
	mux.HandleFunc(v1+"sources", g(func(w http.ResponseWriter, _ *http.Request) {
		writeData(w, map[string]any{"sources": notNil(s.sources()), "endpoints": notNil(s.view.Endpoints())})
	}))
	mux.HandleFunc(v1+"status/buildinfo", func(w http.ResponseWriter, _ *http.Request) { writeData(w, buildInfo()) })
	mux.HandleFunc(v1+"status/config", func(w http.ResponseWriter, _ *http.Request) {
		writeData(w, map[string]string{"yaml": s.view.Status().Config})
	})
	mux.HandleFunc(v1+"status/flags", func(w http.ResponseWriter, _ *http.Request) { writeData(w, s.view.Status().Flags) })
	mux.HandleFunc(v1+"status/runtimeinfo", func(w http.ResponseWriter, _ *http.Request) { writeData(w, s.runtimeInfo()) })
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, errNotFound, "no such endpoint: "+r.URL.Path)
	})
}

// Alert is an open alert as Prometheus' API shows it.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       episodes.State    `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

func (s *Server) apiAlerts(w http.ResponseWriter, r *http.Request) {
	eps, err := s.filtered(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, errBadData, err.Error())
		return
	}
	alerts := []Alert{}
	for _, e := range eps {
		if open(e) && !e.Silent {
			alerts = append(alerts, Alert{
				Labels: e.Labels, Annotations: notNilMap(e.Annotations), State: e.State,
				ActiveAt: e.StartsAt, Value: strconv.FormatFloat(float64(e.Count), 'e', -1, 64),
			})
		}
	}
	writeData(w, map[string]any{"alerts": alerts})
}

// Episode is an episode as the API shows it.
type Episode struct {
	Fingerprint string            `json:"fingerprint"`
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Held        bool              `json:"held,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	FiredAt     *time.Time        `json:"firedAt,omitempty"`
	LastSeen    time.Time         `json:"lastSeen"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
	Deadline    *time.Time        `json:"deadline,omitempty"`
	Count       int64             `json:"count"`
	Line        string            `json:"line,omitempty"`
	First       string            `json:"firstLine,omitempty"`
}

func toEpisode(e episodes.Episode) Episode {
	out := Episode{
		Fingerprint: e.Fingerprint.String(), Alert: e.Alert, State: e.State, Reason: e.Reason, Silent: e.Silent,
		Overflow: e.Overflow, Held: e.Held, Labels: e.Labels, Annotations: notNilMap(e.Annotations),
		StartsAt: e.StartsAt, FiredAt: stated(e.FiredAt), LastSeen: e.LastSeen, EndsAt: stated(e.EndsAt),
		Deadline: stated(e.Deadline), Count: e.Count, Line: e.Line, First: e.First,
	}
	if e.Rule != nil {
		out.Pack = e.Rule.Pack
	}
	return out
}

func (s *Server) apiEpisodes(w http.ResponseWriter, r *http.Request) {
	eps, err := s.filtered(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, errBadData, err.Error())
		return
	}
	out := make([]Episode, len(eps))
	for i, e := range eps {
		out[i] = toEpisode(e)
	}
	writeData(w, map[string]any{"episodes": out})
}

func (s *Server) apiEpisode(w http.ResponseWriter, r *http.Request) {
	e, ok := s.find(r.PathValue("fingerprint"))
	if !ok {
		writeError(w, http.StatusNotFound, errNotFound, "no open or lately resolved episode has this fingerprint")
		return
	}
	writeData(w, struct {
		Episode
		Deliveries []Delivery `json:"deliveries"`
	}{toEpisode(e), newestAnswers(s.view.Deliveries(e.Fingerprint))})
}

// sources returns the sources with how many rules apply to each stream.
func (s *Server) sources() []Source {
	all := s.view.Sources()
	return look(s.view.Rules().Set, all, s.opt.Now()).counted(all)
}

// find returns the newest episode with a fingerprint, its own or the one that a
// receiver knows: the open one first.
func (s *Server) find(fingerprint string) (episodes.Episode, bool) {
	var found episodes.Episode
	ok := false
	external := s.view.External()
	for _, e := range s.view.Episodes() {
		if e.Fingerprint.String() != fingerprint && !knownAs(e, external, fingerprint) {
			continue
		}
		if !ok || open(e) || (!open(found) && e.EndsAt.After(found.EndsAt)) {
			found, ok = e, true
		}
	}
	return found, ok
}

// knownAs tells whether a receiver that adds external labels to an alert knows it
// by a fingerprint.
func knownAs(e episodes.Episode, external []map[string]string, fingerprint string) bool {
	return slices.ContainsFunc(external, func(more map[string]string) bool {
		set := model.LabelSet{}
		for name, value := range more {
			set[model.LabelName(name)] = model.LabelValue(value)
		}
		for name, value := range e.Labels {
			set[model.LabelName(name)] = model.LabelValue(value)
		}
		return set.Fingerprint().String() == fingerprint
	})
}

// Group is a pack as Prometheus' API shows a group of rules.
type Group struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256"`
	Broken  string `json:"broken,omitempty"`
	Rules   []Rule `json:"rules"`
}

// Rule is a rule as the API shows it.
type Rule struct {
	Name      string         `json:"name"`
	Type      string         `json:"type"` // "alerting", as in Prometheus
	State     string         `json:"state"`
	Health    string         `json:"health"`
	Severity  rules.Severity `json:"severity"`
	Mode      rules.Mode     `json:"mode"`
	Scope     rules.Scope    `json:"scope"`
	From      string         `json:"from"`
	Believes  rules.Origin   `json:"origin"`   // whose lines
	Duration  float64        `json:"duration"` // of `for`, in seconds
	Matches   int64          `json:"matches"`
	LastMatch *time.Time     `json:"lastMatch,omitempty"`
	LastSeen  *time.Time     `json:"lastSeenLine,omitempty"`
	Streams   int            `json:"streams"`            // that are followed and that the rule applies to
	Tries     int64          `json:"tries"`              // lines on which one of its parts was tried, estimated
	Seconds   float64        `json:"evaluationSeconds"`  // all evaluations together
	GivenUp   string         `json:"givenUp,omitempty"`  // why the rule is not evaluated any more
	Waits     string         `json:"waits,omitempty"`    // why nothing is concluded from silence
	Disabled  string         `json:"disabled,omitempty"` // why the rule is off, if anyone said so
	Pending   int            `json:"pending"`
	Firing    int            `json:"firing"`
	Source    string         `json:"source"`
}

func (s *Server) apiRules(w http.ResponseWriter, _ *http.Request) {
	writeData(w, map[string]any{"groups": s.groups()})
}

// groups joins what is loaded with what happened to it.
func (s *Server) groups() []Group {
	loaded := s.view.Rules()
	status := map[string]episodes.RuleStatus{}
	for _, st := range s.view.Stats().Rules {
		status[st.Rule.Alert] = st
	}
	broken := map[string]string{}
	for _, b := range loaded.Broken {
		broken[b.Pack] = b.Error
	}
	out := []Group{}
	seen := look(loaded.Set, s.view.Sources(), s.opt.Now())
	for _, p := range loaded.Set.Packs {
		g := Group{Name: p.Name, File: p.File, Version: p.Version, SHA256: p.SHA256, Broken: broken[p.Name], Rules: []Rule{}}
		delete(broken, p.Name)
		for _, r := range p.Rules {
			g.Rules = append(g.Rules, toRule(r, status[r.Alert], loaded, seen))
		}
		out = append(out, g)
	}
	for _, b := range loaded.Broken {
		if _, ok := broken[b.Pack]; ok { // none of that name is in force
			out = append(out, Group{Name: b.Pack, Broken: b.Error, Rules: []Rule{}})
		}
	}
	return out
}

func toRule(r *rules.Rule, st episodes.RuleStatus, loaded Rules, sees sight) Rule {
	seen := loaded.Seen[r.Alert]
	out := Rule{
		Name: r.Alert, Type: "alerting", State: "inactive", Severity: r.Severity, Mode: r.Mode, Scope: r.Scope,
		From: r.From.String(), Believes: r.LineOrigin(), Duration: r.For.Seconds(), Matches: st.Matches, LastMatch: stated(st.LastMatch),
		LastSeen: stated(seen), Streams: sees.streams[r.Alert], Tries: loaded.Tries[r.Alert], Seconds: loaded.Cost[r.Alert].Seconds(), GivenUp: loaded.GivenUp[r.Alert], Waits: loaded.Waits[r.Alert],
		Disabled: r.Disabled, Pending: st.Pending, Firing: st.Firing, Source: r.Source,
	}
	switch {
	case st.Firing > 0:
		out.State = "firing"
	case st.Pending > 0:
		out.State = "pending"
	}
	switch {
	case r.Mode == rules.ModeOff:
		out.Health = "disabled"
	case out.GivenUp != "":
		out.Health = "given_up"
	case st.Inactive:
		out.Health = "inactive"
	case st.Held:
		out.Health = "held"
	default:
		out.Health = sees.of(r, seen)
	}
	return out
}

func buildInfo() map[string]string {
	return map[string]string{
		"version": version.Version, "revision": version.GetRevision(), "branch": version.Branch,
		"buildUser": version.BuildUser, "buildDate": version.BuildDate, "goVersion": version.GoVersion,
	}
}

func (s *Server) runtimeInfo() map[string]any {
	st := s.view.Status()
	return map[string]any{
		"startTime": st.Start, "serverTime": s.opt.Now().UTC(), "reloadConfigSuccess": st.Reload.OK,
		"lastConfigTime": st.Reload.Success, "lastReloadError": st.Reload.Error, "goroutineCount": runtime.NumGoroutine(),
		"GOMAXPROCS": runtime.GOMAXPROCS(0), "stateSaved": st.Saved, "stateSaveErrors": st.SaveErrors, "storagePath": st.Storage,
	}
}

func open(e episodes.Episode) bool {
	return e.State == episodes.StateFiring || e.State == episodes.StatePending
}

// stated is nil for the zero time.
func stated(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func notNilMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func writeData(w http.ResponseWriter, data any) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "success", "data": data})
}

func writeError(w http.ResponseWriter, code int, kind, message string) {
	writeJSON(w, code, map[string]any{"status": "error", "errorType": kind, "error": message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the reader may be gone
}
