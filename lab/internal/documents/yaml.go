package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"sigs.k8s.io/yaml"

	"crowsnest/strictyaml"
)

// yamlReader splits a file into documents, and lists into items, at the lines where they begin.
// So only one item has to be decoded at a time.
type yamlReader struct {
	list  *listOf
	chunk []byte // lines of the current document or item
	large bool   // whether the chunk was too large and was dropped
	// dash is the beginning of each item of the current list, "" outside a list, and
	// unknownDash until the first item is read.
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

// beginLine ends the current chunk if a line begins another one.
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

// handleDocument handles a document, or the part of a document around the items of a list.
func (r *yamlReader) handleDocument(in json.RawMessage) {
	var d described
	if err := json.Unmarshal(in, &d); err != nil {
		r.list.rest.Foreign++
		return
	}
	if r.list.noteKind(d); d.Items != nil || onlyList(in) {
		return
	}
	r.list.passObject(in)
}

// onlyList reports whether a mapping has only the fields of a list besides its items.
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

// hasContent reports whether a chunk contains more than comments and document markers.
func hasContent(chunk []byte) bool {
	for line := range bytes.Lines(chunk) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && string(text) != "---" && string(text) != "..." {
			return true
		}
	}
	return false
}
