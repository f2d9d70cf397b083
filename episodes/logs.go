package episodes

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/matcher"
)

// maxLogs bounds the distinct logs counted per episode.
const maxLogs = 16

// logLabels identify a log and describe where a line comes from, in this order.
var logLabels = []string{"cluster", "tenant", "namespace", "pod", "container", "node", "node_name", "unit"}

// logs are the logs whose lines an episode has seen since it opened.
type logs struct {
	first string   // for people
	known []uint64 // at most maxLogs
	last  uint64
}

// note adds the log of a line.
func (l *logs) note(o *origin) {
	if o.log == l.last && len(l.known) > 0 {
		return
	}
	l.last = o.log
	if len(l.known) == 0 {
		l.first = describeLog(o.labels)
	}
	if len(l.known) < maxLogs && !slices.Contains(l.known, o.log) {
		l.known = append(l.known, o.log)
	}
}

// String returns the first log and the number of the others.
func (l *logs) String() string {
	switch more := len(l.known) - 1; {
	case more <= 0 || l.first == "":
		return l.first
	case len(l.known) == maxLogs:
		return fmt.Sprintf("%s and at least %d other logs", l.first, more)
	case more == 1:
		return l.first + " and 1 other log"
	default:
		return fmt.Sprintf("%s and %d other logs", l.first, more)
	}
}

// logID identifies a log by its logLabels.
func logID(labels matcher.Labels) uint64 {
	h := fnv.New64a()
	for _, name := range logLabels {
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return h.Sum64()
}

// describeLog returns where lines come from, for people; "" if no label states it. Loki
// and files may give labels any value, so only the characters of Kubernetes names and
// paths are shown.
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

// plainName replaces every character that names and paths do not have.
func plainName(v string) string {
	return text.Truncate(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-._/", r):
			return r
		}
		return '?'
	}, v), maxValue)
}
