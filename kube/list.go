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
	// pageSize is the number of objects per request.
	pageSize = 250
	// maxObject is the largest size of one object. etcd accepts 1.5 MiB.
	maxObject  = 8 << 20
	maxPages   = 10000
	pageWithin = time.Minute
	// watchFor is the time after which the server ends a watch, or up to a minute later. If the
	// server does not end it, the client does.
	watchFor   = 4 * time.Minute
	watchGrace = 30 * time.Second
	// silentFor is the time without messages, including bookmarks, after which a watch is
	// opened again. Its connection may be dead although nothing reports that.
	silentFor = 90 * time.Second
	// openWithin is the time in which the server must answer a request for a watch.
	openWithin = 30 * time.Second
)

// errTooLarge means that the server sent a value that is larger than any object.
var errTooLarge = errors.New("an object is larger than 8 MiB")

// Get reads one object into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query}, out)
}

// Create posts an object and reads the response into out, which may be object.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPost, path: path, object: object}, out)
}

// Replace replaces the object at path, in the version that object states. It reads the response
// into out, which may be object.
func (c *Client) Replace(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPut, path: path, object: object}, out)
}

// call sends a request and reads the response, which is one object, into out.
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

// List reads all objects in pages, and calls each for every object. It returns the resource
// version from which to watch. each must not keep its argument.
func (c *Client) List(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (version string, err error) {
	q := maps.Clone(query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(pageSize))
	for range maxPages {
		page, err := c.listPage(ctx, path, q, each)
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

// listMeta holds the used fields of metav1.ListMeta.
type listMeta struct {
	Version  string `json:"resourceVersion"`
	Continue string `json:"continue"`
}

func (c *Client) listPage(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (meta listMeta, err error) {
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

// readList reads a list object by object, so that only one object is in memory.
func readList(r io.Reader, each func(json.RawMessage) error) (meta listMeta, err error) {
	d := newDecoder(r)
	if t, err := d.Token(); err != nil {
		return meta, err
	} else if t != json.Delim('{') {
		return meta, fmt.Errorf("the response is not a JSON object, but begins with %v", t)
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

// decoder reads a sequence of JSON values. It fails with errTooLarge at a value that is longer
// than maxObject.
type decoder struct {
	*json.Decoder
	budget *budget
}

func newDecoder(body io.Reader) decoder {
	b := &budget{r: body, left: maxObject}
	return decoder{json.NewDecoder(b), b}
}

// decodeNext decodes the next value, which may have up to maxObject bytes.
func (d decoder) decodeNext(out any) error {
	d.budget.left = maxObject
	return d.Decode(out)
}

// readItems reads the array of items of a list.
func (d decoder) readItems(each func(json.RawMessage) error) error {
	t, err := d.Token()
	if err != nil || t == nil { // the value is null if there are no items
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("items is not a list, but %v", t)
	}
	for d.More() {
		var item json.RawMessage
		if err := d.decodeNext(&item); err != nil {
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

// Event is one event of a watch. Its type is ADDED, MODIFIED, DELETED or BOOKMARK.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"` // valid only during the call
}

// Watch calls each for every event after the resource version in query. It returns nil when the
// server ends the watch or sends nothing for 90 seconds, and an error if something fails.
// opened is called when the server has answered.
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
		if err := d.decodeNext(&e); err != nil {
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
			return s.toError()
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// budget limits how many bytes of a body may be read before the limit is reset. Beyond the
// limit, Read returns errTooLarge.
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
