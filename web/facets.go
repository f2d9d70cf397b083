package web

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"crowsnest/episodes"
)

// maxFacetValues is the maximum number of values of one facet that are listed individually.
const maxFacetValues = 8

// Facet counts the open alerts that a query selects by their values of one property. The
// query's own condition on that property is ignored, so that other values remain visible.
type Facet struct {
	Name   string       `json:"name"` // severity, state, cluster, namespace
	Values []FacetValue `json:"values"`
	// More is the number of further values.
	More int `json:"more,omitempty"`
}

// FacetValue is one value of a facet.
type FacetValue struct {
	Value string `json:"value"`
	Count int    `json:"count"`
	// Selected is set if the query demands the value.
	Selected bool `json:"selected,omitempty"`
	// Link is the page with the value selected, or deselected if it is selected.
	Link string `json:"-"`
}

// stateFacet counts states; other facets count labels.
const stateFacet = "state"

// facetLabels are the labels that are counted.
var facetLabels = []string{"severity", "cluster", "namespace"}

func countFacets(q query, all []episodes.Episode) []Facet {
	var out []Facet
	for _, label := range facetLabels {
		rest, counts := q.withoutLabel(label), map[string]int{}
		own := q.demandedValue(label)
		for i := range all {
			e := &all[i]
			if heartbeatAlert(e) || len(q.states) == 0 && (!isEpisodeOpen(*e) || e.Silent) || !rest.selectsEpisode(e) {
				continue
			}
			if v := e.Labels[label]; v != "" {
				counts[v]++
			}
		}
		if own != "" && counts[own] == 0 {
			counts[own] = 0 // a selected value that no longer occurs is shown with the count 0, so that the user can deselect it
		}
		if f := newFacet(q, label, counts); len(f.Values) > 0 {
			out = append(out, f)
		}
	}
	return slices.Insert(out, min(1, len(out)), countStates(q, all))
}

// heartbeatAlert reports whether an alert is a heartbeat. Pages omit it, because they show anyway that the daemon is
// alive.
func heartbeatAlert(e *episodes.Episode) bool { return e.Rule == nil && e.Labels["severity"] == "none" }

func newFacet(q query, label string, counts map[string]int) Facet {
	f := Facet{Name: label, Values: []FacetValue{}}
	own := q.demandedValue(label)
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		x := FacetValue{Value: v, Count: counts[v], Selected: v == own}
		if x.Selected {
			x.Link = q.withoutLabel(label).pageLink(1)
		} else {
			x.Link = q.withLabel(label, v).pageLink(1)
		}
		f.Values = append(f.Values, x)
	}
	slices.SortStableFunc(f.Values, func(a, b FacetValue) int {
		if label == "severity" {
			return cmp.Compare(severityRank(a.Value), severityRank(b.Value))
		}
		return cmp.Or(boolRank(b.Selected)-boolRank(a.Selected), b.Count-a.Count)
	})
	if len(f.Values) > maxFacetValues {
		f.More = len(f.Values) - maxFacetValues
		f.Values = f.Values[:maxFacetValues]
	}
	return f
}

// boolRank orders false before true.
func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// countStates counts the episodes by state. It ignores the states in the query.
func countStates(q query, all []episodes.Episode) Facet {
	rest, counts := q, map[string]int{}
	rest.states = nil
	for i := range all {
		e := &all[i]
		if heartbeatAlert(e) || !rest.selectsEpisode(e) {
			continue
		}
		if !e.Silent || !isEpisodeOpen(*e) {
			counts[string(e.State)]++
		}
		if isEpisodeOpen(*e) && e.OnHold {
			counts["held"]++
		}
	}
	f := Facet{Name: stateFacet}
	for _, st := range selectableStates {
		x := FacetValue{Value: st, Count: counts[st], Selected: slices.Contains(q.states, st)}
		if st == string(episodes.StateUnwatched) && x.Count == 0 && !x.Selected {
			continue // the state is rare, so it is only offered if it occurs
		}
		with := q
		if with.states = []string{st}; x.Selected {
			with.states = nil
		}
		x.Link = with.pageLink(1)
		f.Values = append(f.Values, x)
	}
	return f
}

// pageLink returns the address of a page of the alerts that a query selects.
func (q query) pageLink(page int) string {
	v := url.Values{}
	if text := q.searchText(); text != "" {
		v.Set("filter", text)
	}
	for _, st := range q.states {
		v.Add("state", st)
	}
	if q.flat {
		v.Set("group", "none")
	}
	if page > 1 {
		v.Set("page", itoa(page))
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}

func (s *Server) apiCounts(r *http.Request) (any, *apiError) {
	q, err := s.readQuery(r)
	if err != nil {
		return nil, badData(err.Error())
	}
	return Counts{countFacets(q, s.view.Episodes())}, nil
}
