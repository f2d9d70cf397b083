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

// yamlReader cuts a file into documents, and lists into items, by the lines that begin
// them, so that only one item is decoded at a time.
type yamlReader struct {
	list  *listOf
	chunk []byte // lines of the present document or item
	large bool   // the chunk is too large and was dropped
	// dash begins each item of the present list, "" if there is no list. It is one line
	// break until the first item is read.
	dash []byte
}

// unknownDash stands for the indentation of a list whose first item was not read yet.
var unknownDash = []byte("\n")

func (l *listOf) readYAML(br *bufio.Reader) error {
	r := yamlReader{list: l}
	for begins := true; ; {
		line, err := br.ReadSlice('\n')
		if begins {
			r.begin(line)
		}
		r.add(line)
		begins = len(line) > 0 && line[len(line)-1] == '\n'
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			r.end()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// begin ends the present chunk if a line begins another one.
func (r *yamlReader) begin(line []byte) {
	text := bytes.TrimRight(line, " \r\n")
	if bytes.Equal(text, []byte("---")) || bytes.Equal(text, []byte("...")) || bytes.HasPrefix(line, []byte("--- ")) {
		r.end()
		r.dash, r.list.apiVersion, r.list.kind = nil, "", ""
		return
	}
	switch {
	case r.dash == nil:
		if string(text) == "items:" {
			r.end()
			r.dash = unknownDash
		}
	case &r.dash[0] == &unknownDash[0]:
		if at := bytes.IndexFunc(line, func(c rune) bool { return c != ' ' }); at >= 0 && bytes.HasPrefix(line[at:], []byte("- ")) {
			r.end()
			r.dash = bytes.Clone(line[:at+2])
		}
	case bytes.HasPrefix(line, r.dash):
		r.end()
	case len(text) > 0 && text[0] != ' ' && text[0] != '#' && text[0] != '-':
		r.end()
		r.dash = nil
	}
}

func (r *yamlReader) add(part []byte) {
	if r.large = r.large || len(r.chunk)+len(part) > MaxObject; !r.large {
		r.chunk = append(r.chunk, part...)
	}
}

// end decodes the present chunk.
func (r *yamlReader) end() {
	chunk := r.chunk
	r.chunk = r.chunk[:0]
	if r.large {
		r.large = false
		r.list.rest.broken(errLarge)
		return
	}
	if !hasContent(chunk) {
		return
	}
	if strictyaml.TooManyAt(chunk) >= 0 {
		r.list.rest.broken(errMany)
		return
	}
	in, err := yaml.YAMLToJSON(chunk)
	if err != nil {
		r.list.rest.broken(err)
		return
	}
	var items []json.RawMessage
	if json.Unmarshal(in, &items) == nil {
		for _, item := range items {
			r.list.object(item)
		}
		return
	}
	r.document(in)
}

// document handles a document, or the part of one around the items of a list.
func (r *yamlReader) document(in json.RawMessage) {
	var d described
	if err := json.Unmarshal(in, &d); err != nil {
		r.list.rest.Foreign++
		return
	}
	if r.list.describe(d); d.Items != nil || onlyList(in) {
		return
	}
	r.list.object(in)
}

// onlyList reports whether a mapping has only what stands around the items of a list.
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

// hasContent reports whether a chunk has more than comments and the marks of documents.
func hasContent(chunk []byte) bool {
	for line := range bytes.Lines(chunk) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && string(text) != "---" && string(text) != "..." {
			return true
		}
	}
	return false
}
