package template

import "crowsnest/internal/codec"

// Code reads or writes a template with the results of parsing it, so that a stored template
// need not be parsed.
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
	uses := 0 // bits for what the template uses
	for i, used := range []bool{t.line, t.failure} {
		if used {
			uses |= 1 << i
		}
	}
	c.Int(&uses)
	t.line, t.failure = uses&1 != 0, uses&2 != 0
}
