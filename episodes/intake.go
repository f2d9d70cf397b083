package episodes

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
)

// intake turns the hits of Take into lines that count: it finds their stream, cleans
// their values and joins their keys. It reuses its memory for each hit.
type intake struct {
	window.Copier
	redactor *redact.Redactor
	origins  origins
	cleaned  *simplelru.LRU[cleanKey, string]

	hit window.Hit // that is counted
	// moved is how far its time was moved back because the clock was.
	moved  int64
	by     []string // its values of `by`
	key    []byte   // the key of these and the identity
	origin          // of its stream
}

// maxClean bounds the cache of cleaned values.
const maxClean = 4096

// cleanKey names a value of a rule.
type cleanKey struct {
	rule  uint64
	name  int
	value string
}

func newIntake(cfg Config, r *render.Renderer) intake {
	return intake{
		Copier:   window.Copier{Max: render.MaxLine, Clean: cfg.Redactor == nil, Sample: r.Line},
		redactor: cfg.Redactor, origins: newOrigins(cfg.Identity), cleaned: newLRU[cleanKey, string](maxClean),
	}
}

// newLRU makes an LRU cache; n is positive, so there is no error.
func newLRU[K comparable, V any](n int) *simplelru.LRU[K, V] {
	lru, _ := simplelru.NewLRU[K, V](n, nil)
	return lru
}

// end drops all references to the memory of the caller of Take.
func (b *intake) end() {
	b.Release()
	clear(b.by[:cap(b.by)])
	b.by, b.hit = b.by[:0], window.Hit{}
}

// from makes a stream the origin of the hit.
func (b *intake) from(labels matcher.Labels) {
	if address := addressOf(labels); address != b.address { // hardly ever
		b.origin = *b.origins.of(labels, address)
	}
}

// keyOf joins the key of a hit and returns its values of `by`, truncated, and whether one
// is missing. They and the key are valid until the next call.
func (b *intake) keyOf(rs *ruleState, wanted []string) (values []string, missing bool) {
	values = b.by[:0]
	if r := &rs.last; r.keyed {
		b.by = append(values, r.values[:len(rs.rule.By)]...)
		b.key = append(b.key[:0], r.key...)
		return b.by, r.missing
	}
	for i := range rs.rule.By {
		v := ""
		if i < len(wanted) {
			v = wanted[i]
			if !utf8.ValidString(v) {
				v = strings.ToValidUTF8(v, "\uFFFD") // values become labels
			}
			v = text.Truncate(v, maxValue)
		}
		missing = missing || v == ""
		values = append(values, v)
	}
	b.by = values
	b.key = append(appendKey(b.key[:0], values, nil), b.who.suffix()...)
	rs.last.join(b, missing)
	return values, missing
}

// clean returns the values of a hit as one line each, without secrets, control and
// invisible characters, and of bounded length. A captured value has lost the context
// that made it a secret ("hunter2" of "password=hunter2"), so the line decides; labels
// of the stream are not checked. Nearly all values were seen before.
func (b *intake) clean(rs *ruleState, h *matcher.Hit) []string {
	out, line, last, by := h.Values, "", &rs.last, len(rs.rule.By)
	last.begin(b, len(h.Values))
	for i, v := range h.Values {
		if v == last.values[i] {
			continue
		}
		c, kept := v, false
		if v != "" && i < len(h.Rule.CapturedNames) {
			c, kept = b.cleanValue(rs, h, i, &line)
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
func (b *intake) cleanValue(rs *ruleState, h *matcher.Hit, i int, line *string) (c string, kept bool) {
	v := h.Values[i]
	if b.redactor == nil {
		return text.Truncate(redact.Sanitise(v), render.MaxLine), false
	}
	if label := h.Labels[h.Rule.CapturedNames[i]]; v == label && redact.Sanitise(v) == v {
		return label, true
	}
	key := cleanKey{rs.seed, i, v}
	if c, ok := b.cleaned.Get(key); ok {
		return c, true
	}
	if *line == "" {
		*line = b.redactor.String(h.Line)
	}
	c = text.Truncate(redact.Sanitise(b.redactor.Part(h.Line, *line, v)), render.MaxLine)
	if len(v) > render.MaxLine {
		return c, false
	}
	key.value = strings.Clone(v)
	if c == v {
		c = key.value
	} else {
		c = strings.Clone(c)
	}
	b.cleaned.Add(key, c)
	return c, true
}
