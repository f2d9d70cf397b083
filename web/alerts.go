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
	perPage  = 50 // rows of open alerts on one page
	maxEnded = 20 // rows of ended ones below them
	maxOther = 10 // rows of silent ones, and of those that are not watched any more
	maxAbout = 10 // alerts about crowsnest itself
	maxPages = 100_000
	endedFor = day // how long ended ones are shown
)

func itoa(n int) string { return strconv.Itoa(n) }

// alertsData is what the page of alerts shows.
type alertsData struct {
	Filter, Error string
	States        []string
	About         []row // firing alerts about crowsnest itself, whatever the query selects
	MoreAbout     int
	Facets        []Facet
	Suggested     []string // suggestions of the search box
	Open          []row
	Silent        []row
	Unwatched     []row // alerts that lost their places: whether they are over is not known
	Ended         []row
	Total         int // rows of open alerts that the query selects
	From, To      int // first and last number on this page
	Previous      string
	Next          string
	MoreEnded     int
	Rules         int
	Streams       int
	Reading       []reading
	Earlier       string // address of the history of the last day
	OneCluster    bool   // all alerts have the same cluster
	Flat          bool   // each alert has a row of its own
	Regroup       string // address of the page with the other rows; "": there is no difference
	NoSilences    string // why it is not known which alerts are silenced; "": it is known
	query         query
	silenced      func(*episodes.Episode) *Silencing
}

// reading says up to when a source was read.
type reading struct {
	Name  string
	Up    bool
	Until time.Time
}

func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) {
	data := alertsData{Filter: r.URL.Query().Get("filter"), States: r.URL.Query()["state"], Rules: len(s.view.Stats().Rules)}
	for _, src := range s.view.Sources() {
		data.Streams += len(src.Streams)
		data.Reading = append(data.Reading, reading{src.Name, src.Up, src.Watermark})
	}
	q, err := s.query(r)
	if err != nil {
		data.Error = err.Error()
		data.States = nil
		s.render(w, "alerts", http.StatusBadRequest, page{Title: "Alerts", Path: "/", Data: data})
		return
	}
	data.query, data.Flat = q, q.flat || q.value("alertname") != ""
	data.silenced, data.NoSilences = s.silencing()
	about, all := takeAbout(s.lastDay())
	data.About = folder{query: q, silenced: data.silenced}.fold(about)
	data.MoreAbout = max(0, len(data.About)-maxAbout)
	data.About = data.About[:len(data.About)-data.MoreAbout]
	data.Facets = slices.DeleteFunc(facets(q, all), func(f Facet) bool {
		return f.Name == "cluster" && len(f.Values) == 1 && !f.Values[0].Selected // a single cluster says nothing
	})
	data.Suggested, data.OneCluster = suggestions(all), oneCluster(all)
	s.fill(&data, all, pageNumber(r))
	s.render(w, "alerts", http.StatusOK, page{Title: title(data), Path: "/", SourceMissing: sourceMissing(about), Data: data})
}

// title names the number of firing alerts, for a tab in the background.
func title(data alertsData) string {
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
	return min(max(n, 1), maxPages)
}

// fill puts the episodes that the query selects into their sections.
func (s *Server) fill(data *alertsData, all []episodes.Episode, number int) {
	const (
		isOpen = iota
		isSilent
		isUnwatched
		isEnded
		sections
	)
	var in [sections][]episodes.Episode
	watched := map[episodes.Fingerprint]bool{} // again
	for i := range all {
		if all[i].State != episodes.StateUnwatched {
			watched[all[i].Fingerprint] = true
		}
	}
	for i := range all {
		e := &all[i]
		if heartbeatAlert(e) || !data.query.selects(e) || e.State == episodes.StateUnwatched && watched[e.Fingerprint] {
			continue
		}
		at := isOpen
		switch {
		case e.State == episodes.StateUnwatched:
			at = isUnwatched
		case !open(*e):
			at = isEnded
		case e.Silent:
			at = isSilent
		}
		in[at] = append(in[at], *e)
	}
	folder := folder{query: data.query, silenced: data.silenced, flat: data.Flat}
	rows := folder.fold(in[isOpen])
	if data.query.value("alertname") == "" && (data.Flat || slices.ContainsFunc(rows, func(r row) bool { return r.Total > 1 || len(r.Symptoms) > 0 })) {
		data.Regroup = data.query.regrouped().link(1)
	}
	data.Total = len(rows)
	number = min(number, max(1, (len(rows)+perPage-1)/perPage))
	first := (number - 1) * perPage
	last := min(len(rows), first+perPage)
	data.Open, data.From, data.To = s.dressed(rows[first:last]), first+1, last
	if first > 0 {
		data.Previous = data.query.link(number - 1)
	}
	if last < len(rows) {
		data.Next = data.query.link(number + 1)
	}
	if number > 1 {
		return // further sections are on the first page
	}
	firstRows := func(list []episodes.Episode, most int) []row {
		rows := folder.fold(list)
		return s.dressed(rows[:min(most, len(rows))])
	}
	data.Silent, data.Unwatched, data.Ended = firstRows(in[isSilent], maxOther), firstRows(in[isUnwatched], maxOther), firstRows(in[isEnded], maxEnded)
	data.MoreEnded = len(in[isEnded])
	for _, r := range data.Ended {
		data.MoreEnded -= r.Total + int(r.Caused())
	}
	data.Earlier = "/history?from=1d"
	if text := data.query.text(); text != "" {
		data.Earlier += "&filter=" + url.QueryEscape(text)
	}
}

