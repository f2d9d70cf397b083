package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxStreams is the maximum number of streams of one namespace that the page shows.
const maxStreams = 200

// sourcesData is the data of the page of sources.
type sourcesData struct {
	Filter      string
	Sources     []sourceView
	Endpoints   []Endpoint
	Discoveries []Discovery
}

type sourceView struct {
	Source
	Rate   string // lines per second; empty if the rate is not known
	Spark  string
	Recent uint64
	Spaces []namespaceView
	Hidden int // number of streams that the filter excludes
	Behind time.Duration
}

// namespaceView contains the streams of a source that belong to one namespace.
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
	Unruled int // number of streams to which no rule applies
	Open    bool
}

type streamView struct {
	Stream
	Name        string // short name for people
	OtherLabels []pair // labels that the name does not contain
}

func (s *Server) sourcesPage(w http.ResponseWriter, r *http.Request) {
	data := sourcesData{Filter: r.URL.Query().Get("filter")}
	words := strings.Fields(strings.ToLower(data.Filter))
	for _, src := range s.listSources() {
		v := sourceView{Source: src}
		v.Behind = src.Lag.Round(time.Millisecond)
		if src.LinesPerSecond != nil {
			v.Rate = formatRate(*src.LinesPerSecond)
		}
		v.Spark, v.Recent = s.sparkline(sourceSeries(src.Name))
		v.Spaces, v.Hidden = s.groupStreams(src, words)
		data.Sources = append(data.Sources, v)
	}
	data.Endpoints, data.Discoveries = s.listEndpoints(), s.view.Status().Discoveries
	s.renderPage(w, "sources", http.StatusOK, page{Title: "Sources", Path: "/sources", Data: data})
}

func (s *Server) groupStreams(src Source, words []string) (out []namespaceView, hidden int) {
	by := map[string]*namespaceView{}
	for _, st := range src.Streams {
		if len(words) > 0 && !hasWords(words, append(slices.Collect(maps.Values(st.Labels)), st.Path)...) {
			hidden++
			continue
		}
		name := st.Labels["namespace"]
		n := by[name]
		if n == nil {
			n = &namespaceView{Name: name, Open: len(words) > 0}
			by[name] = n
		}
		n.Count, n.Lines, n.Unread = n.Count+1, n.Lines+st.Lines, n.Unread+st.UnreadBytes()
		if st.Rules == 0 {
			n.Unruled++
		}
		if st.LastRead.After(n.Newest) {
			n.Newest = st.LastRead
		}
		n.Streams = append(n.Streams, nameStream(st))
	}
	for _, n := range by {
		slices.SortFunc(n.Streams, func(a, b streamView) int {
			return cmp.Or(-cmp.Compare(a.UnreadBytes(), b.UnreadBytes()), cmp.Compare(a.Name, b.Name))
		})
		if len(n.Streams) > maxStreams {
			n.More, n.Streams = len(n.Streams)-maxStreams, n.Streams[:maxStreams]
		}
		series := namespaceSeries(src.Name, n.Name)
		if x, ok := s.samples.perSecond(series); ok {
			n.Rate = formatRate(x)
		}
		n.Spark, n.Recent = s.sparkline(series)
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b namespaceView) int { return cmp.Compare(a.Name, b.Name) })
	return out, hidden
}

// nameStream gives a stream a short name.
func nameStream(st Stream) streamView {
	var parts []string
	used := []string{"namespace"}
	for _, name := range []string{"pod", "container", "unit", "node", "job", "filename"} {
		if v := st.Labels[name]; v != "" && len(parts) < 2 {
			parts, used = append(parts, v), append(used, name)
		}
	}
	v := streamView{Stream: st, Name: strings.Join(parts, " / ")}
	v.OtherLabels = labelPairs(st.Labels, used...)
	if v.Name == "" {
		v.Name = st.Path
	}
	return v
}
