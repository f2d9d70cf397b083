package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// budget is a reader that ends after left bytes, so that no single JSON value is larger.
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

// jsonReader reads values from a decoder. Each value is limited by the budget.
type jsonReader struct {
	*json.Decoder

	in *budget
}

func (r jsonReader) readToken() (json.Token, error) {
	r.in.left = MaxObject
	return r.Token()
}

func (r jsonReader) readValue() (out json.RawMessage, err error) {
	r.in.left = MaxObject
	err = r.Decode(&out)
	return out, err
}

// readJSON reads a sequence of objects and lists.
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
			l.rest.noteBroken(fmt.Errorf("near byte %d: %w", r.InputOffset(), err))
			return nil
		}
		l.apiVersion, l.kind = "", ""
	}
}

func (l *listOf) jsonDocument(r jsonReader) error {
	begin, err := r.readToken()
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

// jsonItems reads the values of a list whose opening bracket was read.
func (l *listOf) jsonItems(r jsonReader) error {
	for r.More() {
		item, err := r.readValue()
		if err != nil {
			return err
		}
		l.passObject(item)
	}
	_, err := r.readToken()
	return err
}

// jsonObject reads an object whose opening brace was read. It may be a list of objects, or an
// object whose members have to be put together again.
func (l *listOf) jsonObject(r jsonReader) error {
	members, size, isList := map[string]json.RawMessage{}, 0, false
	for r.More() {
		key, err := r.readToken()
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
		value, err := r.readValue()
		if err != nil {
			return err
		}
		if size += len(name) + len(value); size > MaxObject {
			return errLarge
		}
		members[name] = value
		var d described
		_ = json.Unmarshal(members["kind"], &d.Kind) // the kind may come later in the file
		_ = json.Unmarshal(members["apiVersion"], &d.APIVersion)
		l.noteKind(d)
	}
	if _, err := r.readToken(); err != nil || isList {
		return err
	}
	whole, err := json.Marshal(members)
	if err != nil {
		return err
	}
	l.passObject(whole)
	return nil
}

// jsonList reads the value of the member items. It is null in a list without items.
func (l *listOf) jsonList(r jsonReader) error {
	begin, err := r.readToken()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return errors.New("items is not a list")
	}
	return l.jsonItems(r)
}
