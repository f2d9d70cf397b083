package capture

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/rules"
)

// YAML returns the test as an item of a list, line by line, without indentation.
func (t *Test) YAML() []string {
	out := []string{"- name: " + plainYAML(t.Name), "  stream: " + labelsYAML(t.Stream), "  input:"}
	for _, in := range t.Input {
		text := fmt.Sprintf("  - {at: %s, line: %s", offsetText(in.At), strconv.Quote(in.Text))
		if in.Repeat > 1 {
			text += fmt.Sprintf(", repeat: %d, every: %s", in.Repeat, offsetText(in.Every))
		}
		if len(in.Labels) > 0 {
			text += ", labels: " + labelsYAML(in.Labels)
		}
		out = append(out, text+"}")
	}
	out = append(out, "  expect:")
	for _, c := range t.Expect {
		out = append(out, "  - "+checkpointYAML(c))
	}
	return out
}

func checkpointYAML(c rules.Checkpoint) string {
	text := "{at: " + offsetText(c.At)
	if c.None {
		text += ", firing: none"
	} else {
		text += ", firing: " + alertsYAML(c.Firing)
	}
	if len(c.Resolved) > 0 {
		text += ", resolved: " + alertsYAML(c.Resolved)
	}
	return text + "}"
}

func alertsYAML(all []rules.ExpectedAlert) string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = labelsYAML(a.Labels)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// offsetText returns a duration in the notation of rules.
func offsetText(d time.Duration) string { return model.Duration(d).String() }

func labelsYAML(values map[string]string) string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(values), byImportance) {
		out = append(out, name+": "+plainYAML(values[name]))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// byImportance compares names of labels. Names that say where something is come first.
func byImportance(a, b string) int {
	rank := func(name string) int {
		if k := slices.Index([]string{"alertname", "namespace", "pod", "container"}, name); k >= 0 {
			return k
		}
		return 9
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// plainYAML returns s without quotes if every YAML parser reads the result as this text,
// otherwise with quotes.
func plainYAML(s string) string {
	if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" || !isPlainLetter(s[0]) ||
		slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return strconv.Quote(s)
	}
	return s
}

func isPlainLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
