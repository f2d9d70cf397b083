package loki

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"crowsnest/sources/internal/jsonwalk"
)

// pair is the name and value of a label or of an item of structured metadata.
type pair struct{ name, value []byte }

// entry is one line of a response. Its byte slices refer to the memory of the response body.
type entry struct {
	ts     int64 // timestamp of the entry, in ns since 1970
	stream int   // index of the stream in the response
	line   []byte
	meta   []pair // structured metadata, sorted by name
}

type series struct {
	labels []pair // labels, sorted by name
	key    []byte // encoding of the labels, which is equal for equal labels
}

// answer is the response to one query. Its memory is reused for the next response.
type answer struct {
	body    []byte
	streams []series
	entries []entry // entries ordered by time; entries with equal times stay in the order of the response
	count   int     // number of entries in the response, including unreadable ones
	bad     int
	// cut is the time of the entry at which the body breaks off. Zero means that the body is
	// complete.
	cut     int64
	warning string

	pairs []pair
	key   []byte
	text  []byte // unescaped strings of the body
}

func (a *answer) reset() {
	if cap(a.body)+cap(a.text) > 2*maxKeptBody {
		a.body, a.text = nil, nil
	}
	*a = answer{body: a.body[:0], streams: a.streams[:0], entries: a.entries[:0], pairs: a.pairs[:0], key: a.key[:0], text: a.text[:0]}
}

// decode parses the body. It keeps all complete entries even if it returns an error. An error
// means that the body is incomplete, or not a response of query_range.
func (a *answer) decode() error {
	d := jsontext.NewDecoder(bytes.NewBuffer(a.body), jsonwalk.NewOptions()...)
	err := a.decodeBody(d)
	slices.SortStableFunc(a.entries, func(x, y entry) int { return cmp.Compare(x.ts, y.ts) })
	if err != nil {
		return fmt.Errorf("this is not a response from Loki: %w", err)
	}
	return nil
}

func (a *answer) decodeBody(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind != '{' {
		return cmp.Or(d.SkipValue(), errors.New("it is not an object"))
	}
	err := jsonwalk.Members(d, func(name string) error {
		switch name {
		case "data":
			return jsonwalk.Members(d, func(name string) error { return a.decodeData(d, name) })
		case "warnings":
			return jsonwalk.Elements(d, func() error {
				text, isText, err := a.readText(d)
				if isText && a.warning == "" {
					a.warning = string(text)
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

// readText consumes the next value, and returns it if it is a string.
func (a *answer) readText(d *jsontext.Decoder) (text []byte, ok bool, err error) {
	if d.PeekKind() != '"' {
		return nil, false, d.SkipValue()
	}
	value, err := d.ReadValue()
	if err != nil {
		return nil, false, err
	}
	start := len(a.text)
	a.text, _ = jsontext.AppendUnquote(a.text, value) // ignore the error, because invalid UTF-8 is replaced
	return a.text[start:len(a.text):len(a.text)], true, nil
}

func (a *answer) decodeData(d *jsontext.Decoder, name string) error {
	switch name {
	case "resultType":
		kind, isText, err := a.readText(d)
		if err == nil && (!isText || string(kind) != "streams") {
			return errors.New("the answer has no log lines: use a log query, not a metric query")
		}
		return err
	case "result":
		a.streams, a.entries, a.count, a.bad = a.streams[:0], a.entries[:0], 0, 0
		return jsonwalk.Elements(d, func() error { return a.decodeStream(d) })
	}
	return d.SkipValue()
}

// decodeStream parses one stream. If its labels are unreadable, its entries count as
// unreadable.
func (a *answer) decodeStream(d *jsontext.Decoder) error {
	index, first, count, bad := len(a.streams), len(a.entries), a.count, a.bad
	known := false
	err := jsonwalk.Members(d, func(name string) error {
		switch name {
		case "stream":
			pairs, ok, err := a.readPairs(d)
			if err != nil {
				return err
			}
			if known = ok; ok {
				start := len(a.key)
				for _, p := range pairs {
					a.key = appendPair(a.key, p)
				}
				a.streams = append(a.streams[:index], series{labels: pairs, key: a.key[start:len(a.key):len(a.key)]})
			}
			return nil
		case "values":
			a.entries, a.count, a.bad = a.entries[:first], count, bad
			return jsonwalk.Elements(d, func() error { return a.decodeEntry(d, index) })
		}
		return d.SkipValue()
	})
	if !known {
		a.bad += len(a.entries) - first
		a.entries, a.streams = a.entries[:first], a.streams[:index]
	}
	return err
}

func appendPair(b []byte, p pair) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.name)))
	b = append(b, p.name...)
	b = binary.AppendUvarint(b, uint64(len(p.value)))
	return append(b, p.value...)
}

// decodeEntry parses [time, line] or [time, line, {"structuredMetadata": {...}}].
func (a *answer) decodeEntry(d *jsontext.Decoder, stream int) error {
	a.count++
	e := entry{stream: stream}
	ok, n := true, 0
	err := jsonwalk.Elements(d, func() error {
		n++
		switch n {
		case 1, 2:
			text, isText, err := a.readText(d)
			if ok = ok && isText; n == 2 || err != nil {
				e.line = text
				return err
			}
			ts, err := strconv.ParseInt(string(text), 10, 64)
			e.ts, ok = ts, ok && err == nil
			return nil
		case 3:
			return jsonwalk.Members(d, func(name string) error {
				if name != "structuredMetadata" {
					return d.SkipValue()
				}
				pairs, whole, err := a.readPairs(d)
				e.meta, ok = pairs, ok && whole
				return err
			})
		}
		return d.SkipValue()
	})
	switch {
	case err != nil && n == 2:
		a.cut = e.ts
	case err == nil && ok && n >= 2:
		a.entries = append(a.entries, e)
	case err == nil:
		a.bad++
	}
	return err
}

// readPairs parses an object of strings, and sorts it by name. ok is false if the next value
// is not such an object.
func (a *answer) readPairs(d *jsontext.Decoder) (pairs []pair, ok bool, err error) {
	start := len(a.pairs)
	ok = d.PeekKind() == '{'
	err = jsonwalk.Members(d, func(name string) error {
		value, isText, err := a.readText(d)
		if ok = ok && isText; ok {
			a.pairs = append(a.pairs, pair{[]byte(name), value})
		}
		return err
	})
	if err != nil || !ok {
		a.pairs = a.pairs[:start]
		return nil, false, err
	}
	pairs = a.pairs[start:len(a.pairs):len(a.pairs)]
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(string(x.name), string(y.name)) })
	n := 0
	for i := range pairs {
		if i+1 < len(pairs) && string(pairs[i].name) == string(pairs[i+1].name) {
			continue
		}
		pairs[n] = pairs[i]
		n++
	}
	return pairs[:n:n], true, nil
}

// hashEntry returns a hash that identifies an entry. Like Loki, it uses the tenant, stream,
// time, line and structured metadata. The hash is the same after a restart.
func (a *answer) hashEntry(h *xxhash.Digest, tenant string, e *entry) uint64 {
	var n [8]byte
	put := func(b []byte) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(b)
	}
	h.Reset()
	_, _ = h.WriteString(tenant)
	put(a.streams[e.stream].key)
	binary.LittleEndian.PutUint64(n[:], uint64(e.ts))
	_, _ = h.Write(n[:])
	put(e.line)
	for _, p := range e.meta {
		put(p.name)
		put(p.value)
	}
	return h.Sum64()
}
