package loki

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// pair is a name with its value: a label, or structured metadata.
type pair struct{ name, value []byte }

// entry is one line of a response. Its memory belongs to the body.
type entry struct {
	ts     int64 // ns since 1970
	stream int   // index
	line   []byte
	meta   []pair // structured metadata, sorted by name
}

// series is one stream of a response.
type series struct {
	labels []pair // sorted by name
	key    []byte // encodes the labels: equal for equal labels
}

// answer is the response to one query. Its memory is reused for the next one.
type answer struct {
	body    []byte
	streams []series
	entries []entry // entries in order of time, and of equal time in the order received
	// count is the number of entries that Loki sent, including bad ones.
	count int
	bad   int
	// cut is the time of an entry in which the body ends; zero if there is none.
	cut     int64
	warning string

	pairs []pair
	key   []byte
}

func (a *answer) reset() {
	if cap(a.body) > maxKeptBody {
		a.body = nil
	}
	*a = answer{body: a.body[:0], streams: a.streams[:0], entries: a.entries[:0], pairs: a.pairs[:0], key: a.key[:0]}
}

// decode parses the body. It keeps all complete entries even if it returns an error,
// which reports that the body is incomplete or not a response of query_range. decode
// modifies the body.
func (a *answer) decode() error {
	s := &scanner{b: a.body}
	err := s.object(func(name []byte) error {
		switch string(name) {
		case "data":
			return s.optional('{', func() error { return s.object(func(name []byte) error { return a.data(s, name) }) })
		case "warnings":
			return s.optional('[', func() error { return s.array(func() error { return a.warn(s) }) })
		}
		return s.skip()
	})
	if err == nil {
		err = s.end()
	}
	slices.SortStableFunc(a.entries, func(x, y entry) int { return cmp.Compare(x.ts, y.ts) })
	return err
}

func (a *answer) data(s *scanner, name []byte) error {
	switch string(name) {
	case "resultType":
		kind, isText, err := s.text()
		if err == nil && (!isText || string(kind) != "streams") {
			return s.wrong("it has no log lines: the query must be one for streams")
		}
		return err
	case "result":
		a.streams, a.entries, a.count, a.bad = a.streams[:0], a.entries[:0], 0, 0
		return s.optional('[', func() error { return s.array(func() error { return a.stream(s) }) })
	}
	return s.skip()
}

func (a *answer) warn(s *scanner) error {
	text, isText, err := s.text()
	if isText && a.warning == "" {
		a.warning = string(text)
	}
	return err
}

// stream parses one stream. If its labels are unreadable, its entries are bad.
func (a *answer) stream(s *scanner) error {
	index, first, count, bad := len(a.streams), len(a.entries), a.count, a.bad
	known := false
	err := s.optional('{', func() error {
		return s.object(func(name []byte) error {
			switch string(name) {
			case "stream":
				pairs, ok, err := a.readPairs(s)
				if err != nil {
					return err
				}
				known = ok
				if ok {
					a.streams = append(a.streams[:index], a.series(pairs))
				}
				return nil
			case "values":
				a.entries, a.count, a.bad = a.entries[:first], count, bad
				return s.optional('[', func() error { return s.array(func() error { return a.value(s, index) }) })
			}
			return s.skip()
		})
	})
	if !known {
		a.bad += len(a.entries) - first
		a.entries, a.streams = a.entries[:first], a.streams[:index]
	}
	return err
}

func (a *answer) series(pairs []pair) series {
	start := len(a.key)
	for _, p := range pairs {
		a.key = appendPair(a.key, p)
	}
	return series{labels: pairs, key: a.key[start:len(a.key):len(a.key)]}
}

func appendPair(b []byte, p pair) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.name)))
	b = append(b, p.name...)
	b = binary.AppendUvarint(b, uint64(len(p.value)))
	return append(b, p.value...)
}

// value parses [time, line] or [time, line, {"structuredMetadata": {...}}].
func (a *answer) value(s *scanner, stream int) error {
	a.count++
	e := entry{stream: stream}
	ok, n := true, 0
	err := s.optional('[', func() error {
		return s.array(func() error {
			n++
			return a.element(s, &e, n, &ok)
		})
	})
	if err != nil {
		if ok && n == 2 {
			a.cut = e.ts
		}
		return err
	}
	if !ok || n < 2 {
		a.bad++
		return nil
	}
	a.entries = append(a.entries, e)
	return nil
}

func (a *answer) element(s *scanner, e *entry, n int, ok *bool) error {
	switch n {
	case 1, 2:
		text, isText, err := s.text()
		if err != nil {
			return err
		}
		*ok = *ok && isText
		if n == 2 {
			e.line = text
			return nil
		}
		if e.ts, err = strconv.ParseInt(string(text), 10, 64); err != nil {
			*ok = false
		}
		return nil
	case 3:
		return s.optional('{', func() error {
			return s.object(func(name []byte) error {
				if string(name) != "structuredMetadata" {
					return s.skip()
				}
				pairs, whole, err := a.readPairs(s)
				e.meta, *ok = pairs, *ok && whole
				return err
			})
		})
	}
	return s.skip()
}

// readPairs parses an object of strings, sorted by name; the last value of a duplicate
// name wins. ok is false if it is anything else.
func (a *answer) readPairs(s *scanner) (pairs []pair, ok bool, err error) {
	start := len(a.pairs)
	ok, isObject := true, false
	err = s.optional('{', func() error {
		isObject = true
		return s.object(func(name []byte) error {
			value, isText, err := s.text()
			if ok = ok && isText; ok && err == nil {
				a.pairs = append(a.pairs, pair{name, value})
			}
			return err
		})
	})
	if err != nil || !ok || !isObject {
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

// hash identifies an entry as Loki does: by tenant, stream, time, line and structured
// metadata. It is stable across restarts.
func (a *answer) hash(h *xxhash.Digest, tenant string, e *entry) uint64 {
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
