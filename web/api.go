package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/rules"
)

type apiError struct {
	code       int
	kind, text string
}

func notFound(text string) *apiError { return &apiError{http.StatusNotFound, "not_found", text} }

func (s *Server) routeAPI(mux *router) {
	const v1 = "GET /api/v1/"
	handle := func(path string, answer func(r *http.Request) (any, *apiError)) {
		plain := func(w http.ResponseWriter, r *http.Request) {
			if data, err := answer(r); err != nil {
				writeError(w, err)
			} else {
				writeData(w, data)
			}
		}
		mux.HandleFunc(v1+path, s.gate.guarded(plain))
		s.inner.HandleFunc(v1+path, plain)
	}
	filtered := func(answer func([]episodes.Episode) any) func(*http.Request) (any, *apiError) {
		return func(r *http.Request) (any, *apiError) {
			eps, err := s.filtered(r)
			if err != nil {
				return nil, &apiError{http.StatusBadRequest, "bad_data", err.Error()}
			}
			return answer(eps), nil
		}
	}
	handle("alerts", filtered(apiAlerts))
	handle("episodes", filtered(s.apiEpisodes))
	handle("episodes/{fingerprint}", s.apiEpisode)
	handle("episodes/{fingerprint}/timeline", s.apiTimeline)
	handle("history", s.apiHistory)
	handle("counts", s.apiCounts)
	handle("runbooks/{name}", s.apiRunbook)
	mux.HandleFunc(v1+"stream", s.stream)
	mux.HandleFunc("POST /api/v1/scan", s.admitted(s.apiScan))
	handle("rules", func(*http.Request) (any, *apiError) { return Groups{s.groups()}, nil })
	handle("unknown", func(*http.Request) (any, *apiError) { return s.view.Unknown(), nil })
	handle("unknown/{fingerprint}/rule", s.apiUnknownRule)
	handle("sources", func(*http.Request) (any, *apiError) {
		return SourceList{notNil(s.sources()), notNil(s.endpoints())}, nil
	})
	mux.HandleFunc(v1+"status/buildinfo", func(w http.ResponseWriter, _ *http.Request) { writeData(w, buildInfo()) })
	mux.HandleFunc(v1+"status/config", func(w http.ResponseWriter, _ *http.Request) {
		writeData(w, ConfigYAML{s.view.Status().Config})
	})
	mux.HandleFunc(v1+"status/flags", func(w http.ResponseWriter, _ *http.Request) { writeData(w, notNilMap(s.view.Status().Flags)) })
	mux.HandleFunc(v1+"status/runtimeinfo", func(w http.ResponseWriter, _ *http.Request) { writeData(w, s.runtimeInfo()) })
	mux.HandleFunc(v1+"openapi.json", s.serveOpenAPI)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, notFound("no such endpoint: "+r.URL.Path))
	})
}

// Alert is an open alert in the format of Prometheus' API.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       episodes.State    `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

func apiAlerts(eps []episodes.Episode) any {
	alerts := []Alert{}
	for _, e := range eps {
		if open(e) && !e.Silent {
			alerts = append(alerts, Alert{
				Fingerprint: e.Fingerprint.String(),
				Labels:      e.Labels, Annotations: notNilMap(e.Annotations), State: e.State,
				ActiveAt: e.ActiveAt(), Value: strconv.FormatFloat(float64(e.Count), 'e', -1, 64),
			})
		}
	}
	return Alerts{alerts}
}

