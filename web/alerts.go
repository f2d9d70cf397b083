package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
)

const (
	perPage  = 50  // maximum number of rows of open alerts on one page
	maxEnded = 20  // maximum number of rows of ended alerts after the open ones
	maxOther = 10  // maximum number of rows of silent alerts, and of alerts that are not watched any more
	maxAbout = 10  // maximum number of listed alerts about crowsnest itself
	endedFor = day // time for which ended alerts are shown
)

func itoa(n int) string { return strconv.Itoa(n) }

type alertsData struct {
	Filter, Error   string
	States          []string
	OwnAlerts       []row // firing alerts about crowsnest itself, which are shown for every query
	MoreAbout       int
	Facets          []Facet
	Suggested       []string // suggestions of the search box
	Open            []row
	Silent          []row
	UnwatchedAlerts []row // alerts that are not watched any more because their namespace had too many; whether their failures are over is unknown
	Ended           []row
	Total           int // number of open alerts that the query selects
	From, To        int // number of the first and the last row on this page
	Previous        string
	Next            string
	MoreEnded       int
	Rules           int
	Streams         int
	SourceProgress  []sourceProgress
	Earlier         string // address of the history page for the last day
	OneCluster      bool   // whether all alerts have the same cluster
	Flat            bool   // whether each alert has a row of its own
	Regroup         string // address of the page with the other grouping; "" if it would be the same
	NoSilences      string // reason why crowsnest does not know which alerts are silenced; "" if it knows
	query           query
}

type sourceProgress struct {
	Name  string
	Up    bool
	Until time.Time
}

func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) {
	data := alertsData{Filter: r.URL.Query().Get("filter"), States: r.URL.Query()["state"], Rules: len(s.view.Stats().Rules)}
	for _, src := range s.view.Sources() {
		data.Streams += len(src.Streams)
		data.SourceProgress = append(data.SourceProgress, sourceProgress{src.Name, src.Up, src.Watermark})
	}
	q, err := s.readQuery(r)
	if err != nil {
		data.Error = err.Error()
		data.States = nil
		s.renderPage(w, "alerts", http.StatusBadRequest, page{Title: "Alerts", Path: "/", Data: data})
		return
	}
	data.query, data.Flat = q, q.flat || q.demandedValue("alertname") != ""
	data.NoSilences = s.view.SuppressionProblem()
	about, all := takeAbout(s.lastDay())
	data.OwnAlerts = folder{query: q, suppression: s.openSuppression}.foldRows(about)
	data.MoreAbout = max(0, len(data.OwnAlerts)-maxAbout)
	data.OwnAlerts = data.OwnAlerts[:len(data.OwnAlerts)-data.MoreAbout]
	data.Facets = slices.DeleteFunc(countFacets(q, all), func(f Facet) bool {
		return f.Name == "cluster" && len(f.Values) == 1 && !f.Values[0].Selected // a facet with a single cluster does not help to select alerts
	})
	data.Suggested, data.OneCluster = searchSuggestions(all), oneCluster(all)
	s.fillAlerts(&data, all, pageNumber(r))
	s.renderPage(w, "alerts", http.StatusOK, page{Title: pageTitle(data), Path: "/", SourceMissing: sourceMissing(about), Data: data})
}

// pageTitle returns the title of the page. It contains the number of firing alerts, so that the number is visible in
// the browser tab.
func pageTitle(data alertsData) string {
	for _, f := range data.Facets {
		for _, v := range f.Values {
			if f.Name == stateFacet && v.Value == "firing" && v.Count > 0 {
				return fmt.Sprintf("(%d) Alerts", v.Count)
			}
		}
	}
	return "Alerts"
}

func pageNumber(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		return 1
	}
	return max(n, 1)
}

