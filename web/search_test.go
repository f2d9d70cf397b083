package web

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

func TestSearch(t *testing.T) {
	e := episodes.Episode{
		Alert: "EtcdSlow", State: episodes.StateFiring, OnHold: true, Line: "took too long",
		Labels: map[string]string{"namespace": "kube-system", "severity": "critical", "cluster": "east"}, Annotations: map[string]string{"summary": "The disk is slow"},
	}
	f := func(filter string, want bool, text string) {
		t.Helper()
		q, err := parseQuery(httptest.NewRequest("GET", "/?"+url.Values{"filter": {filter}}.Encode(), nil))
		require.NoError(t, err)
		require.Equal(t, want, q.selectsEpisode(&e))
		require.Equal(t, text, q.searchText())
		again, err := parseQuery(httptest.NewRequest("GET", q.pageLink(1), nil))
		require.NoError(t, err)
		require.Equal(t, text, again.searchText(), "the text of a query means the query")
	}
	f("", true, "")
	f("etcd", true, "etcd")
	f("ETCD  DISK", true, "etcd disk")
	f("etcd network", false, "etcd network")
	f(`"too long"`, true, `"too long"`)
	f(`"long too"`, false, `"long too"`)
	f(`kube severity="critical"`, true, `kube severity="critical"`)
	f(`severity = "critical", disk`, true, `disk severity="critical"`)
	f(`severity=critical,namespace=~kube-.*`, true, `severity="critical" namespace=~"kube-.*"`)
	f(`severity!="critical" etcd`, false, `etcd severity!="critical"`)
	f(`cluster="east"`, true, `cluster="east"`)
	f(`{severity="critical",cluster="west"}`, false, `severity="critical" cluster="west"`)
	f(`a"b`, false, `"a\"b"`)
	for _, bad := range []string{`{`, `{etcd}`, `x=~"("`} {
		_, err := parseQuery(httptest.NewRequest("GET", "/?"+url.Values{"filter": {bad}}.Encode(), nil))
		require.Error(t, err, bad)
	}
	for state, want := range map[string]bool{"firing": true, "held": true, "pending": false} {
		q, err := parseQuery(httptest.NewRequest("GET", "/?state="+state, nil))
		require.NoError(t, err)
		require.Equal(t, want, q.selectsEpisode(&e), state)
	}
}

// A facet counts what the rest of the query selects, so the other values stay visible.
func TestFacets(t *testing.T) {
	view := exampleView()
	view.External = func() []map[string]string { return []map[string]string{{"cluster": "east"}} }
	all := shownView(view).Episodes()
	q, err := parseQuery(httptest.NewRequest("GET", `/?filter=severity="critical"`, nil))
	require.NoError(t, err)
	got := countFacets(q, all)
	require.Equal(t, []Facet{
		{Name: "severity", Values: []FacetValue{{Value: "critical", Count: 1, Selected: true, Link: "/"}}},
		{Name: "state", Values: []FacetValue{
			{Value: "firing", Count: 1, Link: "/?filter=severity%3D%22critical%22&state=firing"},
			{Value: "pending", Link: "/?filter=severity%3D%22critical%22&state=pending"},
			{Value: "held", Link: "/?filter=severity%3D%22critical%22&state=held"},
			{Value: "resolved", Count: 1, Link: "/?filter=severity%3D%22critical%22&state=resolved"},
		}},
		{Name: "cluster", Values: []FacetValue{{Value: "east", Count: 1, Link: "/?filter=severity%3D%22critical%22+cluster%3D%22east%22"}}},
		{Name: "namespace", Values: []FacetValue{{Value: "team-a", Count: 1, Link: "/?filter=severity%3D%22critical%22+namespace%3D%22team-a%22"}}},
	}, got)

	var many []episodes.Episode
	for i := range 30 {
		e := all[3]
		e.Labels = map[string]string{"severity": "warning", "namespace": string(rune('a' + i%26))}
		many = append(many, e)
	}
	for _, f := range countFacets(query{}, many) {
		if f.Name == "namespace" {
			require.Len(t, f.Values, maxFacetValues)
			require.Equal(t, 26-maxFacetValues, f.More)
			require.Equal(t, FacetValue{Value: "a", Count: 2, Link: "/?filter=namespace%3D%22a%22"}, f.Values[0])
		}
	}
	s := newTestServer(t, exampleView(), Options{})
	require.Contains(t, request(s, "GET", "/api/v1/counts").Body.String(), `{"value":"critical","count":1}`)
}
