package episodes

import (
	"slices"
	"strings"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// maxClean is how many values are remembered as looked at.
const maxClean = 4096

// cleanKey names a value of a rule.
type cleanKey struct {
	rule  uint64
	name  int
	value string
}

// clean returns the values of a hit as one line each, without secrets, control
// and invisible characters, and of bounded length. A
// value that was taken out of a line has lost what made it a secret there
// ("hunter2" of "password=hunter2"), so the line decides; labels of the stream
// are not looked at. Nearly all values were seen before.
func (e *Engine) clean(rs *ruleState, h *matcher.Hit) []string {
	if e.cfg.Redactor == nil {
		return e.clip(h.Values)
	}
	out, line := h.Values, ""
	for i, v := range h.Values {
		if v == "" || i >= len(h.Rule.Wants) || v == h.Labels[h.Rule.Wants[i]] && redact.Sanitise(v) == v {
			continue
		}
		key := cleanKey{rs.seed, i, v}
		c, ok := e.cleaned.Get(key)
		if !ok {
			if line == "" {
				line = e.cfg.Redactor.String(h.Line)
			}
			c = cut(redact.Sanitise(e.cfg.Redactor.Part(h.Line, line, v)), maxSample)
			if len(v) <= maxSample {
				key.value = strings.Clone(v)
				if c == v {
					c = key.value
				} else {
					c = strings.Clone(c)
				}
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

// clip bounds and cleans values that are not searched for secrets.
func (e *Engine) clip(values []string) []string {
	out := values
	for i, v := range values {
		c := cut(redact.Sanitise(v), maxSample)
		if c == v {
			continue
		}
		if &out[0] == &values[0] {
			out = slices.Clone(values)
		}
		out[i] = c
	}
	return out
}
