package web

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/gzip"
)

//go:embed static
var staticFiles embed.FS

// asset is a file of the pages, with its compressed form.
type asset struct {
	kind, tag    string
	plain, gzipd []byte
}

// assets holds the files by name.
type assets map[string]asset

// kinds are the media types of the files. They do not come from package mime, because its types
// depend on the machine.
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

// assetURL returns the address of a file. It changes with the file's content, so that browsers
// can keep the file forever.
func (a assets) assetURL(name string) string { return "/static/" + name + "?v=" + a[name].tag }

// ServeHTTP implements http.Handler.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a[strings.TrimPrefix(r.URL.Path, "/static/")]
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
	if r.Header.Get("If-None-Match") == `"`+f.tag+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipd
	}
	_, _ = w.Write(body) // the client may have disconnected
}

func compress(data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	_, _ = z.Write(data) // writing to a buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// acceptsGzip reports whether a client accepts compressed responses.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}

// minCompressed is the smallest size of a response that is compressed.
const minCompressed = 1 << 10

// compressAnswer compresses a rendered response if the client accepts that.
func compressAnswer(a *answer, r *http.Request) {
	a.Header().Set("Vary", "Accept-Encoding")
	if a.body.Len() < minCompressed || !acceptsGzip(r) || a.Header().Get("Content-Encoding") != "" {
		return
	}
	small := compress(a.body.Bytes())
	a.body = *bytes.NewBuffer(small)
	a.Header().Set("Content-Encoding", "gzip")
}
