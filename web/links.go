package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/lazyre"
	sel "crowsnest/rules/selector"
)

// Actions are what a reader can do about an episode.
type Actions struct {
	Silence string `json:"silence,omitempty"` // page that makes a silence: of Alertmanager, or a path on this server
	Logs    string `json:"logs,omitempty"`    // page with its logs
	Kubectl string `json:"kubectl,omitempty"` // command that prints its logs
	Runbook string `json:"runbook,omitempty"` // path on this server
	More    string `json:"more,omitempty"`    // the address of a runbook that the rule states
}

// actions returns what a reader can do about an episode. Values of labels may come from log
// lines: they are encoded in addresses, and a command contains only names of Kubernetes.
func (s *Server) actions(e episodes.Episode) Actions {
	links := s.view.Links()
	out := Actions{More: safeLink(e.Annotations["runbook_url"]), Logs: safeLink(e.Annotations["logs_url"])}
	if e.Rule != nil {
		out.Kubectl, out.Runbook = kubectl(e), "/runbooks/"+url.PathEscape(e.Rule.Alert)
		if out.Logs == "" && links.Logs != "" {
			out.Logs = safeLink(logsLink(links.Logs, e, s.opt.Now()))
		}
	}
	switch {
	case !open(e) || e.Silent:
	case s.makesSilences():
		out.Silence = "/episodes/" + e.Fingerprint.String() + "/silence"
	case links.Alertmanager != "":
		out.Silence = safeLink(strings.TrimSuffix(links.Alertmanager, "/") + "/#/silences/new?filter=" + encoded(s.where(e)))
	}
	return out
}

// where returns the labels of an alert in Alertmanager as a matcher.
func (s *Server) where(e episodes.Episode) string { return selector(s.sentLabels(e)) }

// sentLabels returns the labels of an alert in Alertmanager.
func (s *Server) sentLabels(e episodes.Episode) map[string]string {
	return withLabels(e.Labels, external(s.view))
}

// streamLabels are labels of alerts that are labels of their streams, too.
var streamLabels = []string{"cluster", "namespace", "pod", "container", "node", "app", "unit"}

// streams returns the streams of an episode as a selector in LogQL.
func streams(e episodes.Episode) string {
	var parts, stated []string
	for _, m := range e.Rule.From.Matchers() {
		if e.Labels[m.Name] == "" || !slices.Contains(streamLabels, m.Name) {
			parts, stated = append(parts, m.String()), append(stated, m.Name)
		}
	}
	for _, name := range streamLabels {
		if v := e.Labels[name]; v != "" && !slices.Contains(stated, name) {
			parts = append(parts, name+"="+strconv.Quote(v))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// window returns the time around an episode in which its logs are of interest.
func window(e episodes.Episode, now time.Time) (from, to time.Time) {
	from, to = e.ActiveAt().Add(-10*time.Minute), now
	if !e.EndsAt.IsZero() {
		to = e.EndsAt.Add(5 * time.Minute)
	}
	return from, to
}

var placeholder = lazyre.New(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// logsLink replaces the placeholders of a template, as the configuration describes them.
func logsLink(template string, e episodes.Episode, now time.Time) string {
	from, to := window(e, now)
	quoted, _ := json.Marshal(streams(e)) // a string can always be encoded
	values := map[string]string{
		"selector": streams(e), "selector_json": string(quoted[1 : len(quoted)-1]),
		"from": strconv.FormatInt(from.UnixMilli(), 10), "to": strconv.FormatInt(to.UnixMilli(), 10),
		"from_time": from.UTC().Format(time.RFC3339), "to_time": to.UTC().Format(time.RFC3339),
	}
	return placeholder.ReplaceAllStringFunc(template, func(m string) string {
		name := m[1 : len(m)-1]
		value, ok := values[name]
		if !ok {
			value = e.Labels[name]
		}
		return encoded(value)
	})
}

// encoded percent-encodes a text. Not every page takes + for a space.
func encoded(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// objectName is the form of names of Kubernetes, which a shell does not interpret.
var objectName = lazyre.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// kubectl returns a command that prints the logs of an episode; "" if its pod is not known.
func kubectl(e episodes.Episode) string {
	namespace, pod, container := e.Labels["namespace"], e.Labels["pod"], e.Labels["container"]
	if !objectName.MatchString(namespace) || !objectName.MatchString(pod) {
		return ""
	}
	for _, m := range e.Rule.From.Matchers() {
		if m.Name == "container" && m.Op == sel.Equal && container == "" {
			container = m.Value
		}
	}
	from, _ := window(e, e.StartsAt)
	command := fmt.Sprintf("kubectl logs -n %s %s", namespace, pod)
	if objectName.MatchString(container) {
		command += " -c " + container
	}
	return command + " --timestamps --since-time=" + from.UTC().Format(time.RFC3339)
}
