package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"crowsnest/rules/schema"
)

//go:embed static
var staticFiles embed.FS

type asset struct {
	kind, tag    string
	plain, gzipd []byte
}

// assets holds the files by name.
type assets map[string]asset

// kinds are the media types of the files by extension. Package mime is not used, because its types depend on the
// machine.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json"}

func readAssets() assets {
	out := assets{}
	files, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(err) // cannot happen: the folder is embedded
	}
	for _, f := range files {
		data, err := fs.ReadFile(staticFiles, "static/"+f.Name())
		if err != nil {
			panic(err) // cannot happen: the file is embedded
		}
		out.add(f.Name(), data)
	}
	hints, err := keyHints()
	if err != nil {
		panic(err) // cannot happen: the schema is made from the program's own types
	}
	out.add("keys.json", hints)
	return out
}

func (a assets) add(name string, data []byte) {
	a[name] = asset{kind: kinds[path.Ext(name)], tag: fmt.Sprintf("%016x", xxhash.Sum64(data)), plain: data, gzipd: compress(data)}
}

// assetURL returns the address of a file. The address changes with the content, so browsers may cache the file forever.
func (a assets) assetURL(name string) string { return "/static/" + name + "?v=" + a[name].tag }

// ServeHTTP implements http.Handler.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/static/")
	f, ok := a[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", `"`+f.tag+`"`)
	h.Set("Vary", "Accept-Encoding")
	if r.URL.Query().Get("v") == f.tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	body := f.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipd
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// keyHint describes a key of the rule language. The editor on the page Scan completes keys with it.
type keyHint struct {
	Text string `json:"d,omitempty"` // first sentence of the key's description
	In   string `json:"r,omitempty"` // kind of object that the value of the key is or contains
}

// schemaNode is the part of a JSON Schema that completion needs.
type schemaNode struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Properties  map[string]schemaNode `json:"properties"`
	Items       *schemaNode           `json:"items"`
	AnyOf       []schemaNode          `json:"anyOf"`
}

// keyHints returns the keys of all kinds of objects in a rule file, encoded as JSON.
func keyHints() ([]byte, error) {
	text, err := schema.Rules()
	if err != nil {
		return nil, err
	}
	var root struct {
		Defs map[string]schemaNode `json:"$defs"`
	}
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	out := map[string]map[string]keyHint{}
	for kind, def := range root.Defs {
		keys := map[string]keyHint{}
		for _, form := range append(def.AnyOf, def) { // the value may be a text or an object
			for name, key := range form.Properties {
				keys[name] = keyHint{firstSentence(key.Description), key.objectKind()}
			}
		}
		if len(keys) > 0 {
			out[kind] = keys
		}
	}
	return json.Marshal(out)
}

// objectKind returns the kind of object that a value is or contains, or "".
func (n *schemaNode) objectKind() string {
	if n.Ref != "" {
		return strings.TrimPrefix(n.Ref, "#/$defs/")
	}
	if n.Items != nil {
		return n.Items.objectKind()
	}
	for i := range n.AnyOf {
		if kind := n.AnyOf[i].objectKind(); kind != "" {
			return kind
		}
	}
	return ""
}

func firstSentence(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	return first
}
