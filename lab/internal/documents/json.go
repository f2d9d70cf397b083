package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// budget reads at most left bytes, so that no single value of JSON is larger.
type budget struct {
	r    io.Reader
	left int
	err  error // first error of r
}

// Read implements io.Reader.
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	if b.left -= n; err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// jsonReader reads values from a decoder, each within the budget.
type jsonReader struct {
	*json.Decoder

	in *budget
}

func (r jsonReader) token() (json.Token, error) {
	r.in.left = MaxObject
	return r.Token()
}

func (r jsonReader) value() (out json.RawMessage, err error) {
	r.in.left = MaxObject
	err = r.Decode(&out)
	return out, err
}

// readJSON reads objects and lists, one behind the other.
func (l *listOf) readJSON(in io.Reader) error {
	b := &budget{r: in}
	r := jsonReader{json.NewDecoder(b), b}
	for {
		err := l.jsonDocument(r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case b.err != nil:
			return b.err
		case err != nil:
			l.rest.broken(fmt.Errorf("near byte %d: %w", r.InputOffset(), err))
			return nil
		}
		l.apiVersion, l.kind = "", ""
	}
}

func (l *listOf) jsonDocument(r jsonReader) error {
	begin, err := r.token()
	if err != nil {
		return err
	}
	switch begin {
	case json.Delim('['):
		err = l.jsonItems(r)
	case json.Delim('{'):
		err = l.jsonObject(r)
	default:
		l.rest.Foreign++
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonItems reads the values of a list behind its bracket.
func (l *listOf) jsonItems(r jsonReader) error {
	for r.More() {
		item, err := r.value()
		if err != nil {
			return err
		}
		l.object(item)
	}
	_, err := r.token()
	return err
}

// jsonObject reads an object behind its brace: a list, or an object whose members have
// to be put together again.
func (l *listOf) jsonObject(r jsonReader) error {
	members, size, isList := map[string]json.RawMessage{}, 0, false
	for r.More() {
		key, err := r.token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if name == "items" {
			isList = true
			if err := l.jsonList(r); err != nil {
				return err
			}
			continue
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		if size += len(name) + len(value); size > MaxObject {
			return errLarge
		}
		members[name] = value
		var d described
		_ = json.Unmarshal(members["kind"], &d.Kind) // the kind may not have been read yet
		_ = json.Unmarshal(members["apiVersion"], &d.APIVersion)
		l.describe(d)
	}
	if _, err := r.token(); err != nil || isList {
		return err
	}
	whole, err := json.Marshal(members)
	if err != nil {
		return err
	}
	l.object(whole)
	return nil
}

// jsonList reads the value of items, which is null in a list without items.
func (l *listOf) jsonList(r jsonReader) error {
	begin, err := r.token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return errors.New("items is no list")
	}
	return l.jsonItems(r)
}
