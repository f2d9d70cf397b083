package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/codec"
)

// Places states where each key of a rule was set; see Rule.SetBy. The places in a compiled pack are decoded only on
// demand, which is rare. It is immutable.
type Places struct {
	all    map[string]string
	packed codec.Deferred
}

// PlacesOf returns the places in a map of the form that SetBy returns. The map must not change.
func PlacesOf(all map[string]string) Places { return Places{all: all} }

// place is the kind (pack, defaults or override) and the line of one key.
type place struct {
	key, kind string
	line      int
}

func codePlace(c *codec.Codec, p *place) {
	codec.Text(c, &p.key)
	codec.Text(c, &p.kind)
	c.Int(&p.line)
}

// write writes the places, which must all be in one file.
func (p *Places) write(c *codec.Codec) {
	var list []place
	for _, key := range slices.Sorted(maps.Keys(p.all)) {
		kind, at, _ := strings.Cut(p.all[key], " ")
		line, _ := strconv.Atoi(at[strings.LastIndexByte(at, ':')+1:]) // the text always ends with a line number, so there is no error
		list = append(list, place{key, kind, line})
	}
	codec.List(c, &list, codePlace)
}

// SetBy returns where each key was set, such as "pack file:line", "defaults file:line" or "override file:line". A key
// that is absent from the map has its default value. The caller must not change the map.
func (r *Rule) SetBy() map[string]string {
	if r.Places.packed.IsZero() {
		return r.Places.all
	}
	var list []place
	codec.List(r.Places.packed.Read(), &list, codePlace)
	all := make(map[string]string, len(list))
	for _, p := range list {
		all[p.key] = fmt.Sprintf("%s %s:%d", p.kind, r.File, p.line)
	}
	return all
}
