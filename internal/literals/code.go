package literals

import "crowsnest/internal/codec"

// Code reads or writes an expression with the results of parsing it, so that a stored
// expression need not be parsed.
func Code(c *codec.Codec, e *Expression) {
	codec.Text(c, &e.text)
	codec.Texts(c, &e.names)
	codec.Pointer(c, &e.need, codeCond)
	c.Bool(&e.empty)
}

func codeCond(c *codec.Codec, v *Cond) {
	kind := int(v.op)
	c.Int(&kind)
	v.op = op(kind)
	c.Bool(&v.exact)
	c.Bool(&v.gaps)
	c.Bool(&v.escapable)
	if v.op == opText {
		codec.Text(c, &v.text.Text)
		c.Bool(&v.text.Fold)
		if c.IsReading() {
			v.needle = NewNeedle(v.text)
		}
		return
	}
	codec.List(c, &v.subs, func(c *codec.Codec, s **Cond) { codec.Pointer(c, s, codeCond) })
}
