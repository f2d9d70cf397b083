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

// Actions are the actions that a reader can take on an episode.
type Actions struct {
	Silence     string `json:"silence,omitempty"` // page for silencing the alert, in Alertmanager or as a path on this server
	Logs        string `json:"logs,omitempty"`    // page that shows the logs of the alert
	Kubectl     string `json:"kubectl,omitempty"` // command that prints the logs of the alert
	Runbook     string `json:"runbook,omitempty"` // runbook of the rule, as a path on this server
	RuleRunbook string `json:"more,omitempty"`    // address of a runbook that the rule states
}

// episodeActions returns the actions that a reader can take on an episode. Label values may come from log lines. So
// addresses contain them only encoded, and commands contain only valid names of Kubernetes objects.
func (s *Server) episodeActions(e episodes.Episode) Actions {
	links := s.view.Links()
	out := Actions{RuleRunbook: safeLink(e.Annotations["runbook_url"]), Logs: safeLink(e.Annotations["logs_url"])}
	if e.Rule != nil {
		out.Kubectl, out.Runbook = kubectlCommand(e), "/runbooks/"+url.PathEscape(e.Rule.Alert)
		if out.Logs == "" && links.Logs != "" {
			out.Logs = safeLink(logsLink(links.Logs, e, s.opt.Now()))
		}
	}
	switch {
	case !isEpisodeOpen(e) || e.Silent:
	case s.makesSilences():
		out.Silence = "/episodes/" + e.Fingerprint.String() + "/silence"
	case links.Alertmanager != "":
		out.Silence = safeLink(strings.TrimSuffix(links.Alertmanager, "/") + "/#/silences/new?filter=" + percentEncode(s.whereSelector(e)))
	}
	return out
}

func (s *Server) whereSelector(e episodes.Episode) string { return formatSelector(s.sentLabels(e)) }

// sentLabels returns the labels of an alert as sent to Alertmanager, with external labels.
func (s *Server) sentLabels(e episodes.Episode) map[string]string {
	return withLabels(e.Labels, externalLabels(s.view))
}

// streamLabels are the names of labels that an alert usually takes over from its stream.
var streamLabels = []string{"cluster", "namespace", "pod", "container", "node", "app", "unit"}

// logSelector returns a LogQL selector for the streams of an episode.
func logSelector(e episodes.Episode) string {
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

// timeWindow returns the time range of logs that is worth reading for an episode.
func timeWindow(e episodes.Episode, now time.Time) (from, to time.Time) {
	from, to = e.ActiveAt().Add(-10*time.Minute), now
	if !e.EndsAt.IsZero() {
		to = e.EndsAt.Add(5 * time.Minute)
	}
	return from, to
}

var placeholder = lazyre.New(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// logsLink replaces the placeholders in a template for an address. docs/configuration.md lists the placeholders.
func logsLink(template string, e episodes.Episode, now time.Time) string {
	from, to := timeWindow(e, now)
	quoted, _ := json.Marshal(logSelector(e)) // a string can always be encoded
	values := map[string]string{
		"selector": logSelector(e), "selector_json": string(quoted[1 : len(quoted)-1]),
		"from": strconv.FormatInt(from.UnixMilli(), 10), "to": strconv.FormatInt(to.UnixMilli(), 10),
		"from_time": from.UTC().Format(time.RFC3339), "to_time": to.UTC().Format(time.RFC3339),
	}
	return placeholder.ReplaceAllStringFunc(template, func(m string) string {
		name := m[1 : len(m)-1]
		value, ok := values[name]
		if !ok {
			value = e.Labels[name]
		}
		return percentEncode(value)
	})
}

// percentEncode encodes a string for a query. It encodes a space as %20, because not every page accepts +.
func percentEncode(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// objectName matches names of Kubernetes objects, which contain no special characters of a shell.
var objectName = lazyre.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// kubectlCommand returns a command that prints the logs of an episode. It returns "" if the pod is not known.
func kubectlCommand(e episodes.Episode) string {
	namespace, pod, container := e.Labels["namespace"], e.Labels["pod"], e.Labels["container"]
	if !objectName.MatchString(namespace) || !objectName.MatchString(pod) {
		return ""
	}
	for _, m := range e.Rule.From.Matchers() {
		if m.Name == "container" && m.Op == sel.Equal && container == "" {
			container = m.Value
		}
	}
	from, _ := timeWindow(e, e.StartsAt)
	command := fmt.Sprintf("kubectl logs -n %s %s", namespace, pod)
	if objectName.MatchString(container) {
		command += " -c " + container
	}
	return command + " --timestamps --since-time=" + from.UTC().Format(time.RFC3339)
}
