// Package intake prepares hits for counting. It finds the stream of a hit, cleans its values
// and builds its key.
//
// Nothing in it is safe for concurrent use.
package intake

import (
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
)

// MaxValue is the maximum length of a label value in bytes.
const MaxValue = 256

// maxClean bounds the cache of cleaned values.
const maxClean = 4096

// maxValues bounds the memory for values that End keeps.
const maxValues = 1 << 14

// Intake prepares one hit at a time. SetOrigin, CleanValues and KeyOf fill it. It reuses its
// memory for each hit.
type Intake struct {
	window.Copier
	Origin            // origin of the stream of the hit
	Hit    window.Hit // the hit that is counted
	// Moved is how far back the time of the hit was moved because the clock was set back.
	Moved int64
	Key   []byte // key made of the identity and the values of `by`

	redactor *redact.Redactor
	origins  origins
	cleaned  *simplelru.LRU[cleanKey, redact.Text]
	by       []redact.Text // values of `by`
	values   []redact.Text // values of all hits until End, concatenated
}

// cleanKey identifies a value of a rule in the cache of redacted values.
type cleanKey struct {
	rule  uint64
	name  int
	value string
}

// New makes an intake for streams with these identity labels. redactor finds the secrets that
// are hidden; nil finds none.
func New(identity []string, redactor *redact.Redactor, r *render.Renderer) Intake {
	return Intake{
		Copier:   window.Copier{Max: render.MaxLine, Sample: r.RedactLine},
		redactor: redactor, origins: newOrigins(identity), cleaned: quota.NewLRU[cleanKey, redact.Text](maxClean),
	}
}

// DropReferences drops all references to the memory of the caller's hits.
func (b *Intake) DropReferences() {
	b.Release()
	clear(b.by[:cap(b.by)])
	clear(b.values)
	b.by, b.values, b.Hit = b.by[:0], b.values[:0], window.Hit{}
	if cap(b.values) > maxValues {
		b.values = nil
	}
}

// SetOrigin sets the origin to the stream with these labels.
func (b *Intake) SetOrigin(labels matcher.Labels) {
	if address := labelsAddress(labels); address != b.address { // this rarely happens
		b.Origin = *b.origins.findOrigin(labels, address)
	}
}

// KeyOf sets Key to the key of the cleaned values of a hit. It returns the values of `by`,
// truncated, and reports whether one is missing. They and Key are valid until the next call.
func (b *Intake) KeyOf(m *Memory, cleaned []redact.Text) (by []redact.Text, missing bool) {
	by = b.by[:0]
	if m.keyed {
		b.by = append(by, m.values[:m.by]...)
		b.Key = append(b.Key[:0], m.key...)
		return b.by, m.missing
	}
	for i := range m.by {
		var v redact.Text
		if i < len(cleaned) {
			v = cleaned[i]
			if !utf8.ValidString(string(v)) || len(v) > MaxValue {
				v = v.Map(labelValue)
			}
		}
		missing = missing || v == ""
		by = append(by, v)
	}
	b.by = by
	b.Key = append(AppendKey(b.Key[:0], by, nil), b.Who.KeySuffix()...)
	m.rememberKey(b, missing)
	return by, missing
}

// labelValue returns the text as a valid label value.
func labelValue(v string) string { return text.Truncate(strings.ToValidUTF8(v, "\uFFFD"), MaxValue) }

// KeyWithoutIdentity returns Key without the identity.
func (b *Intake) KeyWithoutIdentity() string {
	return string(b.Key[:len(b.Key)-len(b.Who.KeySuffix())])
}

// CleanValues returns the values of a hit as one line each, without secrets, control and
// invisible characters, and of bounded length. A captured value has lost the context
// that made it a secret ("hunter2" of "password=hunter2"), so the line decides; labels
// of the stream are not checked. Nearly all values were seen before. The result is valid
// until End.
func (b *Intake) CleanValues(m *Memory, h *matcher.Hit) []redact.Text {
	var line redact.Text
	m.startStream(b, len(h.Values))
	from := len(b.values)
	for i, v := range h.Values {
		c := m.values[i]
		if v != string(c) {
			kept := false
			if c = ""; v != "" && i < len(h.Rule.CapturedNames) {
				c, kept = b.cleanValue(m.Seed, h, i, &line)
			}
			if m.rememberValue(i, ""); kept && string(c) == v {
				m.rememberValue(i, c)
			}
		}
		b.values = append(b.values, c)
	}
	return b.values[from:len(b.values):len(b.values)]
}

// cleanValue returns one value as CleanValues does. line is the redacted line, or empty if it
// was not redacted yet. kept reports whether the result is in memory that the caller does not
// own.
func (b *Intake) cleanValue(rule uint64, h *matcher.Hit, i int, line *redact.Text) (c redact.Text, kept bool) {
	v := h.Values[i]
	if b.redactor == nil {
		return text.Truncate(redact.Sanitise(b.redactor.Text(v)), render.MaxLine), false
	}
	if label := h.Labels[h.Rule.CapturedNames[i]]; v == label && redact.Sanitise(v) == v {
		return redact.Label(label), true
	}
	key := cleanKey{rule, i, v}
	if c, ok := b.cleaned.Get(key); ok {
		return c, true
	}
	if *line == "" {
		*line = b.redactor.Text(h.Line)
	}
	c = text.Truncate(redact.Sanitise(b.redactor.Part(h.Line, *line, v)), render.MaxLine)
	if len(v) > render.MaxLine {
		return c, false
	}
	c = c.Clone()
	if key.value = string(c); key.value != v {
		key.value = strings.Clone(v)
	}
	b.cleaned.Add(key, c)
	return c, true
}
