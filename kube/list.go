package kube

import (
	"bytes"
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
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.get(ctx, path, query, false)
	if err != nil {
		return err
	}
	return decode(body, path, out)
}

// Create posts an object and reads the answer into out, which may be the object.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.write(ctx, http.MethodPost, path, object, out)
}

// Replace replaces the object at path, in the version that object states, and reads the
// answer into out, which may be the object.
func (c *Client) Replace(ctx context.Context, path string, object, out any) error {
	return c.write(ctx, http.MethodPut, path, object, out)
}

func (c *Client) write(ctx context.Context, method, path string, object, out any) error {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	in, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	body, err := c.send(ctx, request{method: method, path: path, object: bytes.NewReader(in)})
	if err != nil {
		return err
	}
	return decode(body, path, out)
}

func decode(body io.ReadCloser, path string, out any) error {
	defer body.Close()
	if err := json.NewDecoder(&budget{r: body, left: maxObject}).Decode(out); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
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

func (c *Client) page(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (listMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.get(ctx, path, query, false)
	if err != nil {
		return listMeta{}, err
	}
	defer body.Close()
	meta, err := readList(body, each)
	if err != nil {
		return meta, fmt.Errorf("list %s: %w", path, err)
	}
	return meta, nil
}

// readList reads a list object by object, so that only one is in memory.
func readList(r io.Reader, each func(json.RawMessage) error) (meta listMeta, err error) {
	b := &budget{r: r, left: maxObject}
	d := json.NewDecoder(b)
	if err := open(d, '{'); err != nil {
		return meta, err
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
			err = readItems(d, b, each)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return meta, err
		}
	}
	_, err = d.Token()
	return meta, err
}

func readItems(d *json.Decoder, b *budget, each func(json.RawMessage) error) error {
	t, err := d.Token()
	if err != nil || t == nil { // null: there is none
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("items are no list but %v", t)
	}
	for d.More() {
		b.left = maxObject
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	b.left = maxObject
	_, err = d.Token()
	return err
}

func open(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("the answer is no object but begins with %v", t)
	}
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
	body, err := c.get(ctx, path, q, false)
	if err != nil && outer.Err() == nil && ctx.Err() != nil {
		return fmt.Errorf("watch %s: no answer within %v", path, openWithin)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	opened()
	b := &budget{r: body}
	d := json.NewDecoder(b)
	for {
		silence.Reset(silentFor)
		b.left = maxObject
		var e Event
		if err := d.Decode(&e); err != nil {
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
			return s.error(0)
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
