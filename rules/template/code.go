package template

import "crowsnest/internal/codec"

// Code stores a template with what parsing it has found, so that reading it parses nothing.
func Code(c *codec.Codec, t *Template) {
	codec.Text(c, &t.source)
	c.Bool(&t.actions)
	if !t.actions {
		codec.Text(c, &t.plain)
		return
	}
	codec.Texts(c, &t.labels)
	codec.Texts(c, &t.vars)
	c.Bool(&t.value)
	c.Bool(&t.line)
}
