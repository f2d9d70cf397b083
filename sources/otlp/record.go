package otlp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"crowsnest/matcher"
)

const maxLabel = 256 // largest number of bytes of a label

// origin is what a resource says about where its records come from.
type origin struct {
	labels matcher.Labels
	sender string
}

// newOrigin reads the attributes of a resource. labels maps attributes to labels, in addition to ownLabels.
func newOrigin(attributes []*common.KeyValue, labels map[string]string) origin {
	o := origin{labels: matcher.Labels{}}
	var cluster, node, host string
	for _, a := range attributes {
		value := string(appendText(nil, a.GetValue()))
		value = strings.ToValidUTF8(value[:min(len(value), maxLabel)], "")
		switch a.GetKey() {
		case attrCluster:
			cluster = value
		case attrNode:
			node = value
		case attrHost:
			host = value
		}
		for _, names := range []map[string]string{ownLabels, labels} {
			if name := names[a.GetKey()]; name != "" {
				o.labels[name] = value
			}
		}
	}
	o.sender = senderName(cluster, node, host)
	return o
}

// unnamed is the name of the sender of all resources that name no node.
const unnamed = "unnamed"

func senderName(cluster, node, host string) string {
	node = cmp.Or(node, host, unnamed)
	if cluster != "" {
		node = cluster + "/" + node
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/", r) {
			return r
		}
		return '_'
	}, node)
}

// recordTime returns the time of a record. own is false if the record has no time, so that the time is now.
func recordTime(r *logs.LogRecord, now time.Time) (at time.Time, own bool) {
	for _, t := range []uint64{r.GetTimeUnixNano(), r.GetObservedTimeUnixNano()} {
		if t > 0 && t <= math.MaxInt64 {
			return time.Unix(0, int64(t)).UTC(), true
		}
	}
	return now.UTC().Round(0), false
}

// lines converts records to lines. It reuses its memory.
type lines struct {
	record logs.LogRecord
	fields []matcher.Field
	text   []byte
}

// convert returns the line of the record. The line is valid until the next call. A body that is not a string becomes
// JSON, whose members are fields like those of any line in JSON.
func (l *lines) convert(now time.Time) (rec matcher.Record, own bool) {
	l.text, l.fields = appendText(l.text[:0], l.record.GetBody()), l.fields[:0]
	body := len(l.text)
	for _, a := range l.record.GetAttributes() {
		name := len(l.text)
		l.text = append(l.text, a.GetKey()...)
		value := len(l.text)
		l.text = appendText(l.text, a.GetValue())
		l.fields = append(l.fields, matcher.Field{Name: l.text[name:value:value], Value: l.text[value:len(l.text):len(l.text)]})
	}
	at, own := recordTime(&l.record, now)
	return matcher.Record{Time: at, Text: bytes.TrimSuffix(l.text[:body:body], []byte("\n")), Fields: l.fields}, own
}

// appendText appends a value as people would write it: a text as it is, anything else as JSON.
func appendText(b []byte, v *common.AnyValue) []byte {
	switch x := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return append(b, x.StringValue...)
	case *common.AnyValue_BytesValue:
		return append(b, x.BytesValue...)
	case nil:
		return b
	}
	return appendJSON(b, v)
}

func appendJSON(b []byte, v *common.AnyValue) []byte {
	switch x := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		b, _ = jsontext.AppendQuote(b, x.StringValue) // ignore the error, because invalid UTF-8 is replaced
		return b
	case *common.AnyValue_BytesValue:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), x.BytesValue), '"')
	case *common.AnyValue_BoolValue:
		return strconv.AppendBool(b, x.BoolValue)
	case *common.AnyValue_IntValue:
		return strconv.AppendInt(b, x.IntValue, 10)
	case *common.AnyValue_DoubleValue:
		if math.IsNaN(x.DoubleValue) || math.IsInf(x.DoubleValue, 0) {
			return append(b, "null"...)
		}
		return strconv.AppendFloat(b, x.DoubleValue, 'g', -1, 64)
	case *common.AnyValue_ArrayValue:
		b = append(b, '[')
		for i, item := range x.ArrayValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	case *common.AnyValue_KvlistValue:
		b = append(b, '{')
		for i, item := range x.KvlistValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			b, _ = jsontext.AppendQuote(b, item.GetKey())
			b = appendJSON(append(b, ':'), item.GetValue())
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// labelKey returns a text that is equal for equal labels.
func labelKey(labels matcher.Labels, names []string) string {
	var b []byte
	for _, name := range names {
		b = append(append(b, labels[name]...), 0)
	}
	return string(slices.Clip(b))
}
