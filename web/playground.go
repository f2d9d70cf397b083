package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
	"crowsnest/rules"
	sel "crowsnest/rules/selector"
)

// Bounds of the playground.
const (
	maxPlayRules = 64 << 10 // bytes of the rules
	maxPlayLines = 64 << 10 // bytes of the lines
	maxPlayCount = 100      // lines, and explanations of one line
	maxPlayTime  = 3 * time.Second
	maxPlayTests = time.Second                     // estimated CPU time of the tests
	maxPlayBody  = 3*maxPlayRules + 3*maxPlayLines // encoded
	maxPlayers   = 4                               // requests that are read or wait
)

// TestOutcome is the result of one inline test of a rule.
type TestOutcome struct {
	Rule     string   `json:"rule"`
	Test     string   `json:"test"`
	Failures []string `json:"failures"` // empty: it passed
}

// PlayRequest is what someone tries: rules in YAML, as a pack or as a list of rules, and lines
// of one stream.
type PlayRequest struct {
	Rules  string `json:"rules"`
	Lines  string `json:"lines"`
	Labels string `json:"labels"` // a selector with =, such as {namespace="a"}
}

// PlayResult says what the rules do with the lines. Nothing of it is stored.
type PlayResult struct {
	Problems []string      `json:"problems"` // of the rules
	Lines    []PlayLine    `json:"lines"`
	Tests    []TestOutcome `json:"tests"`
	// Omitted counts lines beyond the bound.
	Omitted int `json:"omitted,omitempty"`
}

// PlayLine is what the rules do with one line.
type PlayLine struct {
	Line         string                `json:"line"`
	Matches      []string              `json:"matches"` // rules
	Explanations []matcher.Explanation `json:"explanations"`
}

// player tries rules, one request at a time: a second one waits until the first has ended,
// even if nobody waits for that any longer.
type player struct {
	admit chan struct{}
	turn  chan struct{}
	tests func([]*rules.Rule) ([]TestOutcome, error)
}

var errPlayBusy = errors.New("the playground is busy; try again in some seconds")

// try tries rules. It returns errors that are for people.
func (p *player) try(done <-chan struct{}, req PlayRequest) (PlayResult, error) {
	if len(req.Rules) > maxPlayRules || len(req.Lines) > maxPlayLines || len(req.Labels) > maxFilters {
		return PlayResult{}, fmt.Errorf("there are more than %d KiB of rules, more than %d KiB of lines, or more than %d KiB of labels", maxPlayRules>>10, maxPlayLines>>10, maxFilters>>10)
	}
	timeout := time.NewTimer(maxPlayTime)
	defer timeout.Stop()
	select {
	case p.turn <- struct{}{}:
	case <-timeout.C:
		return PlayResult{}, errPlayBusy
	case <-done:
		return PlayResult{}, errPlayBusy
	}
	type outcome struct {
		result PlayResult
		err    error
	}
	out := make(chan outcome, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				out <- outcome{err: fmt.Errorf("crowsnest failed because of a defect: %.200v", v)}
			}
			<-p.turn
		}()
		r, err := p.run(req)
		out <- outcome{r, err}
	}()
	select {
	case o := <-out:
		return o.result, o.err
	case <-timeout.C:
		return PlayResult{}, fmt.Errorf("this takes longer than %s; try fewer lines, or `crowsnest test rules` on your machine", maxPlayTime)
	}
}

func (p *player) run(req PlayRequest) (PlayResult, error) {
	out := PlayResult{Problems: []string{}, Lines: []PlayLine{}, Tests: []TestOutcome{}}
	labels, err := playLabels(req.Labels)
	if err != nil {
		return out, err
	}
	set, problems := buildPlay(req.Rules)
	out.Problems = append(out.Problems, problems...)
	if set == nil {
		return out, nil
	}
	for line := range strings.SplitSeq(strings.TrimRight(req.Lines, "\r\n"), "\n") {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) == "" {
			continue
		}
		if len(out.Lines) == maxPlayCount {
			out.Omitted++
			continue
		}
		out.Lines = append(out.Lines, explainPlay(set, labels, line))
	}
	if rules.TestTime(set.Rules) > maxPlayTests {
		out.Problems = append(out.Problems, "the tests were not run: they may take too long here; use `crowsnest test rules` on your machine")
		return out, nil
	}
	if p.tests != nil {
		results, err := p.tests(set.Rules)
		if err != nil {
			return out, err
		}
		out.Tests = append(out.Tests, results...)
	}
	return out, nil
}

