package web

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"crowsnest/rules"
)

// The data of API responses. docs/api.md and openapi.json describe them.

// Alerts is the data of alerts.
type Alerts struct {
	Alerts []Alert `json:"alerts"`
}

// Episodes is the data of episodes.
type Episodes struct {
	Episodes []Episode `json:"episodes"`
}

// EpisodeDetail is the data of one episode.
type EpisodeDetail struct {
	Episode
	Deliveries  []Delivery `json:"deliveries"`            // the last answer of each receiver
	Undelivered []Delivery `json:"undelivered,omitempty"` // receivers that do not have the newest state
	Actions     Actions    `json:"actions"`
	PerMinute   *PerMinute `json:"perMinute,omitempty"`
}

// Counts is the data of counts.
type Counts struct {
	Facets []Facet `json:"facets"`
}

// Runbook is the data of the runbook of a rule.
type Runbook struct {
	Markdown string `json:"markdown"`
}

// Groups is the data of rules.
type Groups struct {
	Groups []Group `json:"groups"`
}

// SourceList is the data of sources.
type SourceList struct {
	Sources   []Source   `json:"sources"`
	Endpoints []Endpoint `json:"endpoints"`
	// Discoveries are the lookups that find receivers.
	Discoveries []Discovery `json:"discoveries,omitempty"`
}

// RulePack is a pack with a rule, as a starting point.
type RulePack struct {
	Pack string `json:"pack"` // the pack as YAML
}

// ConfigYAML is the effective configuration, without secrets.
type ConfigYAML struct {
	YAML string `json:"yaml"`
}

// BuildInfo is the version of the program.
type BuildInfo struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Branch    string `json:"branch"`
	BuildUser string `json:"buildUser"`
	BuildDate string `json:"buildDate"`
	GoVersion string `json:"goVersion"`
}

func buildInfo() BuildInfo {
	return BuildInfo{version.Version, version.GetRevision(), version.Branch, version.BuildUser, version.BuildDate, version.GoVersion}
}

// versionFacts returns the known facts about the version in a form for people.
func (b BuildInfo) versionFacts() []pair {
	all := []pair{
		{"Version", b.Version},
		{"Revision", b.Revision},
		{"Branch", b.Branch},
		{"Built", strings.Join(strings.Fields(b.BuildDate+" "+b.BuildUser), " by ")},
		{"Go", strings.TrimPrefix(b.GoVersion, "go")},
	}
	return slices.DeleteFunc(all, func(p pair) bool { return p.Value == "" || p.Value == "unknown" })
}

// RuntimeInfo is the state of the process.
type RuntimeInfo struct {
	Start       time.Time `json:"startTime"`
	Now         time.Time `json:"serverTime"`
	ReloadOK    bool      `json:"reloadConfigSuccess"`
	LastLoad    time.Time `json:"lastConfigTime"` // time of the last successful load of rules and configuration
	ReloadError string    `json:"lastReloadError"`
	Goroutines  int       `json:"goroutineCount"`
	MaxProcs    int       `json:"GOMAXPROCS"`
	Saved       time.Time `json:"stateSaved"` // 0001-01-01T00:00:00Z if it was never saved
	SaveErrors  int64     `json:"stateSaveErrors"`
	Storage     string    `json:"storagePath"`
	// Missing lists what the daemon needs before it is ready. Absent lists the peers that
	// cannot be reached, and what is not watched because of that. Unhealthy lists the parts
	// that have stopped and may work again after a restart.
	Missing   []string `json:"missing"`
	Absent    []string `json:"absent"`
	Unhealthy string   `json:"unhealthy,omitempty"`
	// Coverage describes which sources are read, as the heartbeat does. It begins with full,
	// partial or starting.
	Coverage string `json:"coverage,omitempty"`
	// ExternalURL is the configured address of the pages. External has the labels that are
	// added to every alert.
	ExternalURL string            `json:"externalURL,omitempty"`
	External    map[string]string `json:"externalLabels"`
	Pair        *Pair             `json:"pair,omitempty"` // absent without a standby
}

func (s *Server) runtimeInfo() RuntimeInfo {
	st := s.view.Status()
	return RuntimeInfo{
		Start: st.Start, Now: s.opt.Now().UTC(), ReloadOK: st.Reload.OK, LastLoad: st.Reload.Success, ReloadError: st.Reload.Error,
		Goroutines: runtime.NumGoroutine(), MaxProcs: runtime.GOMAXPROCS(0), Saved: st.SavedAt, SaveErrors: st.SaveErrors, Storage: st.Storage,
		Missing: notNil(st.Missing), Absent: notNil(st.Absent), Unhealthy: st.Unhealthy, Coverage: st.Coverage,
		ExternalURL: st.ExternalURL, External: notNilMap(externalLabels(s.view)), Pair: st.Pair,
	}
}

// Affected states which versions of a component have the failure of a rule.
type Affected struct {
	Component string `json:"component"`
	Versions  string `json:"versions"`
	FixedIn   string `json:"fixedIn,omitempty"`
	Ref       string `json:"ref,omitempty"`
}

func toAffected(all []rules.Affects) (out []Affected) {
	for _, a := range all {
		out = append(out, Affected{a.Component, a.Versions, a.FixedIn, a.Ref})
	}
	return out
}

// Verified states in which versions of a component the texts of a rule were found.
type Verified struct {
	Component string   `json:"component"`
	Versions  string   `json:"versions"`
	Running   []string `json:"running,omitempty"` // versions that run, as tags of images; absent if unknown
	// Outside are running versions for which the rule was not verified. Unknown are running
	// versions that cannot be compared.
	Outside []string `json:"outside,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

func toVerified(all []rules.Verified, running map[string][]string) (out []Verified) {
	for _, v := range all {
		w := Verified{Component: v.Component, Versions: v.Versions, Running: running[v.Component]}
		for _, tag := range w.Running {
			if outside, known := v.Outside(tag); !known {
				w.Unknown = append(w.Unknown, tag)
			} else if outside {
				w.Outside = append(w.Outside, tag)
			}
		}
		out = append(out, w)
	}
	return out
}

// Unverified describes the running versions for which the rule was not verified. It returns ""
// if there are none.
func (r Rule) Unverified() string {
	var parts []string
	for _, v := range r.Verified {
		if len(v.Outside) > 0 {
			parts = append(parts, fmt.Sprintf("verified for %s %s, you run %s", v.Component, v.Versions, strings.Join(v.Outside, ", ")))
		}
	}
	return strings.Join(parts, "; ")
}
