package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// pageSize is how many objects one request asks for.
	pageSize = 250
	// maxObject bounds one object; etcd takes 1.5 MiB.
	maxObject  = 8 << 20
	maxPages   = 10000
	pageWithin = time.Minute
	// The server ends a watch after this time and up to a minute more, and the client
	// if the server does not.
	watchFor   = 4 * time.Minute
	watchGrace = 30 * time.Second
	// silentFor is how long an open watch may be silent, including bookmarks, until it is
	// opened again: its connection may be dead although nothing reports that.
	silentFor = 90 * time.Second
	// openWithin is how long the server may take to answer a request for a watch.
	openWithin = 30 * time.Second
)

// errTooLarge means that the server sent more than any object has.
var errTooLarge = errors.New("an object is larger than 8 MiB")

// Get reads one object into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query}, out)
}

// Create posts an object and reads the response into out, which may be the object.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPost, path: path, object: object}, out)
}

// Replace replaces the object at path, in the version that object states, and reads the
// response into out, which may be the object.
func (c *Client) Replace(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPut, path: path, object: object}, out)
}

// call sends a request and reads the response, one object, into out.
func (c *Client) call(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := newDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("read %s: %w", r.path, err)
	}
	return nil
}

// List calls each for every object, in pages, and returns the resource version to
// watch from. each must not keep its argument.
func (c *Client) List(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (version string, err error) {
	q := maps.Clone(query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(pageSize))
	for range maxPages {
		page, err := c.page(ctx, path, q, each)
		if err != nil {
			return "", err
		}
		if page.Continue == "" {
			return page.Version, nil
		}
		q.Set("continue", page.Continue)
	}
	return "", fmt.Errorf("list %s: it has more than %d pages", path, maxPages)
}

// listMeta holds the fields of metav1.ListMeta that are used here.
type listMeta struct {
	Version  string `json:"resourceVersion"`
	Continue string `json:"continue"`
}

func (c *Client) page(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (meta listMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return meta, err
	}
	defer body.Close()
	if meta, err = readList(body, each); err != nil {
		return meta, fmt.Errorf("list %s: %w", path, err)
	}
	return meta, nil
}

// readList reads a list object by object, so that only one is in memory.
func readList(r io.Reader, each func(json.RawMessage) error) (meta listMeta, err error) {
	d := newDecoder(r)
	if t, err := d.Token(); err != nil {
		return meta, err
	} else if t != json.Delim('{') {
		return meta, fmt.Errorf("the answer is no object but begins with %v", t)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return meta, err
		}
		switch key {
		case "metadata":
			err = d.Decode(&meta)
		case "items":
			err = d.readItems(each)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return meta, err
		}
	}
	_, err = d.Token()
	return meta, err
}

// decoder reads a sequence of JSON values. It ends with errTooLarge at a value that is
// longer than maxObject.
type decoder struct {
	*json.Decoder
	budget *budget
}

func newDecoder(body io.Reader) decoder {
	b := &budget{r: body, left: maxObject}
	return decoder{json.NewDecoder(b), b}
}

// next decodes a value that may have maxObject bytes.
func (d decoder) next(out any) error {
	d.budget.left = maxObject
	return d.Decode(out)
}

// readItems reads the items of a list.
func (d decoder) readItems(each func(json.RawMessage) error) error {
	t, err := d.Token()
	if err != nil || t == nil { // null: there is none
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("items are no list but %v", t)
	}
	for d.More() {
		var item json.RawMessage
		if err := d.next(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	d.budget.left = maxObject
	_, err = d.Token()
	return err
}

// Event is one event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"` // not kept
}

// Watch calls each for every event after the resource version in query, until the
// server ends the watch or is silent for 90 seconds, which is no error, or something
// fails. opened is called when the server has answered.
func (c *Client) Watch(ctx context.Context, path string, query url.Values, opened func(), each func(Event) error) error {
	lasts := watchFor + rand.N(time.Minute)
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	defer cancel()
	q := maps.Clone(query)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	silence := time.AfterFunc(openWithin, cancel)
	defer silence.Stop()
	body, err := c.send(ctx, request{method: http.MethodGet, path: path, query: q})
	if err != nil && outer.Err() == nil && ctx.Err() != nil {
		return fmt.Errorf("watch %s: no answer within %v", path, openWithin)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	opened()
	d := newDecoder(body)
	for {
		silence.Reset(silentFor)
		var e Event
		if err := d.next(&e); err != nil {
			if errors.Is(err, io.EOF) || outer.Err() == nil && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if e.Type == "ERROR" {
			var s status
			if err := json.Unmarshal(e.Object, &s); err != nil {
				return fmt.Errorf("watch %s: %w", path, err)
			}
			return s.error()
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// budget ends a body that sends more than it may before it is reset.
type budget struct {
	r    io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