// Episode is an episode in the format of the API.
type Episode struct {
	Fingerprint string `json:"fingerprint"`
	// External is the fingerprint with the external labels, as Alertmanager knows the
	// alert; absent: it is Fingerprint. Requests accept both.
	External    string            `json:"externalFingerprint,omitempty"`
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Held        bool              `json:"held,omitempty"`
	WaitsFor    []string          `json:"waitsFor,omitempty"` // sources without progress, while held
	Waits       []Wait            `json:"waits,omitempty"`    // what is waited for, while held
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	FiredAt     *time.Time        `json:"firedAt,omitempty"`
	LastSeen    time.Time         `json:"lastSeen"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
	Deadline    *time.Time        `json:"deadline,omitempty"`
	Count       int64             `json:"count"`
	Line        redact.Text       `json:"line,omitempty"`
	First       redact.Text       `json:"firstLine,omitempty"`
	Cause       *Cause            `json:"cause,omitempty"`    // cause whose symptom the alert is
	Symptoms    []string          `json:"symptoms,omitempty"` // fingerprints of its open symptoms
	Seen        *Seen             `json:"seen,omitempty"`     // absent: no earlier episode is remembered
}

func toEpisode(e episodes.Episode) Episode {
	out := Episode{
		Fingerprint: e.Fingerprint.String(), External: externalFingerprint(e.Fingerprint, e.Labels),
		Alert: e.Alert, State: e.State, Reason: e.Reason, Silent: e.Silent,
		Overflow: e.Overflow, Held: e.OnHold, WaitsFor: e.WaitsFor, Waits: toWaits(e.Waits), Labels: e.Labels, Annotations: notNilMap(e.Annotations),
		StartsAt: e.StartsAt, FiredAt: optional(e.FiredAt), LastSeen: e.LastSeen, EndsAt: optional(e.EndsAt),
		Deadline: optional(e.Deadline), Count: e.Count, Line: e.Line, First: e.First, Cause: toCause(e.Cause),
	}
	if e.Rule != nil {
		out.Pack = e.Rule.Pack
	}
	return out
}

// Wait is a part of a rule that a conclusion about an episode waits for.
type Wait struct {
	Part    string `json:"part"`    // match, sequence_2, clear or unless
	Streams string `json:"streams"` // selector of those that it reads
	// Sources are those without progress; absent: no source reads the streams.
	Sources []string `json:"sources,omitempty"`
}

func toWaits(all []episodes.Wait) (out []Wait) {
	for _, w := range all {
		out = append(out, Wait{w.Part, w.From, w.Sources})
	}
	return out
}

func (s *Server) apiEpisodes(eps []episodes.Episode) any {
	out := make([]Episode, len(eps))
	symptoms := symptomsOf(s.view.Episodes())
	for i, e := range eps {
		out[i] = s.episode(e, symptoms)
	}
	return Episodes{out}
}

// episode returns an episode with its symptoms and how often it was seen before.
func (s *Server) episode(e episodes.Episode, symptoms map[episodes.Fingerprint][]episodes.Episode) Episode {
	out := toEpisode(e).with(symptoms[e.Fingerprint])
	out.Seen = s.seen(&e)
	return out
}

// with returns the episode with its symptoms.
func (e Episode) with(symptoms []episodes.Episode) Episode {
	if e.EndsAt == nil {
		for _, x := range symptoms {
			e.Symptoms = append(e.Symptoms, x.Fingerprint.String())
		}
	}
	return e
}

func (s *Server) apiEpisode(r *http.Request) (any, *apiError) {
	e, ok := s.find(r.PathValue("fingerprint"))
	if !ok {
		return nil, notFound("no episode that is open or remembered has this fingerprint")
	}
	deliveries := s.view.Deliveries(e.Fingerprint)
	return EpisodeDetail{
		s.episode(e, symptomsOf(s.view.Episodes())), newestAnswers(deliveries), undelivered(deliveries),
		s.actions(e), s.perMinute(episodeSeries(e.Fingerprint.String())),
	}, nil
}

// PerMinute is how many lines there were in each minute since a time. The last minute is
// incomplete.
type PerMinute struct {
	From   time.Time `json:"from"`
	Counts []uint32  `json:"counts"`
}

// perMinute returns the lines per minute in the last hour; nil if not known.
func (s *Server) perMinute(name string) *PerMinute {
	counts, from := s.samples.perMinute(name)
	if len(counts) == 0 {
		return nil
	}
	return &PerMinute{from, counts}
}

// data returns the data of an endpoint of the API to the server itself.
func (s *Server) data(path string) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, "/api/v1/"+path, nil) //nolint:noctx // nothing is sent
	if err != nil {
		return nil, err
	}
	a := &answer{head: http.Header{}}
	s.inner.ServeHTTP(a, r)
	var envelope struct {
		Data  json.RawMessage `json:"data"`
		Error string          `json:"error"`
	}
	if err := json.Unmarshal(a.body.Bytes(), &envelope); err != nil {
		return nil, err
	}
	if a.code != http.StatusOK {
		return nil, errors.New(envelope.Error)
	}
	return envelope.Data, nil
}

// endpoints returns the receivers with the times since when they are down.
func (s *Server) endpoints() []Endpoint {
	all := s.view.Endpoints()
	for i := range all {
		all[i].DownSince = optional(s.samples.downSince(all[i]))
	}
	return all
}

// sources returns the sources with the number of rules that apply to each stream, and their
// rates.
func (s *Server) sources() []Source {
	all := s.view.Sources()
	for i := range all {
		if n, ok := s.samples.perSecond(sourceSeries(all[i].Name)); ok {
			all[i].LinesPerSecond = &n
		}
	}
	return newCoverage(s.view.Rules().Set, all, s.opt.Now()).count(all)
}

// find returns the newest episode with a fingerprint, preferring an open one, and one that
// ended lately to one that is only in the history. The fingerprint may include the external
// labels of a receiver.
func (s *Server) find(fingerprint string) (episodes.Episode, bool) {
	var found episodes.Episode
	of, ok := s.identify(fingerprint)
	if !ok {
		return found, false
	}
	ok = false
	for _, e := range s.view.Episodes() {
		if e.Fingerprint == of && (!ok || open(e) || (!open(found) && e.EndsAt.After(found.EndsAt))) {
			found, ok = e, true
		}
	}
	if past := s.view.Past(of); !ok && len(past) > 0 {
		return remembered(past[0], s.view.Rules().Set, external(s.view)), true
	}
	return found, ok
}

// Group is a pack in the format of a rule group of Prometheus' API.
type Group struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256"`
	Broken  string `json:"broken,omitempty"`
	Rules   []Rule `json:"rules"`
}

