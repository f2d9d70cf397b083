package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// shownNoisy is how many noisy rules the page shows; the API has more.
const shownNoisy = 8

type historyData struct {
	History
	Filter, Error string
	From, To      time.Time
	Fingerprint   string
	Calendar      []calendarDay
	Past          []pastDay
	Older, All    string // addresses; Older is "" on the last page, All without a query
	Forwarded     bool   // an aggregator has the history
	oneCluster    bool
}

// calendarDay is one day of the calendar.
type calendarDay struct {
	HistoryDay
	Level    int    // 0 to 4: how many episodes, compared with the worst day
	Short    string // the day of the month, with the month where one begins
	Link     string // the page of the day; of all days, if it is selected
	Selected bool
}

// pastDay holds the episodes of one page that began on one day, by rule.
type pastDay struct {
	Date  string
	Rules []pastRule
	Count int
}

type pastRule struct {
	Alert    string
	Episodes []PastEpisode
}

// Lasted formats how long the episode lasted.
func (e PastEpisode) Lasted() string { return SpanText(e.Seconds) }

// Lasted formats how long the episodes of the rule lasted together.
func (r HistoryRule) Lasted() string { return SpanText(r.Seconds) }

// Place is the labels that say where it was: the larger place first, and without labels that
// columns have. The cluster is omitted if all of the page are in one.
func (d historyData) Place(e PastEpisode) []pair {
	all := pairs(e.Labels, "alertname", "severity", "resolves")
	if d.oneCluster {
		all = pairs(e.Labels, "alertname", "severity", "resolves", "cluster")
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(placeRank(a.Name), placeRank(b.Name)) })
	return all
}

// Ended says for people why the episode ended.
func (e PastEpisode) Ended() string { return ReasonText(e.Reason) }

func (s *Server) historyPage(w http.ResponseWriter, r *http.Request) {
	v, _ := url.ParseQuery(r.URL.RawQuery) // parsePast returns the error
	data := historyData{Filter: v.Get("filter"), Fingerprint: v.Get("fingerprint"), Forwarded: s.view.Unknown != nil && s.view.Unknown().Forwarded}
	code := http.StatusOK
	q, err := s.parsePast(r, "filter")
	if err != nil {
		data.Error, code = err.Error(), http.StatusBadRequest
		q = pastQuery{limit: defaultPast}
	}
	data.From, data.To = q.from, q.to
	data.History = s.past(q)
	data.Rules = data.Rules[:min(len(data.Rules), shownNoisy)]
	data.oneCluster = !slices.ContainsFunc(data.Episodes, func(e PastEpisode) bool { return e.Labels["cluster"] != data.Episodes[0].Labels["cluster"] })
	data.Calendar, data.Past = s.calendarOf(data.Days, v), byDay(data.Episodes)
	if data.Next != "" {
		data.Older = historyLink(v, "after", data.Next)
	}
	if len(v) > 0 {
		data.All = "/history"
	}
	s.render(w, "history", code, page{Title: "History", Path: "/history", Data: data})
}

// historyLink returns the address of the page with other values of parameters.
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

func (s *Server) calendarOf(days []HistoryDay, v url.Values) []calendarDay {
	most := 1
	for _, d := range days {
		most = max(most, d.Episodes)
	}
	out := make([]calendarDay, len(days))
	for i, d := range days {
		out[i] = calendarDay{HistoryDay: d, Level: (4*d.Episodes + most - 1) / most}
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			continue // calendar made it
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

// byDay groups episodes, the newest start first, by day and rule: the rule with the newest
// one first.
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

// weekday formats the weekday and the day of a date.
func weekday(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format("Mon 2 Jan")
}
