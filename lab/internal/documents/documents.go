// Package documents reads Kubernetes objects from files. It reads YAML and JSON in the forms
// that kubectl, must-gather and support bundles write: single objects and lists.
//
// A file may be hostile. Objects are read one by one, so that memory depends on the largest
// object (which is limited) and not on the size of the file.
package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"crowsnest/internal/strictyaml"
)

// MaxObject is the maximum size of one object in bytes. etcd refuses more than 1.5 MiB.
const MaxObject = 4 << 20

// Object is a Kubernetes object.
type Object struct {
	APIVersion, Kind string
	JSON             json.RawMessage
}

// Leftovers counts the content of a file that is not an object.
type Leftovers struct {
	Foreign int   // number of values that are not Kubernetes objects
	Broken  int   // number of values that cannot be decoded
	First   error // error of the first value that cannot be decoded
}

func (r *Leftovers) noteBroken(err error) {
	if r.Broken++; r.First == nil {
		r.First = err
	}
}

// Reasons why an object cannot be read.
var (
	errLarge = fmt.Errorf("an object has more than %d MiB", MaxObject>>20)
	errMany  = fmt.Errorf("an object has more than %d values", strictyaml.MaxValues)
)

// Each calls f for each object in a file, in order. It cannot read JSON after a syntax error. It returns an error only
// if reading r fails.
func Each(r io.Reader, f func(Object)) (Leftovers, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var rest Leftovers
	head, err := br.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return rest, err
	}
	list := listOf{handle: f, rest: &rest}
	if head = bytes.TrimLeft(head, " \t\r\n\ufeff"); len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		err = list.readJSON(br)
	} else {
		err = list.readYAML(br)
	}
	return rest, err
}

// listOf reads one object, or a list of objects. A list may state the kind of its items once for all items.
type listOf struct {
	handle func(Object)
	rest   *Leftovers

	apiVersion, kind string // defaults for items that do not state these fields
}

type objectHeader struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
	Involved   json.RawMessage `json:"involvedObject"`
}

func (l *listOf) noteKind(d objectHeader) {
	if kind, ok := strings.CutSuffix(d.Kind, "List"); ok && kind != "" {
		l.apiVersion, l.kind = d.APIVersion, kind
	}
}

func (l *listOf) passObject(in json.RawMessage) {
	var d objectHeader
	if err := json.Unmarshal(in, &d); err != nil {
		l.rest.Foreign++ // not an error, because it may be a list of numbers
		return
	}
	switch {
	case d.Kind == "" && l.kind != "":
		d.APIVersion, d.Kind = l.apiVersion, l.kind
	case d.Kind == "" && d.Involved != nil:
		d.APIVersion, d.Kind = "v1", "Event"
	}
	if d.Kind == "" || d.Kind == "List" {
		l.rest.Foreign++
		return
	}
	l.handle(Object{APIVersion: d.APIVersion, Kind: d.Kind, JSON: in})
}

// budget is a reader that ends after left bytes. It limits the size of a single JSON value.
type budget struct {
	r    io.Reader
	left int
	err  error // first error of r
}

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

// jsonReader reads JSON values from a decoder. The budget limits the size of each value.
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

// jsonObject reads an object after its opening brace. The object may be a list of Kubernetes objects. Otherwise
// jsonObject joins its members again to one Kubernetes object.
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
		var d objectHeader
		_ = json.Unmarshal(members["kind"], &d.Kind) // the kind may follow later in the file
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

// jsonList reads the value of the member items, which is null in a list without items.
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

// yamlReader splits a file into documents, and lists into items, at the lines where they begin. So it decodes only one
// item at a time.
type yamlReader struct {
	list  *listOf
	chunk []byte // lines of the current document or item
	large bool   // whether the chunk exceeded the maximum size and was dropped
	// dash is the text with which each item of the current list begins. It is "" outside a list, and unknownDash until
	// the first item is read.
	dash []byte
}

// unknownDash is the value of dash before the indentation of a list is known.
var unknownDash = []byte("\n")

func (l *listOf) readYAML(br *bufio.Reader) error {
	r := yamlReader{list: l}
	for begins := true; ; {
		line, err := br.ReadSlice('\n')
		if begins {
			r.beginLine(line)
		}
		r.addToChunk(line)
		begins = len(line) > 0 && line[len(line)-1] == '\n'
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			r.decodeChunk()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (r *yamlReader) beginLine(line []byte) {
	text := bytes.TrimRight(line, " \r\n")
	if bytes.Equal(text, []byte("---")) || bytes.Equal(text, []byte("...")) || bytes.HasPrefix(line, []byte("--- ")) {
		r.decodeChunk()
		r.dash, r.list.apiVersion, r.list.kind = nil, "", ""
		return
	}
	switch {
	case r.dash == nil:
		if string(text) == "items:" {
			r.decodeChunk()
			r.dash = unknownDash
		}
	case &r.dash[0] == &unknownDash[0]:
		if at := bytes.IndexFunc(line, func(c rune) bool { return c != ' ' }); at >= 0 && bytes.HasPrefix(line[at:], []byte("- ")) {
			r.decodeChunk()
			r.dash = bytes.Clone(line[:at+2])
		}
	case bytes.HasPrefix(line, r.dash):
		r.decodeChunk()
	case len(text) > 0 && text[0] != ' ' && text[0] != '#' && text[0] != '-':
		r.decodeChunk()
		r.dash = nil
	}
}

func (r *yamlReader) addToChunk(part []byte) {
	if r.large = r.large || len(r.chunk)+len(part) > MaxObject; !r.large {
		r.chunk = append(r.chunk, part...)
	}
}

func (r *yamlReader) decodeChunk() {
	chunk := r.chunk
	r.chunk = r.chunk[:0]
	if r.large {
		r.large = false
		r.list.rest.noteBroken(errLarge)
		return
	}
	if !hasContent(chunk) {
		return
	}
	if strictyaml.TooManyAt(chunk) >= 0 {
		r.list.rest.noteBroken(errMany)
		return
	}
	in, err := yaml.YAMLToJSON(chunk)
	if err != nil {
		r.list.rest.noteBroken(err)
		return
	}
	var items []json.RawMessage
	if json.Unmarshal(in, &items) == nil {
		for _, item := range items {
			r.list.passObject(item)
		}
		return
	}
	r.handleDocument(in)
}

func (r *yamlReader) handleDocument(in json.RawMessage) {
	var d objectHeader
	if err := json.Unmarshal(in, &d); err != nil {
		r.list.rest.Foreign++
		return
	}
	if r.list.noteKind(d); d.Items != nil || onlyList(in) {
		return
	}
	r.list.passObject(in)
}

// onlyList reports whether a mapping contains, besides its items, only fields of a list.
func onlyList(in json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(in, &members) != nil {
		return false
	}
	for name := range members {
		if name != "apiVersion" && name != "kind" && name != "metadata" && name != "items" {
			return false
		}
	}
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(members["metadata"], &metadata)
	return metadata["name"] == nil
}

// hasContent reports whether a chunk contains more than comments and document separators.
func hasContent(chunk []byte) bool {
	for line := range bytes.Lines(chunk) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && string(text) != "---" && string(text) != "..." {
			return true
		}
	}
	return false
}
