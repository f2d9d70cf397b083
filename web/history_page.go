package web

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// shownNoisy is the number of noisy rules that the page shows. The API returns more.
const shownNoisy = 8

type historyData struct {
	History
	Filter, Error string
	From, To      time.Time
	Fingerprint   string
	Calendar      []calendarDay
	Past          []pastDay
	Older, All    string // addresses of the next page and of the page without a query; Older is empty on the last page
	Forwarded     bool   // whether an aggregator keeps the history instead of this process
	oneCluster    bool
}

type calendarDay struct {
	HistoryDay
	Level    int    // color from 0 to 4, in proportion to the day with the most episodes
	Short    string // day of the month, on the first day with the name of the month
	Link     string // address of the page of this day, or of the page of all days if this day is selected
	Selected bool
}

// pastDay contains the episodes on one page that began on the same day, grouped by rule.
type pastDay struct {
	Date  string
	Rules []pastRule
	Count int
}

type pastRule struct {
	Alert    string
	Episodes []PastEpisode
}

// DurationText formats the duration of the episode.
func (e PastEpisode) DurationText() string { return SpanText(e.Seconds) }

// TotalTime formats the sum of the durations of the rule's episodes.
func (r HistoryRule) TotalTime() string { return SpanText(r.Seconds) }

// Place returns the labels without their own column that state the place of an episode, the largest place first.
func (d historyData) Place(e PastEpisode) []pair { return placeWithin(e.Labels, d.oneCluster) }

// Ended describes for people why the episode ended.
func (e PastEpisode) Ended() string { return ReasonText(e.Reason) }

func (s *Server) historyPage(w http.ResponseWriter, r *http.Request) {
	v, _ := url.ParseQuery(r.URL.RawQuery) // parsePast reports an error
	data := historyData{Filter: v.Get("filter"), Fingerprint: v.Get("fingerprint"), Forwarded: s.view.Unknown().Forwarded}
	code := http.StatusOK
	q, err := s.parsePast(r, "filter")
	if err != nil {
		data.Error, code = err.Error(), http.StatusBadRequest
		q = pastQuery{limit: defaultPast}
	}
	data.From, data.To = q.from, q.to
	data.History = s.queryHistory(q)
	data.Rules = data.Rules[:min(len(data.Rules), shownNoisy)]
	data.oneCluster = !slices.ContainsFunc(data.Episodes, func(e PastEpisode) bool { return e.Labels["cluster"] != data.Episodes[0].Labels["cluster"] })
	data.Calendar, data.Past = s.calendarDays(data.Days, v), byDay(data.Episodes)
	if data.Next != "" {
		data.Older = historyLink(v, "after", data.Next)
	}
	if len(v) > 0 {
		data.All = "/history"
	}
	s.renderPage(w, "history", code, page{Title: "History", Path: "/history", Data: data})
}

// historyLink returns the address of the page with changed parameters. changes are alternately a parameter and its
// value.
func historyLink(v url.Values, changes ...string) string {
	out := url.Values{}
	for _, name := range []string{"filter", "fingerprint", "from", "to"} {
		if text := v.Get(name); text != "" {
			out.Set(name, text)
		}
	}
	for i := 0; i+1 < len(changes); i += 2 {
		if out.Del(changes[i]); changes[i+1] != "" {
			out.Set(changes[i], changes[i+1])
		}
	}
	if len(out) == 0 {
		return "/history"
	}
	return "/history?" + out.Encode()
}

func (s *Server) calendarDays(days []HistoryDay, v url.Values) []calendarDay {
	most := 1
	for _, d := range days {
		most = max(most, d.Episodes)
	}
	out := make([]calendarDay, len(days))
	for i, d := range days {
		out[i] = calendarDay{HistoryDay: d, Level: (4*d.Episodes + most - 1) / most}
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			continue // cannot happen, because countDays formatted the date
		}
		next := date.Add(day).Format(time.DateOnly)
		out[i].Link = historyLink(v, "from", d.Date, "to", next)
		if out[i].Selected = v.Get("from") == d.Date && v.Get("to") == next; out[i].Selected {
			out[i].Link = historyLink(v, "from", "", "to", "")
		}
		out[i].Short = date.Format("2")
		if i == 0 || date.Day() == 1 {
			out[i].Short = date.Format("2 Jan")
		}
	}
	return out
}

// byDay groups episodes by day and by rule. The newest day comes first. Within a day, the rule with the newest episode
// comes first. all must be ordered from the newest episode to the oldest.
func byDay(all []PastEpisode) []pastDay {
	var out []pastDay
	for _, e := range all {
		date := e.StartsAt.UTC().Format(time.DateOnly)
		if len(out) == 0 || out[len(out)-1].Date != date {
			out = append(out, pastDay{Date: date})
		}
		d := &out[len(out)-1]
		d.Count++
		i := slices.IndexFunc(d.Rules, func(r pastRule) bool { return r.Alert == e.Alert })
		if i < 0 {
			d.Rules, i = append(d.Rules, pastRule{Alert: e.Alert}), len(d.Rules)
		}
		d.Rules[i].Episodes = append(d.Rules[i].Episodes, e)
	}
	return out
}

func formatWeekday(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format("Mon 2 Jan")
}