func (s *Server) fillAlerts(data *alertsData, all []episodes.Episode, number int) {
	const (
		isOpen = iota
		isSilent
		isUnwatched
		isEnded
		sections
	)
	var in [sections][]episodes.Episode
	watched := map[episodes.Fingerprint]bool{} // fingerprints of alerts that are open again
	for i := range all {
		if all[i].State != episodes.StateUnwatched {
			watched[all[i].Fingerprint] = true
		}
	}
	for i := range all {
		e := &all[i]
		if heartbeatAlert(e) || !data.query.selectsEpisode(e) || e.State == episodes.StateUnwatched && watched[e.Fingerprint] {
			continue
		}
		at := isOpen
		switch {
		case e.State == episodes.StateUnwatched:
			at = isUnwatched
		case !isEpisodeOpen(*e):
			at = isEnded
		case e.Silent:
			at = isSilent
		}
		in[at] = append(in[at], *e)
	}
	folder := folder{query: data.query, suppression: s.openSuppression, flat: data.Flat}
	rows := folder.foldRows(in[isOpen])
	if data.query.demandedValue("alertname") == "" && (data.Flat || slices.ContainsFunc(rows, func(r row) bool { return r.Total > 1 || len(r.Symptoms) > 0 })) {
		data.Regroup = data.query.toggleGrouping().pageLink(1)
	}
	data.Total = len(rows)
	number = min(number, max(1, (len(rows)+perPage-1)/perPage))
	first := (number - 1) * perPage
	last := min(len(rows), first+perPage)
	data.Open, data.From, data.To = s.withDetails(rows[first:last]), first+1, last
	if first > 0 {
		data.Previous = data.query.pageLink(number - 1)
	}
	if last < len(rows) {
		data.Next = data.query.pageLink(number + 1)
	}
	if number > 1 {
		return // only the first page has the other sections
	}
	firstRows := func(list []episodes.Episode, most int) []row {
		rows := folder.foldRows(list)
		return s.withDetails(rows[:min(most, len(rows))])
	}
	data.Silent, data.UnwatchedAlerts, data.Ended = firstRows(in[isSilent], maxOther), firstRows(in[isUnwatched], maxOther), firstRows(in[isEnded], maxEnded)
	data.MoreEnded = len(in[isEnded])
	for _, r := range data.Ended {
		data.MoreEnded -= r.Total + int(r.Caused())
	}
	data.Earlier = "/history?from=1d"
	if text := data.query.searchText(); text != "" {
		data.Earlier += "&filter=" + url.QueryEscape(text)
	}
}

// aboutCrowsnest reports whether an alert is about crowsnest itself. While such an alert is open, other alerts may be
// missing.
func aboutCrowsnest(e *episodes.Episode) bool {
	return e.Rule == nil && strings.HasPrefix(e.Alert, "Crowsnest")
}

// takeAbout splits all into the open alerts about crowsnest itself and the other alerts.
func takeAbout(all []episodes.Episode) (about, others []episodes.Episode) {
	for i := range all {
		switch e := &all[i]; {
		case !aboutCrowsnest(e) || !isEpisodeOpen(*e):
			others = append(others, *e)
		case !heartbeatAlert(e):
			about = append(about, *e)
		}
	}
	return about, others
}

// lastDay returns the open episodes and the episodes that ended within the last day. It includes the history.
func (s *Server) lastDay() []episodes.Episode {
	all := s.view.Episodes()
	type key struct {
		of    episodes.Fingerprint
		start int64
	}
	listed := make(map[key]bool, len(all))
	for i := range all {
		listed[key{all[i].Fingerprint, all[i].StartsAt.UnixNano()}] = true
	}
	since, set, more := s.opt.Now().Add(-endedFor), s.view.Rules().Set, externalLabels(s.view)
	for _, x := range s.view.History() {
		if x.EndsAt.After(since) && !listed[key{episodes.Fingerprint(x.Fingerprint), x.StartsAt.UnixNano()}] {
			all = append(all, pastEpisode(x, set, more))
		}
	}
	return all
}

