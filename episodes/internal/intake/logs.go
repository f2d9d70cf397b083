package intake

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/matcher"
)

const (
	// maxLogs is the maximum number of distinct logs that are counted per episode.
	maxLogs = 16
	// maxOthers is the maximum number of namespaces that an episode lists besides the namespace of its first log.
	maxOthers = 5
)

// logLabels are the labels that identify a log and describe it to people, in this order.
var logLabels = []string{"cluster", "tenant", "namespace", "pod", "container", "node", "node_name", "unit", "component"}

// Logs counts the logs that contain the lines of an episode.
type Logs struct {
	First           string   // description of the first log
	Hashes          []uint64 // hashes of the counted logs, at most maxLogs
	OtherNamespaces []string // namespaces of further logs, at most maxOthers
	Namespace       string   // namespace of the first log
	last            uint64
}

// CountLog adds the log that contains a line.
func (l *Logs) CountLog(o *Origin) {
	if o.log == l.last && len(l.Hashes) > 0 {
		return
	}
	l.last = o.log
	if len(l.Hashes) == 0 {
		l.First, l.Namespace = describeLog(o.Labels), strings.Clone(o.Labels["namespace"])
	}
	if len(l.Hashes) < maxLogs && !slices.Contains(l.Hashes, o.log) {
		l.Hashes = append(l.Hashes, o.log)
	}
	l.noteNamespace(o.Labels["namespace"])
}

func (l *Logs) noteNamespace(name string) {
	if name == l.Namespace || name == "" || len(l.OtherNamespaces) == maxOthers {
		return
	}
	if shown := plainName(name); !slices.Contains(l.OtherNamespaces, shown) {
		l.OtherNamespaces = append(l.OtherNamespaces, shown)
	}
}

// Clone returns an independent copy with at most maxLogs logs.
func (l Logs) Clone() Logs {
	l.Hashes = slices.Clone(l.Hashes[:min(len(l.Hashes), maxLogs)])
	l.OtherNamespaces = slices.Clone(l.OtherNamespaces[:min(len(l.OtherNamespaces), maxOthers)])
	return l
}

// String returns the first log, the number of other logs, and their namespaces.
func (l *Logs) String() string {
	if len(l.OtherNamespaces) > 0 {
		more := ""
		if len(l.OtherNamespaces) == maxOthers {
			more = " and perhaps more"
		}
		return l.describeLogs() + ", also in namespace " + strings.Join(l.OtherNamespaces, ", ") + more
	}
	return l.describeLogs()
}

func (l *Logs) describeLogs() string {
	switch more := len(l.Hashes) - 1; {
	case more <= 0 || l.First == "":
		return l.First
	case len(l.Hashes) == maxLogs:
		return fmt.Sprintf("%s and at least %d other logs", l.First, more)
	case more == 1:
		return l.First + " and 1 other log"
	default:
		return fmt.Sprintf("%s and %d other logs", l.First, more)
	}
}

// logID returns a hash that identifies a log. It uses the logLabels, or the file name if the log has none of them.
func logID(labels matcher.Labels) uint64 {
	h := fnv.New64a()
	if !slices.ContainsFunc(logLabels, func(name string) bool { return labels[name] != "" }) {
		h.Write([]byte(labels["filename"]))
	}
	for _, name := range logLabels {
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return h.Sum64()
}

// Describe returns a description of the stream for people. It is empty if no label states where the lines come from.
func (o *Origin) Describe() string { return describeLog(o.Labels) }

// describeLog returns a description of a log for people. It is empty if no label states where the lines come from. Loki
// and files may give labels any value, so only characters of Kubernetes names and paths are shown.
func describeLog(labels matcher.Labels) string {
	var parts []string
	for _, name := range logLabels {
		v := labels[name]
		if v == "" || name == "node_name" && labels["node"] != "" {
			continue
		}
		parts = append(parts, strings.TrimSuffix(name, "_name")+" "+plainName(v))
	}
	if len(parts) == 0 && labels["filename"] != "" {
		parts = append(parts, "file "+plainName(labels["filename"]))
	}
	return strings.Join(parts, ", ")
}

// plainName replaces every character that does not occur in Kubernetes names and paths.
func plainName(v string) string {
	return text.Truncate(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-._/", r):
			return r
		}
		return '?'
	}, v), MaxValue)
}
