package selector

import (
	"crowsnest/internal/codec"
	"crowsnest/internal/literals"
)

// Code reads or writes a selector that Parse has returned, so that a stored selector need not
// be parsed.
func Code(c *codec.Codec, s *Selector) {
	codec.Text(c, &s.text)
	codec.List(c, &s.matchers, func(c *codec.Codec, m *Matcher) {
		codec.Text(c, &m.Name)
		codec.Text(c, &m.Op)
		codec.Text(c, &m.Value)
		codec.Pointer(c, &m.re, literals.Code)
	})
}
