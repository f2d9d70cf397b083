package episodes

import (
	"slices"
	"strings"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// maxClean bounds the cache of cleaned values.
const maxClean = 4096

// cleanKey names a value of a rule.
type cleanKey struct {
	rule  uint64
	name  int
	value string
}

// clean returns the values of a hit as one line each, without secrets, control and
// invisible characters, and of bounded length. A captured value has lost the context
// that made it a secret ("hunter2" of "password=hunter2"), so the line decides; labels
// of the stream are not checked. Nearly all values were seen before.
func (e *Engine) clean(rs *ruleState, h *matcher.Hit) []string {
	out, line, last, by := h.Values, "", &rs.last, len(rs.rule.By)
	last.begin(&e.batch, len(h.Values))
	for i, v := range h.Values {
		if v == last.values[i] {
			continue
		}
		c, kept := v, false
		if v != "" && i < len(h.Rule.CapturedNames) {
			c, kept = e.cleanValue(rs, h, i, &line)
		}
		if last.learn(i, "", by); c == v {
			if kept {
				last.learn(i, c, by)
			}
			continue
		}
		if &out[0] == &h.Values[0] {
			out = slices.Clone(out)
		}
		out[i] = c
	}
	return out
}

// cleanValue is clean for one value. line is the redacted line, once that is known.
// kept reports whether the result is in memory that the caller of Take does not own.
func (e *Engine) cleanValue(rs *ruleState, h *matcher.Hit, i int, line *string) (c string, kept bool) {
	v := h.Values[i]
	if e.cfg.Redactor == nil {
		return truncate(redact.Sanitise(v), maxSample), false
	}
	if label := h.Labels[h.Rule.CapturedNames[i]]; v == label && redact.Sanitise(v) == v {
		return label, true
	}
	key := cleanKey{rs.seed, i, v}
	if c, ok := e.cleaned.Get(key); ok {
		return c, true
	}
	if *line == "" {
		*line = e.cfg.Redactor.String(h.Line)
	}
	c = truncate(redact.Sanitise(e.cfg.Redactor.Part(h.Line, *line, v)), maxSample)
	if len(v) > maxSample {
		return c, false
	}
	key.value = strings.Clone(v)
	if c == v {
		c = key.value
	} else {
		c = strings.Clone(c)
	}
	e.cleaned.Add(key, c)
	return c, true
}
