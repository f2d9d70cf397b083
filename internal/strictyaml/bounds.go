package strictyaml

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// Range is the content of the struct tag `bounds:"min,max"`. It limits a number, a duration (in ns), the number of
// bytes of a text, or the number of entries of a list or mapping. `bounds:"min,max,text"` also limits the number of
// bytes of each text in a list or mapping. `bounds:"0|min,max"` also allows zero, which means the default.
type Range struct {
	Min, Max float64
	Zero     bool // whether zero is also allowed
	// Text is the maximum number of bytes of a text in a list or mapping. Zero means no limit.
	Text float64
	unit reflect.Type
}

// BoundsOf returns the range of a struct field. It returns false for a field without a range. An error means that the
// struct tag is invalid.
func BoundsOf(f reflect.StructField) (Range, bool, error) {
	tag, ok := f.Tag.Lookup("bounds")
	if !ok {
		return Range{}, false, nil
	}
	r := Range{unit: f.Type}
	for r.unit.Kind() == reflect.Pointer {
		r.unit = r.unit.Elem()
	}
	bounds, zero := strings.CutPrefix(tag, "0|")
	r.Zero = zero
	parts := strings.Split(bounds, ",")
	if len(parts) < 2 || len(parts) > 3 {
		return r, true, fmt.Errorf("field %s: bounds %q are not min,max or min,max,text", f.Name, tag)
	}
	for i, into := range []*float64{&r.Min, &r.Max, &r.Text}[:len(parts)] {
		v, err := r.parseLimit(parts[i], i == 2)
		if err != nil {
			return r, true, fmt.Errorf("field %s: bounds %q: %w", f.Name, tag, err)
		}
		*into = v
	}
	if r.Min > r.Max {
		return r, true, fmt.Errorf("field %s: bounds %q: the minimum is above the maximum", f.Name, tag)
	}
	return r, true, nil
}

func (r Range) parseLimit(s string, text bool) (float64, error) {
	if r.isDuration() && !text {
		d, err := model.ParseDuration(s)
		return float64(d), err
	}
	return strconv.ParseFloat(s, 64)
}

func (r Range) isDuration() bool { return r.unit == reflect.TypeFor[time.Duration]() }

func (r Range) formatLimit(v float64) string {
	if r.isDuration() {
		return model.Duration(v).String()
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func rangeSize(v reflect.Value) (n float64, noun string) {
	switch kind := v.Kind(); {
	case v.CanInt():
		return float64(v.Int()), ""
	case v.CanUint():
		return float64(v.Uint()), ""
	case v.CanFloat():
		return v.Float(), ""
	case kind == reflect.String:
		return float64(v.Len()), "bytes"
	case kind == reflect.Slice || kind == reflect.Map:
		return float64(v.Len()), "entries"
	}
	return 0, ""
}

func (d *decoder) checkBounds(n *Node, f field, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if f.mistake != nil {
		n.Errorf("wrong-type", "%s: %v", n.name, f.mistake)
		return
	}
	if !f.bounded {
		return
	}
	got, noun := rangeSize(v)
	if !(got >= f.bounds.Min && got <= f.bounds.Max || got == 0 && f.bounds.Zero) { // the condition is also true for NaN
		if noun == "" {
			d.outOfBounds++
		}
		d.reportOutside(n, f.bounds, got, noun)
		return
	}
	if f.bounds.Text > 0 {
		d.checkTexts(n, f.bounds)
	}
}

func (d *decoder) reportOutside(n *Node, r Range, got float64, noun string) {
	check := "out-of-range"
	switch {
	case got <= 0 && noun == "" && r.Min > 0:
		check = "zero"
	case got == 0:
		check = "empty-value"
	case got > r.Max && noun == "bytes":
		check = "too-long"
	case got > r.Max && !r.isDuration():
		check = "too-many"
	}
	is, low, high := r.formatLimit(got), r.formatLimit(r.Min), r.formatLimit(r.Max)
	if n.n.Kind == yaml.ScalarNode && noun == "" {
		is = n.n.Value
	}
	verb, unit := "is", ""
	if noun != "" {
		verb, unit = "has", " "+noun
	}
	fix := "use at least " + low + unit
	if !(got < r.Min) {
		fix = "use at most " + high + unit
	}
	n.Error(check, fmt.Sprintf("%s %s %s%s; allowed are %s to %s", n.name, verb, is, unit, low, high), fix)
}

func (d *decoder) checkTexts(n *Node, r Range) {
	limit := strconv.FormatFloat(r.Text, 'f', -1, 64)
	check := func(pos Pos, text *yaml.Node) {
		if text.Kind == yaml.AliasNode {
			text = text.Alias
		}
		if text.Kind == yaml.ScalarNode && float64(len(text.Value)) > r.Text {
			d.addProblem(pos, "too-long", fmt.Sprintf("a text in %s has %d bytes; allowed are 0 to %s", n.name, len(text.Value), limit),
				"use at most "+limit+" bytes")
		}
	}
	if n.n.Kind == yaml.ScalarNode {
		check(n.pos, n.n)
	}
	for i, c := range n.n.Content {
		at := d.nodePos(c)
		if n.n.Kind == yaml.MappingNode && i%2 == 1 {
			at = d.posOr(c, d.nodePos(n.n.Content[i-1]))
		}
		check(at, c)
	}
}
