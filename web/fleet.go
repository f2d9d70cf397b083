package web

import (
	"net/http"
	"strings"
	"time"
)

// Fleet is what a fleet view knows about its clusters.
type Fleet struct {
	// Needed is in how many clusters a rule must be open for an alert.
	Needed int `json:"needed"`
	// States counts the clusters by state: up, unknown, conflict.
	States   map[string]int `json:"states"`
	Clusters []FleetCluster `json:"clusters"`
	// Rules are those that are open in clusters, the ones in the most clusters first.
	Rules []FleetRule `json:"rules"`
	// MoreRules counts those beyond a bound.
	MoreRules int `json:"moreRules,omitempty"`
	// Discovery are the service discoveries that fail.
	Discovery []FleetDiscovery `json:"discovery,omitempty"`
}

// FleetCluster is a cluster of a fleet view.
type FleetCluster struct {
	Name string `json:"name"`
	// State is up, unknown (its daemon does not answer), or conflict (its name is in doubt).
	// What its daemon reported is used only if it is up; else it is as old as Answered.
	State string `json:"state"`
	// Since is the last answer; of a cluster that never answered, when it was found.
	Since    time.Time  `json:"since"`
	Answered *time.Time `json:"answered,omitempty"` // absent: never
	Error    string     `json:"error,omitempty"`    // why it is not up
	Link     string     `json:"link,omitempty"`     // its pages
	Version  string     `json:"version,omitempty"`  // of crowsnest
	// Open counts its firing alerts by severity.
	Open  map[string]int `json:"open,omitempty"`
	Rules int            `json:"rules"` // with firing alerts
}

// Old reports whether its alerts are those of an earlier time.
func (c FleetCluster) Old() bool { return c.State != "up" && c.Answered != nil }

// FleetRule is a rule that is open in clusters.
type FleetRule struct {
	Rule     string    `json:"rule"`
	Severity string    `json:"severity"`        // the most severe
	Since    time.Time `json:"since"`           // when it began in the first cluster
	First    string    `json:"first"`           // that cluster
	Alert    string    `json:"alert,omitempty"` // fingerprint of its alert; absent: there is none
	Alerts   int       `json:"alerts"`          // in all clusters
	Affected int       `json:"affected"`        // clusters that run an affected version
	Old      int       `json:"old"`             // clusters that are not up: their state is that of the last answer
	// Versions counts the clusters by running version.
	Versions []FleetVersion     `json:"versions,omitempty"`
	Clusters []FleetRuleCluster `json:"clusters"`
}

// FleetVersion is how many clusters run a version.
type FleetVersion struct {
	Version  string `json:"version"`
	Clusters int    `json:"clusters"`
}

// FleetRuleCluster is a rule in one cluster.
type FleetRuleCluster struct {
	Cluster  string    `json:"cluster"`
	Link     string    `json:"link,omitempty"` // its alerts
	Open     int       `json:"open"`           // alerts
	Since    time.Time `json:"since"`
	Affected string    `json:"affected,omitempty"` // yes, no or unknown; absent: the rule names no versions
	Versions []string  `json:"versions,omitempty"`
	Old      bool      `json:"old,omitempty"` // as last reported
}

// FleetDiscovery is a service discovery that fails. The clusters of before are read.
type FleetDiscovery struct {
	Kind  string    `json:"kind"` // http_sd or file_sd
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

const noFleet = "this daemon is no fleet view: sources.fleet is not in its configuration"

func (s *Server) apiFleet(*http.Request) (any, *apiError) {
	if s.view.Fleet == nil {
		return nil, notFound(noFleet)
	}
	return s.view.Fleet(), nil
}

// fleetPage shows the clusters and the rules that are open in them.
func (s *Server) fleetPage(w http.ResponseWriter, r *http.Request) {
	if s.view.Fleet == nil {
		s.fail(w, http.StatusNotFound, "Not found", capital(noFleet)+".")
		return
	}
	data := fleetData{Fleet: s.view.Fleet(), Filter: r.URL.Query().Get("filter"), Severities: []string{"critical", "warning", "info", "none"}}
	data.Total = len(data.Clusters)
	words := strings.Fields(strings.ToLower(data.Filter))
	var clusters []FleetCluster
	for _, c := range data.Clusters {
		if hasWords(words, c.Name, c.State, c.Version, c.Error) {
			clusters = append(clusters, c)
		}
	}
	var rules []FleetRule
	for _, x := range data.Rules {
		texts := []string{x.Rule, x.Severity}
		for _, c := range x.Clusters {
			texts = append(texts, c.Cluster)
		}
		if hasWords(words, texts...) {
			rules = append(rules, x)
		}
	}
	data.Clusters, data.Rules = clusters, rules
	s.render(w, "fleet", http.StatusOK, page{Title: "Fleet", Path: "/fleet", Data: data})
}

type fleetData struct {
	Fleet
	Filter     string
	Total      int      // clusters
	Severities []string // with a column of their own
}
