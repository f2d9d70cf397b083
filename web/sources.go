package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxStreams bounds the streams of one namespace on the page.
const maxStreams = 200

// sourcesData is what the page of sources shows.
type sourcesData struct {
	Filter    string
	Sources   []sourceView
	Endpoints []Endpoint
}

type sourceView struct {
	Source
	Rate   string // lines per second; "": not known
	Spark  string
	Recent uint64
	Spaces []namespaceView
	Hidden int // streams that the filter excludes
	Behind time.Duration
}

// namespaceView is what a source follows in one namespace.
type namespaceView struct {
	Name    string
	Streams []streamView
	Count   int
	More    int
	Lines   int64
	Unread  int64
	Newest  time.Time
	Rate    string
	Spark   string
	Recent  uint64
	Unruled int // streams to which no rule applies
	Open    bool
}

type streamView struct {
	Stream
	Name string // short, for people
	Rest []pair // labels that are not in the name
}

func (s *Server) sourcesPage(w http.ResponseWriter, r *http.Request) {
	data := sourcesData{Filter: r.URL.Query().Get("filter")}
	words := strings.Fields(strings.ToLower(data.Filter))
	for _, src := range s.sources() {
		v := sourceView{Source: src}
		v.Behind = src.Lag.Round(time.Millisecond)
		if src.LinesPerSecond != nil {
			v.Rate = rate(*src.LinesPerSecond)
		}
		v.Spark, v.Recent = s.sparkline(sourceSeries(src.Name))
		v.Spaces, v.Hidden = s.namespaces(src, words)
		data.Sources = append(data.Sources, v)
	}
	data.Endpoints = s.endpoints()
	s.render(w, "sources", http.StatusOK, page{Title: "Sources", Path: "/sources", Data: data})
}

// namespaces groups the streams of a source.
func (s *Server) namespaces(src Source, words []string) (out []namespaceView, hidden int) {
	by := map[string]*namespaceView{}
	for _, st := range src.Streams {
		if !matchesStream(st, words) {
			hidden++
			continue
		}
		name := st.Labels["namespace"]
		n := by[name]
		if n == nil {
			n = &namespaceView{Name: name, Open: len(words) > 0}
			by[name] = n
		}
		n.Count, n.Lines, n.Unread = n.Count+1, n.Lines+st.Lines, n.Unread+st.Unread()
		if st.Rules == 0 {
			n.Unruled++
		}
		if st.LastRead.After(n.Newest) {
			n.Newest = st.LastRead
		}
		n.Streams = append(n.Streams, named(st))
	}
	for _, n := range by {
		slices.SortFunc(n.Streams, func(a, b streamView) int {
			return cmp.Or(-cmp.Compare(a.Unread(), b.Unread()), cmp.Compare(a.Name, b.Name))
		})
		if len(n.Streams) > maxStreams {
			n.More, n.Streams = len(n.Streams)-maxStreams, n.Streams[:maxStreams]
		}
		series := namespaceSeries(src.Name, n.Name)
		if x, ok := s.samples.perSecond(series); ok {
			n.Rate = rate(x)
		}
		n.Spark, n.Recent = s.sparkline(series)
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b namespaceView) int { return cmp.Compare(a.Name, b.Name) })
	return out, hidden
}

func matchesStream(st Stream, words []string) bool {
	return len(words) == 0 || hasWords(words, append(slices.Collect(maps.Values(st.Labels)), st.Path)...)
}

// named gives a stream a short name.
func named(st Stream) streamView {
	var parts []string
	used := []string{"namespace"}
	for _, name := range []string{"pod", "container", "unit", "node", "job", "filename"} {
		if v := st.Labels[name]; v != "" && len(parts) < 2 {
			parts, used = append(parts, v), append(used, name)
		}
	}
	v := streamView{Stream: st, Name: strings.Join(parts, " / ")}
	v.Rest = pairs(st.Labels, used...)
	if v.Name == "" {
		v.Name = st.Path
	}
	return v
}
