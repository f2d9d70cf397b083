package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/episodes"
)

// Limits for creating a silence.
const (
	maxAuthor    = 100  // maximum length in characters
	maxComment   = 1000 // maximum length in characters
	maxSilenceIn = 64 << 10
	silenceTime  = 25 * time.Second // time limit for the requests to all Alertmanagers together
	minSilence   = time.Hour
	maxSilence   = 7 * day
)

// silenceFor contains the durations that the form offers.
var silenceFor = []time.Duration{minSilence, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, day, 3 * day, maxSilence}

// defaultSilence is the duration of a silence if the person chooses none.
const defaultSilence = 2 * time.Hour

// Silence is a silence for the alerts that have all its labels.
type Silence struct {
	Labels          map[string]string
	Start, End      time.Time
	Author, Comment string
}

// Silenced is the answer of one cluster of Alertmanagers to a new silence.
type Silenced struct {
	Receiver string // name of the member that answered, or of the sink
	ID       string // ID of the new silence
	Error    string // reason why no silence was created; empty if one was
}

// silenceData is the data of the page for creating a silence.
type silenceData struct {
	episodes.Episode
	Labels          []silenceLabel
	Durations       []time.Duration
	For             time.Duration
	Author, Comment string
	Identified      bool // whether a trusted proxy named the author, so that the author cannot be edited
	Error           string
	Results         []Silenced
	Until           time.Time
	Alertmanager    string // address of Alertmanager's pages; empty if it is not known
}

// silenceLabel is a label of the alert that the person can select as a matcher of the silence.
type silenceLabel struct {
	pair
	Chosen, Fixed bool
}

// makesSilences reports whether the pages can create silences.
func (s *Server) makesSilences() bool { return s.opt.Silence != nil && s.view.Links().Silences }

// silenceForm prepares the data of the page. If there is no alert to silence, it serves an error and returns false.
func (s *Server) silenceForm(w http.ResponseWriter, r *http.Request) (silenceData, bool) {
	e, ok := s.findEpisode(r.PathValue("fingerprint"))
	switch {
	case !s.makesSilences():
		s.serveError(w, http.StatusForbidden, "Not allowed", "These pages cannot create silences: the configuration does not have web: {silences: true}.")
		return silenceData{}, false
	case !ok || !isEpisodeOpen(e) || e.Silent:
		s.serveError(w, http.StatusNotFound, "Not found", "This alert is not open, or is not sent: there is nothing to silence.")
		return silenceData{}, false
	}
	data := silenceData{Episode: e, Durations: silenceFor, For: defaultSilence, Alertmanager: safeLink(s.view.Links().Alertmanager)}
	data.Author = s.userName(r)
	data.Identified = data.Author != ""
	for _, p := range labelPairs(s.sentLabels(e)) {
		data.Labels = append(data.Labels, silenceLabel{p, true, p.Name == "alertname"})
	}
	slices.SortStableFunc(data.Labels, func(a, b silenceLabel) int { return boolRank(b.Fixed) - boolRank(a.Fixed) })
	return data, true
}

func (s *Server) silencePage(w http.ResponseWriter, r *http.Request) {
	if data, ok := s.silenceForm(w, r); ok {
		s.renderPage(w, "silence", http.StatusOK, page{Title: "Silence " + data.Alert, Path: "/", Data: data})
	}
}

// makeSilence creates the silence that a form describes. The form contains only names of labels; their values are those
// of the alert. guardRequests refuses requests from other sites before they reach this handler.
func (s *Server) makeSilence(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSilenceIn)
	if err := r.ParseForm(); err != nil {
		s.serveError(w, http.StatusBadRequest, "Not understood", "The form could not be read, or is too large.")
		return
	}
	data, ok := s.silenceForm(w, r)
	if !ok {
		return
	}
	silence, err := data.readForm(r.PostForm, s.opt.Now().UTC())
	code := http.StatusOK
	if err != nil {
		data.Error, code = err.Error(), http.StatusBadRequest
	} else {
		select {
		case s.silence <- struct{}{}:
			defer func() { <-s.silence }()
		default:
			serveBusy(w)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), silenceTime)
		defer cancel()
		data.Results, data.Until = s.opt.Silence(ctx, silence), silence.End
		if data.hasFailed() {
			code = http.StatusBadGateway
		}
		s.opt.Log.Info().Str("author", silence.Author).Bool("identified", data.Identified).Str("alert", data.Alert).Str("fingerprint", data.Fingerprint.String()).
			Time("until", silence.End).Bool("made", !data.hasFailed()).Msg("silence from the pages")
	}
	s.renderPage(w, "silence", code, page{Title: "Silence " + data.Alert, Path: "/", Data: data})
}

// hasFailed reports whether no Alertmanager created the silence.
func (d *silenceData) hasFailed() bool {
	return !slices.ContainsFunc(d.Results, func(x Silenced) bool { return x.Error == "" })
}

// readForm stores the values of the form in d, so that the page shows them again, and returns the silence that they
// describe.
func (d *silenceData) readForm(form map[string][]string, now time.Time) (Silence, error) {
	get := func(name string) string {
		if v := form[name]; len(v) > 0 {
			return strings.TrimSpace(tameText(v[0]))
		}
		return ""
	}
	d.Comment = get("comment")
	if !d.Identified {
		d.Author = get("author")
	}
	out := Silence{Labels: map[string]string{}, Author: d.Author, Comment: d.Comment, Start: now}
	for i := range d.Labels {
		l := &d.Labels[i]
		if l.Chosen = l.Fixed || slices.Contains(form["label"], l.Name); l.Chosen {
			out.Labels[l.Name] = l.Value
		}
	}
	chosen, err := time.ParseDuration(get("for"))
	if err != nil || !slices.Contains(silenceFor, chosen) {
		return out, errors.New("choose how long the silence lasts")
	}
	d.For, out.End = chosen, now.Add(chosen)
	switch {
	case d.Author == "" || utf8.RuneCountInString(d.Author) > maxAuthor:
		return out, fmt.Errorf("write your name, in at most %d characters", maxAuthor)
	case d.Comment == "" || utf8.RuneCountInString(d.Comment) > maxComment:
		return out, fmt.Errorf("give the reason for the silence, in at most %d characters", maxComment)
	case out.Labels["alertname"] == "":
		return out, errors.New("the alert has no label alertname")
	}
	return out, nil
}

// SilenceAddress returns the address of the silence with this ID on the pages of Alertmanager.
func (d silenceData) SilenceAddress(id string) string {
	return strings.TrimSuffix(d.Alertmanager, "/") + "/#/silences/" + percentEncode(id)
}

// silenceSpan formats a duration for the form.
func silenceSpan(d time.Duration) string {
	if d%day == 0 {
		n := int64(d / day)
		return fmt.Sprintf("%d %s", n, pluralWord(n, "day"))
	}
	n := int64(d / time.Hour)
	return fmt.Sprintf("%d %s", n, pluralWord(n, "hour"))
}
