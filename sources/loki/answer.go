package loki

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"crowsnest/sources/internal/jsonwalk"
	"crowsnest/sources/internal/rangeread"
)

// answer is the response to one query.
type answer struct{ *rangeread.Answer }

// decode implements rangeread.Dialect.Decode for responses of query_range.
func decode(in *rangeread.Answer) error {
	a, d := answer{in}, jsontext.NewDecoder(bytes.NewBuffer(in.Body), jsonwalk.NewOptions()...)
	defer a.Sort()
	if kind := d.PeekKind(); kind != '{' {
		return cmp.Or(d.SkipValue(), errors.New("it is not an object"))
	}
	err := jsonwalk.Members(d, func(name string) error {
		switch name {
		case "data":
			return jsonwalk.Members(d, func(name string) error { return a.decodeData(d, name) })
		case "warnings":
			return jsonwalk.Elements(d, func() error {
				text, isText, err := a.ReadText(d)
				if isText && a.Warning == "" {
					a.Warning = string(text)
				}
				return err
			})
		}
		return d.SkipValue()
	})
	if err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("extra data follows it")
	}
	return nil
}

func (a answer) decodeData(d *jsontext.Decoder, name string) error {
	switch name {
	case "resultType":
		kind, isText, err := a.ReadText(d)
		if err == nil && (!isText || string(kind) != "streams") {
			return errors.New("the answer has no log lines: use a log query, not a metric query")
		}
		return err
	case "result":
		a.Streams, a.Entries, a.Count, a.Bad = a.Streams[:0], a.Entries[:0], 0, 0
		return jsonwalk.Elements(d, func() error { return a.decodeStream(d) })
	}
	return d.SkipValue()
}

// decodeStream parses one stream. If its labels are unreadable, its entries count as unreadable.
func (a answer) decodeStream(d *jsontext.Decoder) error {
	index, first, count, bad := len(a.Streams), len(a.Entries), a.Count, a.Bad
	known := false
	err := jsonwalk.Members(d, func(name string) error {
		switch name {
		case "stream":
			pairs, ok, err := a.ReadPairs(d)
			if err != nil {
				return err
			}
			if known = ok; ok {
				a.SetStream(index, pairs)
			}
			return nil
		case "values":
			a.Entries, a.Count, a.Bad = a.Entries[:first], count, bad
			return jsonwalk.Elements(d, func() error { return a.decodeEntry(d, index) })
		}
		return d.SkipValue()
	})
	if !known {
		a.Bad += len(a.Entries) - first
		a.Entries, a.Streams = a.Entries[:first], a.Streams[:index]
	}
	return err
}

// decodeEntry parses [time, line] or [time, line, {"structuredMetadata": {...}}].
func (a answer) decodeEntry(d *jsontext.Decoder, stream int) error {
	a.Count++
	e := rangeread.Entry{Stream: stream}
	ok, n := true, 0
	err := jsonwalk.Elements(d, func() error {
		n++
		switch n {
		case 1, 2:
			text, isText, err := a.ReadText(d)
			if ok = ok && isText; n == 2 || err != nil {
				e.Line = text
				return err
			}
			ts, err := strconv.ParseInt(string(text), 10, 64)
			e.Time, ok = ts, ok && err == nil
			return nil
		case 3:
			return jsonwalk.Members(d, func(name string) error {
				if name != "structuredMetadata" {
					return d.SkipValue()
				}
				pairs, whole, err := a.ReadPairs(d)
				e.Meta, ok = pairs, ok && whole
				return err
			})
		}
		return d.SkipValue()
	})
	switch {
	case err != nil && n == 2:
		a.Cut = e.Time
	case err == nil && ok && n >= 2:
		a.Entries = append(a.Entries, e)
	case err == nil:
		a.Bad++
	}
	return err
}
