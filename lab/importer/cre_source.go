package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/yamltext"
	"crowsnest/redact"
)

// journalSources contains the sources of CREs whose lines are in the journal of a node.
var journalSources = map[string]string{
	"kubelet": `{unit="kubelet.service"}`, "docker": `{unit="docker.service"}`, "dockerd": `{unit="docker.service"}`,
	"containerd": `{unit="containerd.service"}`, "kernel": `{transport="kernel"}`, "dmesg": `{transport="kernel"}`,
	"syslog": `{transport=~".+"}`, "journal": `{transport=~".+"}`, "systemd": `{identifier="systemd"}`,
}

// podSources contains the components whose containers are not named like the component.
var podSources = map[string]string{
	"ingress-nginx": "ingress-nginx", "harbor": "harbor", "strimzi-kafka-operator": "strimzi-cluster-operator",
}

// correlations maps the names of labels in CREs to the names of stream labels.
var correlations = map[string]string{
	"hostname": "node", "host": "node", "node": "node", "nodename": "node", "node_name": "node",
	"pod": "pod", "podname": "pod", "pod_name": "pod", "namespace": "namespace",
	"container": "container", "containername": "container", "container_name": "container",
}

// placeCRE sets the selector of the streams that the rule reads, and the labels by which its alerts are grouped.
func (im *importer) placeCRE(r *rule, c *creRule, cond *creCondition) error {
	if cond.source == "" && im.opt.From == "" {
		return fmt.Errorf("it names no `event.source`; state the streams with --from")
	}
	from, err := sourceSelector(r, c, cond)
	if im.opt.From != "" {
		from, err = im.opt.From, nil
		r.warnings = slices.DeleteFunc(r.warnings, func(w string) bool { return w == allContainers })
	}
	if err != nil {
		return err
	}
	r.from, r.by = from, []string{alertKey(from)}
	for _, name := range cond.correlations {
		label := correlations[strings.ToLower(name)]
		if label == "" {
			return fmt.Errorf("it correlates lines by %q, which is no label of streams: lines can be correlated by node, namespace, pod or container", redact.Sanitise(name))
		}
		if !slices.Contains(r.by, label) {
			r.by = append(r.by, label)
		}
	}
	r.comments = append(r.comments, c.id+", source "+cond.source)
	return nil
}

// alertKey returns the label by which alerts are grouped. For lines of a journal, this is the node.
func alertKey(from string) string {
	for _, label := range []string{"{unit", "{transport", "{identifier"} {
		if strings.HasPrefix(from, label) {
			return "node"
		}
	}
	return "namespace"
}

const allContainers = "the source names no container, so the rule reads the logs of all containers: state the streams with --from"

// columns matches expressions that depend on how kubectl aligns the columns of Events.
var columns = lazyre.New(`\\t|\^|(Normal|Warning)\\s`)

func sourceSelector(r *rule, c *creRule, cond *creCondition) (string, error) {
	var containers []string
	for _, a := range c.applications[:min(len(c.applications), maxListed)] {
		if a.container != "" && !slices.Contains(containers, a.container) {
			containers = append(containers, a.container)
		}
	}
	name, isLog := strings.CutPrefix(cond.source, "cre.log.")
	switch {
	case cond.source == "cre.kubernetes":
		for _, t := range slices.Concat(cond.terms, cond.negate) {
			if columns.MatchString(t.regex) {
				return "", refuseAt(t.valueAt, "the expression matches the columns of a list of kubectl, and the lines that crowsnest writes for Events have fields instead: type, reason, kind, object, message")
			}
		}
		r.warn("the CRE was written for lists of kubectl; the rule reads Kubernetes Events, so check that it matches their fields")
		return `{component="events"}`, nil
	case strings.HasPrefix(cond.source, "cre.config."):
		return "", fmt.Errorf("it reads configuration files (%s), and crowsnest reads logs; if such a file is written to a log, state its streams with --from", redact.Sanitise(cond.source))
	case strings.HasPrefix(cond.source, "cre.prequel.kubernetes.resource."):
		return "", fmt.Errorf("it reads Kubernetes objects (%s), not logs", redact.Sanitise(cond.source))
	case !isLog || name == "":
		return "", fmt.Errorf("the source %q is not a log: state its streams with --from", redact.Sanitise(cond.source))
	case len(containers) == 1:
		return "{container=" + strconv.Quote(containers[0]) + "}", nil
	case len(containers) > 1:
		for i := range containers {
			containers[i] = regexp.QuoteMeta(containers[i])
		}
		return "{container=~" + strconv.Quote(strings.Join(containers, "|")) + "}", nil
	case journalSources[name] != "":
		return journalSources[name], nil
	}
	component := componentName(name)
	switch {
	case component == "":
		r.warn("%s", allContainers)
		return `{container=~".+"}`, nil
	case podSources[component] != "":
		return "{pod=~" + strconv.Quote(".*"+podSources[component]+".*") + "}", nil
	}
	return "{container=~" + strconv.Quote(".*"+regexp.QuoteMeta(component)+".*") + "}", nil
}

// generatedEnd matches the end of a source that was generated from the title of a list.
var generatedEnd = lazyre.New(`-[0-9]+(-log-based)?-cres?(-candidates)?$`)

// maxWords is the maximum number of words in the name of a component. A text with more words is a sentence.
const maxWords = 4

// componentName returns the name of the component in a source. It is the words with which the
// source both starts and ends (as in cert-manager-ORGANISATION-cert-manager), or the words
// before "on", or all words. It returns "" if the source contains no clear name.
func componentName(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 && strings.Contains(name[i:], "-") {
		name = name[i+1:]
	}
	name = generatedEnd.ReplaceAllString(name, "")
	words := strings.Split(name, "-")
	for n := 1; 2*n < len(words); n++ {
		if slices.Equal(words[:n], words[len(words)-n:]) {
			words = words[:n]
		}
	}
	if i := slices.Index(words, "on"); i > 0 {
		words = words[:i]
	}
	if len(words) > maxWords || strings.ContainsFunc(name, func(r rune) bool { return !yamltext.IsPrintable(r) || strings.ContainsRune(`"\ `, r) }) {
		return ""
	}
	return strings.Join(words, "-")
}
