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

// Bounds of a silence.
const (
	maxAuthor    = 100  // characters
	maxComment   = 1000 // characters
	maxSilenceIn = 64 << 10
	silenceTime  = 25 * time.Second // time for all Alertmanagers together
)

// silenceFor are the durations that the form offers.
var silenceFor = []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, day, 3 * day, 7 * day}

// defaultSilence is how long a silence lasts unless the person chooses.
const defaultSilence = 2 * time.Hour

// Silence is a silence of the alerts that have all of its labels.
type Silence struct {
	Labels          map[string]string
	Start, End      time.Time
	Author, Comment string
}

// Silenced is what one cluster of Alertmanagers answered.
type Silenced struct {
	Receiver string // the member that answered, or the name of the sink
	ID       string // ID of the silence
	Error    string // "": it was made
}

// silenceData is what the page that makes a silence shows.
type silenceData struct {
	episodes.Episode
	Labels          []silenceLabel
	Durations       []time.Duration
	For             time.Duration
	Author, Comment string
	Error           string
	Done            []Silenced
	Until           time.Time
	Alertmanager    string // address of its pages; "": not known
}

// silenceLabel is a label that the silence may demand.
type silenceLabel struct {
	pair
	Chosen, Fixed bool
}

// makesSilences reports whether the pages make silences themselves.
func (s *Server) makesSilences() bool { return s.opt.Silence != nil && s.view.Links().Silences }

// silenceForm prepares the page; it serves an error and returns false if there is nothing to
// silence.
func (s *Server) silenceForm(w http.ResponseWriter, r *http.Request) (silenceData, bool) {
	e, ok := s.find(r.PathValue("fingerprint"))
	switch {
	case !s.makesSilences():
		s.fail(w, http.StatusForbidden, "Not allowed", "These pages make no silences: the configuration does not have web: {silences: true}.")
		return silenceData{}, false
	case !ok || !open(e) || e.Silent:
		s.fail(w, http.StatusNotFound, "Not found", "This alert is not open, or is not sent: there is nothing to silence.")
		return silenceData{}, false
	}
	data := silenceData{Episode: e, Durations: silenceFor, For: defaultSilence, Alertmanager: safeLink(s.view.Links().Alertmanager)}
	for _, p := range pairs(s.sentLabels(e)) {
		data.Labels = append(data.Labels, silenceLabel{p, true, p.Name == "alertname"})
	}
	slices.SortStableFunc(data.Labels, func(a, b silenceLabel) int { return -compareBool(a.Fixed, b.Fixed) })
	return data, true
}

func (s *Server) silencePage(w http.ResponseWriter, r *http.Request) {
	if data, ok := s.silenceForm(w, r); ok {
		s.render(w, "silence", http.StatusOK, page{Title: "Silence " + data.Alert, Path: "/", Data: data})
	}
}

// makeSilence makes the silence of a form. The form only names labels: their values are those
// of the alert. Requests from other sites do not reach it.
func (s *Server) makeSilence(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSilenceIn)
	if err := r.ParseForm(); err != nil {
		s.fail(w, http.StatusBadRequest, "Not understood", "The form could not be read, or is too large.")
		return
	}
	data, ok := s.silenceForm(w, r)
	if !ok {
		return
	}
	silence, err := data.read(r.PostForm, s.opt.Now().UTC())
	code := http.StatusOK
	if err != nil {
		data.Error, code = err.Error(), http.StatusBadRequest
	} else {
		select {
		case s.silence <- struct{}{}:
			defer func() { <-s.silence }()
		default:
			busy(w)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), silenceTime)
		defer cancel()
		data.Done, data.Until = s.opt.Silence(ctx, silence), silence.End
		if data.failed() {
			code = http.StatusBadGateway
		}
		s.opt.Log.Info().Str("author", silence.Author).Str("alert", data.Alert).Str("fingerprint", data.Fingerprint.String()).
			Time("until", silence.End).Bool("made", !data.failed()).Msg("silence from the pages")
	}
	s.render(w, "silence", code, page{Title: "Silence " + data.Alert, Path: "/", Data: data})
}

// failed reports whether no Alertmanager made the silence.
func (d *silenceData) failed() bool {
	return !slices.ContainsFunc(d.Done, func(x Silenced) bool { return x.Error == "" })
}

// read takes the values of the form, which the page shows again, and returns the silence.
func (d *silenceData) read(form map[string][]string, now time.Time) (Silence, error) {
	get := func(name string) string {
		if v := form[name]; len(v) > 0 {
			return strings.TrimSpace(tame(v[0]))
		}
		return ""
	}
	d.Author, d.Comment = get("author"), get("comment")
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
		return out, fmt.Errorf("write why, in at most %d characters", maxComment)
	case out.Labels["alertname"] == "":
		return out, errors.New("the alert has no label alertname")
	}
	return out, nil
}

// At returns the address of a silence on the pages of Alertmanager.
func (d silenceData) At(id string) string {
	return strings.TrimSuffix(d.Alertmanager, "/") + "/#/silences/" + encoded(id)
}

// silenceSpan formats a duration of the form.
func silenceSpan(d time.Duration) string {
	if d%day == 0 {
		n := int64(d / day)
		return fmt.Sprintf("%d %s", n, plural(n, "day"))
	}
	n := int64(d / time.Hour)
	return fmt.Sprintf("%d %s", n, plural(n, "hour"))
}