func explainPlay(set *rules.Set, labels matcher.Labels, line string) PlayLine {
	out := PlayLine{Line: tame(line), Matches: []string{}, Explanations: []matcher.Explanation{}}
	for _, r := range set.Rules {
		e := matcher.Explain(r, labels, []byte(line))
		if e.Matches() {
			out.Matches = append(out.Matches, r.Alert)
		}
		if len(out.Explanations) < maxPlayCount {
			out.Explanations = append(out.Explanations, e)
		}
	}
	return out
}

// playLabels reads the labels of the stream.
func playLabels(text string) (matcher.Labels, error) {
	out := matcher.Labels{}
	if text = strings.TrimSpace(text); text == "" {
		return out, nil
	}
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	from, err := sel.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("labels: %w; write them like {namespace=\"team-a\",container=\"manager\"}", err)
	}
	for _, m := range from.Matchers() {
		if m.Op != sel.Equal {
			return nil, fmt.Errorf("labels: %s is not a value; write %s=\"...\"", m, m.Name)
		}
		out[m.Name] = m.Value
	}
	return out, nil
}

// listOfRules matches a text that begins with a rule and not with a pack.
var listOfRules = lazyre.New(`^(\s*(#.*)?\n)*\s*- `)

const playPack = "pack: {name: playground, version: 0.0.0}\nrules:\n"

// buildPlay builds rules; nil if they have errors.
func buildPlay(text string) (*rules.Set, []string) {
	shift := 0
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if listOfRules.MatchString(text) {
		text, shift = playPack+text, strings.Count(playPack, "\n")
	}
	doc, problems := rules.Parse(rules.File{Name: "rules", Data: []byte(text)})
	var set *rules.Set
	if len(problems.Errors()) == 0 {
		set, problems = rules.Build([]*rules.Document{doc}, rules.Options{})
	}
	var out []string
	for _, p := range problems {
		if p.Line > 0 {
			p.Line = max(1, p.Line-shift)
		}
		out = append(out, tame(p.String()))
	}
	if len(problems.Errors()) > 0 {
		set = nil
	}
	return set, out
}

// playData is what the page of the playground shows.
type playData struct {
	PlayRequest
	Result *PlayResult
	Error  string
}

// playPage serves the form, with a rule that the address names.
func (s *Server) playPage(w http.ResponseWriter, r *http.Request) {
	data := playData{}
	if full := s.view.Rules().Set.Rule(r.URL.Query().Get("rule")); full != nil {
		data.Rules, data.Labels = full.Source, full.From.String()
		if _, err := playLabels(data.Labels); err != nil {
			data.Labels = ""
		}
		for _, t := range full.Tests { // shipped rules are loaded without theirs
			for _, in := range t.Input {
				if len(data.Lines) < 2<<10 && in.Text != "" {
					data.Lines += strings.ReplaceAll(in.Text, "{{ $value }}", "1") + "\n" // of a repeated line
				}
			}
		}
	}
	s.render(w, "playground", http.StatusOK, page{Title: "Playground", Path: "/playground", Data: data})
}

// admitted bounds how many requests the playground reads at the same time, and their size.
func (s *Server) admitted(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.player.admit <- struct{}{}:
			defer func() { <-s.player.admit }()
			r.Body = http.MaxBytesReader(w, r.Body, maxPlayBody)
			h(w, r)
		default:
			busy(w)
		}
	}
}

// play tries what a form has. It is not shared between requests, and stores nothing.
func (s *Server) play(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, http.StatusBadRequest, "Not understood", "The form could not be read, or is too large.")
		return
	}
	data := playData{PlayRequest: PlayRequest{Rules: r.PostForm.Get("rules"), Lines: r.PostForm.Get("lines"), Labels: r.PostForm.Get("labels")}}
	code := http.StatusOK
	result, err := s.player.try(r.Context().Done(), data.PlayRequest)
	if err != nil {
		data.Error, code = tame(err.Error()), http.StatusBadRequest
	} else {
		data.Result = &result
	}
	s.render(w, "playground", code, page{Title: "Playground", Path: "/playground", Data: data})
}

// apiPlay does the same for programs.
func (s *Server) apiPlay(w http.ResponseWriter, r *http.Request) {
	var req PlayRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		writeError(w, &apiError{http.StatusBadRequest, "bad_data", "the body is not a JSON object with rules, lines and labels"})
		return
	}
	result, err := s.player.try(r.Context().Done(), req)
	switch {
	case errors.Is(err, errPlayBusy):
		busy(w)
	case err != nil:
		writeError(w, &apiError{http.StatusBadRequest, "bad_data", err.Error()})
	default:
		writeData(w, result)
	}
}
