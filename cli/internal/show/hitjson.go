package show

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/internal/jsonstring"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// hitEncoder writes hits as JSON, as encoding/json would. What hits of a rule, a part and a
// stream share is encoded once.
type hitEncoder struct {
	file   string
	rule   *rules.Rule
	part   matcher.Part
	head   []byte // up to the number of the line; empty: nothing is known
	vars   []hitVar
	labels matcher.Labels
	stream []byte // encoded labels of the stream; empty if none are known
	clock  clock
}

// hitVar is a captured name of a rule: its index, and the key.
type hitVar struct {
	index int
	key   []byte
}

// append appends the object of a hit, and a newline. shown is the line; value returns what to
// show of a captured value.
func (e *hitEncoder) append(b []byte, file string, hit *matcher.Hit, shown redact.Text, value func(string) redact.Text) ([]byte, error) {
	e.prepare(file, hit)
	b = append(b, e.head...)
	b = strconv.AppendInt(b, hit.LineNumber, 10)
	if !hit.Untimed {
		var err error
		if b, err = e.clock.append(append(b, `,"time":"`...), hit.Time); err != nil {
			return nil, fmt.Errorf("write the time of line %d of %s: %w", hit.LineNumber, file, err)
		}
		b = append(b, '"')
	}
	b = append(b, e.stream...)
	separator := byte('{')
	for _, v := range e.vars {
		if v.index >= len(hit.Values) || hit.Values[v.index] == "" {
			continue
		}
		b = append(append(b, separator), v.key...)
		b = jsonstring.Append(b, string(value(hit.Values[v.index])))
		separator = ','
	}
	if separator == '{' {
		b = append(b, separator)
	}
	b = append(b, `},"line":`...)
	return append(jsonstring.Append(b, string(shown)), "}\n"...), nil
}

// clock writes times. It keeps the text of a second.
type clock struct {
	second int64
	text   []byte // up to the seconds; empty: nothing is known
}

// append appends a time in UTC as the method AppendText of time.Time does, and returns its error.
func (c *clock) append(b []byte, t time.Time) ([]byte, error) {
	if second := t.Unix(); len(c.text) == 0 || second != c.second {
		text, err := time.Unix(second, 0).UTC().AppendText(c.text[:0])
		if err != nil {
			c.text = c.text[:0]
			return b, err
		}
		c.second, c.text = second, text[:len(text)-len("Z")]
	}
	b = append(b, c.text...)
	if ns := t.Nanosecond(); ns != 0 {
		var digits [10]byte // decimal point and nine digits
		digits[0] = '.'
		n := 1
		for k := len(digits) - 1; k > 0; k-- {
			digits[k] = byte('0' + ns%10)
			ns /= 10
			if n == 1 && digits[k] != '0' {
				n = k + 1
			}
		}
		b = append(b, digits[:n]...)
	}
	return append(b, 'Z'), nil
}

// prepare encodes what depends on the file, the rule, the part and the stream.
func (e *hitEncoder) prepare(file string, hit *matcher.Hit) {
	if e.rule != hit.Rule {
		e.rule, e.head, e.vars = hit.Rule, e.head[:0], varsOf(hit.Rule)
	}
	if len(e.head) == 0 || e.part != hit.Part || e.file != file {
		e.part, e.file = hit.Part, file
		b := jsonstring.Append(append(e.head[:0], `{"rule":`...), hit.Rule.Alert)
		b = jsonstring.Append(append(b, `,"part":`...), hit.Part.Name(hit.Rule))
		b = jsonstring.Append(append(b, `,"file":`...), file)
		e.head = append(b, `,"line_number":`...)
	}
	if len(e.stream) == 0 || reflect.ValueOf(e.labels).Pointer() != reflect.ValueOf(hit.Labels).Pointer() {
		e.labels = hit.Labels
		e.stream = append(appendLabels(append(e.stream[:0], `,"labels":`...), hit.Labels), `,"vars":`...)
	}
}

// varsOf returns the captured names of a rule in order, which is that of the keys.
func varsOf(r *rules.Rule) []hitVar {
	out := make([]hitVar, len(r.CapturedNames))
	for i := range out {
		out[i].index = i
	}
	slices.SortFunc(out, func(a, b hitVar) int { return strings.Compare(r.CapturedNames[a.index], r.CapturedNames[b.index]) })
	for i := range out {
		out[i].key = append(jsonstring.Append(nil, r.CapturedNames[out[i].index]), ':')
	}
	return out
}

func appendLabels(b []byte, labels matcher.Labels) []byte {
	if labels == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonstring.Append(append(jsonstring.Append(b, name), ':'), labels[name])
	}
	return append(b, '}')
}