func (s *Server) withDetails(rows []row) []row {
	for i := range rows {
		r := &rows[i]
		r.Undelivered = staleReceivers(s.view.Deliveries(r.Fingerprint))
		r.FirstLine = ""
		if r.Total > 1 {
			r.Actions.Runbook = s.episodeActions(r.Episode).Runbook
			r.Spark, _ = s.sparkline(ruleSeries(r.Alert))
			continue
		}
		r.Actions, r.Seen = s.episodeActions(r.Episode), s.earlierEpisodes(&r.Episode)
		r.Spark, _ = s.sparkline(episodeSeries(r.Fingerprint.String()))
		r.Steps = parseRemedy(r.Annotations["remediation"])
	}
	return rows
}

// searchSuggestions returns names of alerts and values of facets for the search box.
func searchSuggestions(all []episodes.Episode) []string {
	const maxSuggested = 60
	seen := map[string]bool{}
	var out []string
	add := func(text string) {
		if !seen[text] && len(out) < maxSuggested {
			seen[text] = true
			out = append(out, text)
		}
	}
	for i := range all {
		if heartbeatAlert(&all[i]) {
			continue
		}
		add(all[i].Alert)
		for _, name := range facetLabels {
			if v := all[i].Labels[name]; v != "" {
				add(name + "=" + strconv.Quote(v))
			}
		}
	}
	return out
}

func oneCluster(all []episodes.Episode) bool {
	name := ""
	for i := range all {
		own := all[i].Labels["cluster"]
		if own != "" && name != "" && own != name {
			return false
		}
		name = cmp.Or(own, name)
	}
	return true
}

// Filtered returns the address of the page with an additional condition on a label.
func (d alertsData) Filtered(name, value string) string {
	return d.query.withLabel(name, value).pageLink(1)
}

// Where returns the labels that have no column of their own. Labels that state the place of the failure come first.
func (r row) Where() []pair { return placeLabels(r.Labels) }

// placeLabels returns the labels except hidden ones. Labels that state the place of the failure come first, from the
// largest place to the smallest.
func placeLabels(labels map[string]string, hidden ...string) []pair {
	all := labelPairs(labels, append(hidden, "alertname", "severity", "resolves")...)
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(placeRank(a.Name), placeRank(b.Name)) })
	return all
}

// placeWithin is like placeLabels. It omits the cluster if oneCluster is set.
func placeWithin(labels map[string]string, oneCluster bool) []pair {
	if oneCluster {
		return placeLabels(labels, "cluster")
	}
	return placeLabels(labels)
}

// Place returns the place of an alert. It omits the cluster if all alerts have the same one.
func (d alertsData) Place(labels map[string]string) []pair {
	return placeWithin(labels, d.OneCluster)
}

// placeRank returns the position of a label in a list of places from large to small, followed by all other labels.
func placeRank(name string) int {
	places := []string{"node", "container", "pod", "namespace", "cluster"}
	return -slices.Index(places, name)
}

// staleReceivers returns the receivers that do not have the newest state of an alert, and since when.
func staleReceivers(all []Delivery) []Delivery {
	return slices.DeleteFunc(answersByReceiver(all), func(d Delivery) bool { return d.Error == "" })
}

type remedy struct {
	Summary string
	Steps   []string // commands; a # begins a remark
	Notes   []string // remarks about unsafe values from the log that were replaced
}

// parseRemedy splits the text of a remediation into its steps. Each line is a step.
func parseRemedy(text string) (out remedy) {
	var summary []string
	for _, line := range strings.Split(text, "\n") {
		number, rest, ok := strings.Cut(line, ". ")
		n, err := strconv.Atoi(number)
		switch {
		case ok && err == nil && n == len(out.Steps)+1:
			out.Steps = append(out.Steps, rest)
		case strings.HasPrefix(line, "UNSAFE_VALUE_"):
			out.Notes = append(out.Notes, line)
		case len(out.Steps) > 0:
			out.Steps[len(out.Steps)-1] += "\n" + line
		case strings.TrimSpace(line) != "":
			summary = append(summary, line)
		}
	}
	out.Summary = strings.Join(summary, "\n")
	return out
}
