package episodes

import (
	"slices"
	"strings"

	"crowsnest/matcher"
)

// maxClean is how many values are remembered as looked at.
const maxClean = 4096

// cleanKey names a value of a rule.
type cleanKey struct {
	rule  uint64
	name  int
	value string
}

// clean returns the values of a hit without secrets and of bounded length. A
// value that was taken out of a line has lost what made it a secret there
// ("hunter2" of "password=hunter2"), so the line decides; labels of the stream
// are not looked at. Nearly all values were seen before.
func (e *Engine) clean(rs *ruleState, h *matcher.Hit) []string {
	out, line, hidden := h.Values, "", false
	for i, v := range h.Values {
		if v == "" || i >= len(h.Rule.Wants) || v == h.Labels[h.Rule.Wants[i]] {
			continue
		}
		key := cleanKey{rs.seed, i, v}
		c, ok := e.cleaned.Get(key)
		if !ok {
			if line == "" {
				line = e.cfg.Redact(h.Line)
				hidden = line != h.Line
			}
			c = e.sample(v)
			if hidden && !shows(line, v) {
				c = hiddenValue
			}
			if len(v) <= maxSample {
				key.value = strings.Clone(v) // not the memory of all values
				e.cleaned.Add(key, c)
			}
		}
		if c == v {
			continue
		}
		if &out[0] == &h.Values[0] {
			out = slices.Clone(out)
		}
		out[i] = c
	}
	return out
}

// hiddenValue stands for a value that the redacted line does not show.
const hiddenValue = "<redacted>"

// shows tells whether a line still holds a value, or the parts that the reader
// of fields made it of.
func shows(line, value string) bool {
	if strings.Contains(line, value) {
		return true
	}
	for part := range strings.SplitSeq(value, "/") {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}
