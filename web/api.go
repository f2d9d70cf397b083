package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/redact"
	"crowsnest/rules"
)

type apiError struct {
	code       int
	kind, text string
}

func notFound(text string) *apiError { return &apiError{http.StatusNotFound, "not_found", text} }

func badData(text string) *apiError { return &apiError{http.StatusBadRequest, "bad_data", text} }

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
		mux.HandleFunc(v1+path, s.gate.guardHandler(plain))
		s.inner.HandleFunc(v1+path, plain)
	}
	filtered := func(answer func([]episodes.Episode) any) func(*http.Request) (any, *apiError) {
		return func(r *http.Request) (any, *apiError) {
			eps, err := s.filteredEpisodes(r)
			if err != nil {
				return nil, badData(err.Error())
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
	mux.HandleFunc(v1+"stream", s.serveStream)
	mux.HandleFunc("POST /api/v1/scan", s.limitReading(s.scanner.admit, s.apiScan))
	handle("rules", func(*http.Request) (any, *apiError) { return Groups{s.ruleGroups()}, nil })
	handle("unknown", func(*http.Request) (any, *apiError) { return s.view.Unknown(), nil })
	handle("unknown/{fingerprint}/rule", s.apiUnknownRule)
	handle("sources", func(*http.Request) (any, *apiError) {
		return SourceList{notNil(s.listSources()), notNil(s.listEndpoints()), s.view.Status().Discoveries}, nil
	})
	status := func(path string, data func() any) {
		mux.HandleFunc(v1+"status/"+path, func(w http.ResponseWriter, _ *http.Request) { writeData(w, data()) })
	}
	status("buildinfo", func() any { return buildInfo() })
	status("config", func() any { return ConfigYAML{s.view.Status().Config} })
	status("flags", func() any { return notNilMap(s.view.Status().Flags) })
	status("runtimeinfo", func() any { return s.runtimeInfo() })
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
		if isEpisodeOpen(e) && !e.Silent {
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
	// External is the fingerprint of the labels including the external ones, as Alertmanager
	// knows the alert. It is absent if it equals Fingerprint. Requests accept both.
	External    string            `json:"externalFingerprint,omitempty"`
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Held        bool              `json:"held,omitempty"`
	WaitsFor    []string          `json:"waitsFor,omitempty"` // sources without progress, while the episode is on hold
	Waits       []Wait            `json:"waits,omitempty"`    // parts that are waited for, while the episode is on hold
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
	Cause       *Cause            `json:"cause,omitempty"`    // the alert that caused this one
	Symptoms    []string          `json:"symptoms,omitempty"` // fingerprints of its open symptoms
	Seen        *Seen             `json:"seen,omitempty"`     // absent if no earlier episode is remembered
	// Suppressed is the reason why Alertmanager notifies nobody of the alert, or why it notified nobody when the
	// episode ended. It is absent if Alertmanager notifies somebody, or if this is not known.
	Suppressed *history.Suppression `json:"suppressed,omitempty"`
}

func toEpisode(e episodes.Episode) Episode {
	out := Episode{
		Fingerprint: e.Fingerprint.String(), External: externalFingerprint(e.Fingerprint, e.Labels),
		Alert: e.Alert, State: e.State, Reason: e.Reason, Silent: e.Silent,
		Overflow: e.Overflow, Held: e.OnHold, WaitsFor: e.WaitsFor, Waits: toWaits(e.AwaitedParts), Labels: e.Labels, Annotations: notNilMap(e.Annotations),
		StartsAt: e.StartsAt, FiredAt: optionalTime(e.FiredAt), LastSeen: e.LastSeen, EndsAt: optionalTime(e.EndsAt),
		Deadline: optionalTime(e.Deadline), Count: e.Count, Line: e.Line, First: e.FirstLine, Cause: toCause(e.Cause),
	}
	if e.Rule != nil {
		out.Pack = e.Rule.Pack
	}
	return out
}

// Wait is a part of a rule for whose lines a conclusion about an episode waits.
type Wait struct {
	Part    string `json:"part"`    // match, sequence_2, clear or unless
	Streams string `json:"streams"` // selector of the streams that the part reads
	// Sources are the sources of these streams that make no progress. It is absent if no source
	// reads the streams.
	Sources []string `json:"sources,omitempty"`
}

func toWaits(all []episodes.AwaitedPart) (out []Wait) {
	for _, w := range all {
		out = append(out, Wait{w.Part, w.Selector, w.Sources})
	}
	return out
}

func (s *Server) apiEpisodes(eps []episodes.Episode) any {
	out := make([]Episode, len(eps))
	symptoms := symptomsByCause(s.view.Episodes())
	for i, e := range eps {
		out[i] = s.newEpisode(e, symptoms)
	}
	return Episodes{out}
}

func (s *Server) newEpisode(e episodes.Episode, symptoms map[episodes.Fingerprint][]episodes.Episode) Episode {
	out := toEpisode(e)
	out.Seen, out.Suppressed = s.earlierEpisodes(&e), s.suppression(&e)
	if out.EndsAt == nil {
		for _, x := range symptoms[e.Fingerprint] {
			out.Symptoms = append(out.Symptoms, x.Fingerprint.String())
		}
	}
	return out
}

func (s *Server) apiEpisode(r *http.Request) (any, *apiError) {
	e, ok := s.findEpisode(r.PathValue("fingerprint"))
	if !ok {
		return nil, notFound("no episode that is open or remembered has this fingerprint")
	}
	deliveries := s.view.Deliveries(e.Fingerprint)
	return EpisodeDetail{
		s.newEpisode(e, symptomsByCause(s.view.Episodes())), newestAnswers(deliveries), staleReceivers(deliveries),
		s.episodeActions(e), s.perMinute(episodeSeries(e.Fingerprint.String())),
	}, nil
}

// PerMinute has the number of lines in each minute since a time. The last minute is incomplete.
type PerMinute struct {
	From   time.Time `json:"from"`
	Counts []uint32  `json:"counts"`
}

func (s *Server) perMinute(name string) *PerMinute {
	counts, from := s.samples.perMinute(name)
	if len(counts) == 0 {
		return nil
	}
	return &PerMinute{from, counts}
}

// fetchData returns the data of an API endpoint without an HTTP connection, and without the limits of the gate.
func (s *Server) fetchData(path string) ([]byte, error) {
	return fetchFrom(context.Background(), s.inner, path)
}

func fetchFrom(ctx context.Context, api http.Handler, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/"+path, nil)
	if err != nil {
		return nil, err
	}
	a := &answer{head: http.Header{}}
	api.ServeHTTP(a, r)
	var envelope struct {
		Data  json.RawMessage `json:"data"`
		Error string          `json:"error"`
	}
	if a.code == http.StatusServiceUnavailable { // the gate answers with a text for people
		return nil, errors.New(strings.TrimSpace(a.body.String()))
	}
	if err := json.Unmarshal(a.body.Bytes(), &envelope); err != nil {
		return nil, err
	}
	if a.code != http.StatusOK {
		return nil, errors.New(envelope.Error)
	}
	return envelope.Data, nil
}

func (s *Server) listEndpoints() []Endpoint {
	all := s.view.Endpoints()
	for i := range all {
		all[i].DownSince = optionalTime(s.samples.downSince(all[i]))
	}
	return all
}

// listSources returns the sources with their rates, and with the number of rules of each stream.
func (s *Server) listSources() []Source {
	all := s.view.Sources()
	for i := range all {
		if n, ok := s.samples.perSecond(sourceSeries(all[i].Name)); ok {
			all[i].LinesPerSecond = &n
		}
	}
	return newCoverage(s.view.Rules().Set, all, s.opt.Now()).countRules(all)
}

// findEpisode returns the newest episode with this fingerprint. The fingerprint may include external labels of a
// receiver. findEpisode prefers an open episode, then a recently ended one, then one of the history.
func (s *Server) findEpisode(fingerprint string) (episodes.Episode, bool) {
	var found episodes.Episode
	of, ok := s.resolveFingerprint(fingerprint)
	if !ok {
		return found, false
	}
	ok = false
	for _, e := range s.view.Episodes() {
		if e.Fingerprint == of && (!ok || isEpisodeOpen(e) || (!isEpisodeOpen(found) && e.EndsAt.After(found.EndsAt))) {
			found, ok = e, true
		}
	}
	if past := s.view.PastEpisodes(of); !ok && len(past) > 0 {
		return pastEpisode(past[0], s.view.Rules().Set, externalLabels(s.view)), true
	}
	return found, ok
}

// Group is a pack in the format of a rule group in Prometheus' API.
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
	// Froms are the selectors of parts that differ from From. The key is the part.
	Froms     map[string]string `json:"froms,omitempty"`
	Origin    rules.Origin      `json:"origin"`   // the lines that the rule trusts
	Duration  float64           `json:"duration"` // `for` or `silent` in seconds
	Matches   int64             `json:"matches"`
	LastMatch *time.Time        `json:"lastMatch,omitempty"`
	// PerMinute has the matches of the last hour, if there were any.
	PerMinute   *PerMinute `json:"perMinute,omitempty"`
	LastSeen    *time.Time `json:"lastSeenLine,omitempty"`
	Streams     int        `json:"streams"`           // number of followed streams to which the rule applies
	Evaluations int64      `json:"tries"`             // estimated number of lines on which a part of the rule was tried
	Seconds     float64    `json:"evaluationSeconds"` // total time of these evaluations in seconds
	// Quarantined is the reason why the rule is no longer evaluated.
	Quarantined string `json:"givenUp,omitempty"`
	WaitReason  string `json:"waits,omitempty"`    // reason why absence-based conclusions are on hold
	Disabled    string `json:"disabled,omitempty"` // reason why the rule is off, if one is stated
	Pending     int    `json:"pending"`
	Firing      int    `json:"firing"`
	Armed       *int   `json:"armed,omitempty"` // number of keys whose silence raises an alert; absent if the rule has no `silent`
	Source      string `json:"source"`
	// SymptomOf are the rules whose failures cause failures of this rule. Causing are the rules
	// that are symptoms of this rule.
	SymptomOf []SymptomOf `json:"symptomOf,omitempty"`
	Causing   []string    `json:"causing,omitempty"`
	Line      int         `json:"line,omitempty"` // line in the pack's file
	Runbook   string      `json:"runbookURL,omitempty"`
	Affects   []Affected  `json:"affects,omitempty"`
	Verified  []Verified  `json:"verified,omitempty"`
	// SetBy states where each value was set. The key is the key of the rule.
	SetBy map[string]string `json:"setBy,omitempty"`
}

func (s *Server) ruleGroups() []Group {
	loaded := s.view.Rules()
	status := map[string]episodes.RuleStatus{}
	for _, st := range s.view.Stats().Rules {
		status[st.Rule.Alert] = st
	}
	broken := map[string]string{} // reason why a pack was refused; the key is the file
	for _, b := range loaded.Broken {
		broken[b.File] = b.Error
	}
	out := []Group{}
	symptoms := causesBySymptom(loaded.Set)
	covered := newCoverage(loaded.Set, s.view.Sources(), s.opt.Now())
	for _, p := range loaded.Set.Packs {
		g := Group{Name: p.Name, File: p.File, Version: p.Version, SHA256: p.SHA256, Broken: broken[p.File], Rules: []Rule{}}
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
		if !slices.ContainsFunc(loaded.Set.Packs, func(p *rules.Pack) bool { return p.File == b.File }) { // there is no last valid version
			out = append(out, Group{Name: b.Pack, File: b.File, Broken: b.Error, Rules: []Rule{}})
		}
	}
	return out
}

func toRule(r *rules.Rule, st episodes.RuleStatus, loaded Rules, covered coverage) Rule {
	seen := loaded.LastLines[r.Alert]
	out := Rule{
		Name: r.Alert, Type: "alerting", State: "inactive", Severity: r.Severity, Mode: r.Mode, Scope: r.Scope,
		From: r.From.String(), Froms: r.OwnSelectors(), Origin: r.LineOrigin(), Duration: (r.For + r.Silent).Seconds(), Matches: st.Matches, LastMatch: optionalTime(st.LastMatch),
		LastSeen: optionalTime(seen), Streams: covered.streams[r.Alert], Evaluations: loaded.Evaluations[r.Alert], Seconds: loaded.Cost[r.Alert].Seconds(),
		Quarantined: loaded.Quarantined[r.Alert], WaitReason: loaded.WaitReasons[r.Alert],
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
		out.Health = covered.ruleHealth(r, seen)
	}
	return out
}

func isEpisodeOpen(e episodes.Episode) bool {
	return e.State == episodes.StateFiring || e.State == episodes.StatePending
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
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
