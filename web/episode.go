package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

type episodeData struct {
	episodes.Episode
	Where       string // labels of the alert as a matcher in Alertmanager's syntax
	Events      []Event
	Skipped     int
	Deliveries  []Delivery
	Undelivered []Delivery
	Symptoms    []episodes.Episode // open episodes that this one caused
	Actions     Actions
	Steps       remedy
	Picture     picture
	Lines       []namedLine
	Affected    string               // sentence about the affected versions of the component
	Verdict     string               // whether the running version is affected: yes, no or unknown
	Case        bool                 // whether the case file can be downloaded
	Text        string               // summary to paste into a chat
	Seen        *Seen                // earlier episodes of the alert; nil if there were none
	Suppressed  *history.Suppression // reason why Alertmanager notifies nobody; nil if it notifies
}

type namedLine struct {
	Name string
	matchedLine
}

func episodeLines(e *episodes.Episode) []namedLine {
	if e.FirstLine == "" || e.FirstLine == e.Line {
		if e.Line == "" {
			return nil
		}
		name := "Newest"
		if e.Count == 1 {
			name = "The line"
		}
		return []namedLine{{name, markMatches(e.Rule, e.Line)}}
	}
	return []namedLine{{"First", markMatches(e.Rule, e.FirstLine)}, {"Newest", markMatches(e.Rule, e.Line)}}
}

// Places returns the labels that state the place of the failure first, then the other labels.
func (d episodeData) Places() []pair { return placeLabels(d.Labels) }

// Began returns the time when the failure began, according to its lines.
func (d episodeData) Began() time.Time { return d.ActiveAt() }

func (s *Server) episodePage(w http.ResponseWriter, r *http.Request) {
	e, tl, ok := s.episodeTimeline(r.PathValue("fingerprint"))
	if !ok {
		s.serveError(w, http.StatusNotFound, "Not found", "This episode is not open, and the history does not have it.")
		return
	}
	deliveries := s.view.Deliveries(e.Fingerprint)
	data := episodeData{
		Episode: e, Where: s.whereSelector(e), Events: tl.Events, Skipped: tl.Skipped, Deliveries: newestAnswers(deliveries),
		Undelivered: staleReceivers(deliveries), Actions: s.episodeActions(e), Steps: parseRemedy(e.Annotations["remediation"]),
		Picture: s.drawPicture(e, tl), Lines: episodeLines(&e), Case: s.opt.Case != nil, Seen: s.earlierEpisodes(&e),
	}
	data.Verdict, data.Affected, _ = strings.Cut(e.Annotations["affected"], ": ")
	shown := page{Title: e.Alert, Path: "/"}
	if isEpisodeOpen(e) {
		all := s.view.Episodes()
		data.Symptoms, shown.SourceMissing = symptomsByCause(all)[e.Fingerprint], sourceMissing(all)
	}
	data.Suppressed = s.suppression(&e)
	data.Text = s.pasteText(data)
	shown.Data = data
	s.renderPage(w, "episode", http.StatusOK, shown)
}

func (s *Server) pasteText(d episodeData) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", d.Alert, d.State)
	if sev := d.Labels["severity"]; sev != "" {
		fmt.Fprintf(&b, ", %s", sev)
	}
	fmt.Fprintf(&b, ", since %s\n", formatTime(d.StartsAt))
	if text := d.Annotations["summary"]; text != "" {
		if d.State == episodes.StatePending {
			text = "if it fires: " + text
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	for _, p := range labelPairs(d.Labels, "alertname", "severity", "resolves") {
		fmt.Fprintf(&b, "%s=%q ", p.Name, p.Value)
	}
	fmt.Fprintf(&b, "\n%s\nfingerprint %s\n", d.Line, d.Fingerprint)
	return b.String()
}

func (s *Server) caseFile(w http.ResponseWriter, r *http.Request) {
	e, ok := s.findEpisode(r.PathValue("fingerprint"))
	if !ok || s.opt.Case == nil {
		s.serveError(w, http.StatusNotFound, "Not found", "There is no case file: this episode is not open, and did not end in the last 15 minutes.")
		return
	}
	file, err := s.opt.Case(e.Fingerprint.String(), s.fetchData)
	if err != nil {
		s.opt.Log.Error().Err(err).Msg("make case file")
		s.serveError(w, http.StatusInternalServerError, "Failed", "The case file could not be made; see the log of crowsnest.")
		return
	}
	name := fmt.Sprintf("case-%s-%s.html", e.Fingerprint, s.opt.Now().UTC().Format("20060102-150405"))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	// If a browser shows the file despite the header above, the file has no rights on this origin.
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(file) // the client may have disconnected
}

// waitingText says what an open episode waits for. It returns "" if that need not concern a person.
func waitingText(now time.Time, e episodes.Episode) string {
	switch {
	case e.State == episodes.StatePending:
		return pendingText(now, e) + " Nobody has been notified."
	case e.State == episodes.StateFiring && e.OnHold:
		return "On hold, so it does not end without a line that ends it: " + waitText(e.AwaitedParts) + "."
	}
	return ""
}

// lacksSource reports whether an episode waits for lines of streams that no source reads.
func lacksSource(e episodes.Episode) bool {
	return slices.ContainsFunc(e.AwaitedParts, func(w episodes.AwaitedPart) bool { return len(w.Sources) == 0 })
}

// sourceMissing returns the address of the page of the open alert about missing sources. It returns "" if there is no
// such alert.
func sourceMissing(all []episodes.Episode) string {
	for i := range all {
		if all[i].Alert == "CrowsnestSourceMissing" && isEpisodeOpen(all[i]) {
			return "/episodes/" + all[i].Fingerprint.String()
		}
	}
	return ""
}

// pendingText says since when an episode waits, and when it fires.
func pendingText(now time.Time, e episodes.Episode) string {
	text := "Pending since " + formatTime(e.StartsAt) + "."
	switch {
	case e.OnHold:
		return text + " On hold, so it does not fire: " + waitText(e.AwaitedParts) + "."
	case e.Deadline.IsZero():
		return text
	case e.Deadline.Before(now):
		return text + " Its waiting time is over; crowsnest reads the remaining lines before it fires."
	}
	return text + " It fires " + formatAgo(now, e.Deadline) + ", at " + formatTime(e.Deadline) + ", if the failure has not recovered by then."
}
