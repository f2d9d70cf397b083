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
	out := []string{"- name: " + plain(t.Name), "  stream: " + labels(t.Stream), "  input:"}
	for _, in := range t.Input {
		text := fmt.Sprintf("  - {at: %s, line: %s", offset(in.At), strconv.Quote(in.Text))
		if in.Repeat > 1 {
			text += fmt.Sprintf(", repeat: %d, every: %s", in.Repeat, offset(in.Every))
		}
		if len(in.Labels) > 0 {
			text += ", labels: " + labels(in.Labels)
		}
		out = append(out, text+"}")
	}
	out = append(out, "  expect:")
	for _, c := range t.Expect {
		out = append(out, "  - "+checkpoint(c))
	}
	return out
}

func checkpoint(c rules.Checkpoint) string {
	text := "{at: " + offset(c.At)
	if c.None {
		text += ", firing: none"
	} else {
		text += ", firing: " + alerts(c.Firing)
	}
	if len(c.Resolved) > 0 {
		text += ", resolved: " + alerts(c.Resolved)
	}
	return text + "}"
}

func alerts(all []rules.ExpectedAlert) string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = labels(a.Labels)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// offset writes a time as rules do.
func offset(d time.Duration) string { return model.Duration(d).String() }

func labels(of map[string]string) string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(of), byImportance) {
		out = append(out, name+": "+plain(of[name]))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// byImportance puts the names that say where something is first.
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

// plain writes a value without quotes if YAML reads it as this text everywhere.
func plain(s string) string {
	if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" || !letter(s[0]) ||
		slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return strconv.Quote(s)
	}
	return s
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