// aboutCrowsnest reports whether an alert says that crowsnest itself has a problem, so that other
// alerts may be missing.
func aboutCrowsnest(e *episodes.Episode) bool {
	return e.Rule == nil && strings.HasPrefix(e.Alert, "Crowsnest")
}

// takeAbout returns the open alerts about crowsnest itself, and the others.
func takeAbout(all []episodes.Episode) (about, others []episodes.Episode) {
	for i := range all {
		switch e := &all[i]; {
		case !aboutCrowsnest(e) || !open(*e):
			others = append(others, *e)
		case !heartbeatAlert(e):
			about = append(about, *e)
		}
	}
	return about, others
}

// lastDay returns the episodes that are open, and those that ended within a day: the older
// ones of these are in the history only.
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
	since, set, more := s.opt.Now().Add(-endedFor), s.view.Rules().Set, external(s.view)
	for _, x := range s.view.History() {
		if x.EndsAt.After(since) && !listed[key{episodes.Fingerprint(x.Fingerprint), x.StartsAt.UnixNano()}] {
			all = append(all, remembered(x, set, more))
		}
	}
	return all
}

// dressed adds to rows what only shown ones need.
func (s *Server) dressed(rows []row) []row {
	for i := range rows {
		r := &rows[i]
		r.Undelivered = undelivered(s.view.Deliveries(r.Fingerprint))
		r.First = ""
		if r.Total > 1 {
			r.Actions.Runbook = s.actions(r.Episode).Runbook
			r.Spark, _ = s.sparkline(ruleSeries(r.Alert))
			continue
		}
		r.Actions, r.Seen = s.actions(r.Episode), s.seen(&r.Episode)
		r.Spark, _ = s.sparkline(episodeSeries(r.Fingerprint.String()))
		r.Steps = remedyOf(r.Annotations["remediation"])
	}
	return rows
}

// suggestions returns what the search box may complete: names of alerts and the values of the
// labels that are counted.
func suggestions(all []episodes.Episode) []string {
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

// oneCluster reports whether all episodes have the same label cluster.
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

// Filtered returns the page of alerts with one more demand on a label.
func (d alertsData) Filtered(name, value string) string { return d.query.with(name, value).link(1) }

// Where is an alert's labels except those that have columns of their own: where it is first.
func (r row) Where() []pair { return places(r.Labels) }

// places returns the labels that say where an alert is, the larger place first.
func places(labels map[string]string) []pair {
	all := pairs(labels, "alertname", "severity", "resolves")
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(placeRank(a.Name), placeRank(b.Name)) })
	return all
}

// Place is where an alert is, without the cluster if all alerts have the same.
func (d alertsData) Place(labels map[string]string) []pair {
	return slices.DeleteFunc(places(labels), func(p pair) bool { return p.Name == "cluster" && d.OneCluster })
}

// placeRank orders labels from the larger place to the smaller one.
func placeRank(name string) int {
	places := []string{"cluster", "namespace", "pod", "container", "node"}
	if i := slices.Index(places, name); i >= 0 {
		return i
	}
	return len(places)
}

// undelivered says which receivers do not have the newest state of an alert, and since when.
func undelivered(all []Delivery) []Delivery {
	newest := map[[2]string]Delivery{}
	var order [][2]string
	for _, d := range all {
		key := [2]string{d.Sink, d.Endpoint}
		if _, ok := newest[key]; !ok {
			order = append(order, key)
		}
		newest[key] = d
	}
	var out []Delivery
	for _, key := range order {
		if newest[key].Error != "" {
			out = append(out, newest[key])
		}
	}
	return out
}

// remedy is what to do about a failure.
type remedy struct {
	Summary string
	Steps   []string // commands, with remarks behind #
	Notes   []string // what unsafe values of the log were replaced by
}

// remedyOf splits the text of a remediation, which has one step a line.
func remedyOf(text string) (out remedy) {
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