// Rule is a rule in the format of the API.
type Rule struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"` // "alerting", as in Prometheus
	State    string         `json:"state"`
	Health   string         `json:"health"`
	Severity rules.Severity `json:"severity"`
	Mode     rules.Mode     `json:"mode"`
	Scope    rules.Scope    `json:"scope"`
	From     string         `json:"from"`
	// Froms are the selectors of the parts that differ from it, by part.
	Froms     map[string]string `json:"froms,omitempty"`
	Origin    rules.Origin      `json:"origin"`   // whose lines it trusts
	Duration  float64           `json:"duration"` // seconds of `for` or `silent`
	Matches   int64             `json:"matches"`
	LastMatch *time.Time        `json:"lastMatch,omitempty"`
	// PerMinute is the matches in the last hour, if there were any.
	PerMinute *PerMinute `json:"perMinute,omitempty"`
	LastSeen  *time.Time `json:"lastSeenLine,omitempty"`
	Streams   int        `json:"streams"`           // followed, that the rule applies to
	Tries     int64      `json:"tries"`             // lines on which a part of it was tried, estimated
	Seconds   float64    `json:"evaluationSeconds"` // total
	// Quarantined is why the rule is no longer evaluated.
	Quarantined string `json:"givenUp,omitempty"`
	Waits       string `json:"waits,omitempty"`    // why absence-based conclusions are on hold
	Disabled    string `json:"disabled,omitempty"` // why the rule is off, if a reason was given
	Pending     int    `json:"pending"`
	Firing      int    `json:"firing"`
	Armed       *int   `json:"armed,omitempty"` // keys whose silence raises an alert; absent: the rule has no `silent`
	Source      string `json:"source"`
	// SymptomOf are the rules whose failures cause those of this rule, and Causing the rules
	// that are symptoms of this one.
	SymptomOf []SymptomOf `json:"symptomOf,omitempty"`
	Causing   []string    `json:"causing,omitempty"`
	Line      int         `json:"line,omitempty"` // line in the file of the pack
	Runbook   string      `json:"runbookURL,omitempty"`
	Affects   []Affected  `json:"affects,omitempty"`
	Verified  []Verified  `json:"verified,omitempty"`
	// SetBy is where each value comes from, by key.
	SetBy map[string]string `json:"setBy,omitempty"`
}

// groups combines the loaded packs and rules with their state.
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
	symptoms := causing(loaded.Set)
	covered := newCoverage(loaded.Set, s.view.Sources(), s.opt.Now())
	for _, p := range loaded.Set.Packs {
		g := Group{Name: p.Name, File: p.File, Version: p.Version, SHA256: p.SHA256, Broken: broken[p.Name], Rules: []Rule{}}
		delete(broken, p.Name)
		for _, r := range p.Rules {
			rule := toRule(r, status[r.Alert], loaded, covered)
			rule.Causing = symptoms[r.Alert]
			if p := s.perMinute(ruleSeries(r.Alert)); p != nil && slices.Max(p.Counts) > 0 {
				rule.PerMinute = p
			}
			g.Rules = append(g.Rules, rule)
		}
		out = append(out, g)
	}
	for _, b := range loaded.Broken {
		if _, ok := broken[b.Pack]; ok { // a broken pack has no last good version
			out = append(out, Group{Name: b.Pack, Broken: b.Error, Rules: []Rule{}})
		}
	}
	return out
}

func toRule(r *rules.Rule, st episodes.RuleStatus, loaded Rules, covered coverage) Rule {
	seen := loaded.Seen[r.Alert]
	out := Rule{
		Name: r.Alert, Type: "alerting", State: "inactive", Severity: r.Severity, Mode: r.Mode, Scope: r.Scope,
		From: r.From.String(), Froms: r.OwnFroms(), Origin: r.LineOrigin(), Duration: (r.For + r.Silent).Seconds(), Matches: st.Matches, LastMatch: optional(st.LastMatch),
		LastSeen: optional(seen), Streams: covered.streams[r.Alert], Tries: loaded.Tries[r.Alert], Seconds: loaded.Cost[r.Alert].Seconds(),
		Quarantined: loaded.Quarantined[r.Alert], Waits: loaded.Waits[r.Alert],
		Disabled: r.Disabled, Pending: st.Pending, Firing: st.Firing, Source: r.Source,
		SymptomOf: toSymptomOf(r), Line: r.Line, Runbook: r.Remediation.RunbookURL,
		Affects: toAffected(r.Remediation.Affects), Verified: toVerified(r.Verified, loaded.Running), SetBy: r.SetBy(),
	}
	if r.Silent > 0 {
		out.Armed = &st.Armed
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
	case out.Quarantined != "":
		out.Health = "given_up"
	case st.Inactive:
		out.Health = "inactive"
	case st.OnHold:
		out.Health = "held"
	default:
		out.Health = covered.health(r, seen)
	}
	return out
}

func open(e episodes.Episode) bool {
	return e.State == episodes.StateFiring || e.State == episodes.StatePending
}

// optional returns nil for the zero time.
func optional(t time.Time) *time.Time {
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

func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.code, map[string]any{"status": "error", "errorType": e.kind, "error": e.text})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
