package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/sources/objects"
)

const objectFolder = "objects"

const maxTries = 3

// eventsName is the resource for Events that the ClusterRole view allows to read.
const eventsName = "events"

var coreResources = map[string]objects.Resource{
	eventsName: {Path: "/api/v1/events", APIVersion: "v1", Kind: "Event", Namespaced: true},
	"pods":     {Path: "/api/v1/pods", APIVersion: "v1", Kind: "Pod", Namespaced: true},
}

// listObjects calls f for each object in a namespace. "" means all namespaces. After an error that may be temporary, it
// repeats the request, unless objects have already arrived.
func (d *download) listObjects(ctx context.Context, resource objects.Resource, namespace string, f func(json.RawMessage) error) error {
	for try := 1; ; try++ {
		got := false
		_, err := d.Client.List(ctx, resource.ListPath(namespace), resource.Query, func(in json.RawMessage) error { got = true; return f(in) })
		if err == nil || got || try == maxTries || !isTemporary(err) || !pause.Sleep(ctx, retryDelay(err, try), nil) {
			return err
		}
	}
}

// isTemporary reports whether the request may succeed if it is repeated, possibly with new credentials.
func isTemporary(err error) bool {
	code := kube.StatusCode(err)
	return code == http.StatusUnauthorized || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError ||
		errors.Is(err, errBroken) && !errors.Is(err, errQuiet) || isUnreachable(err) && !errors.Is(err, context.DeadlineExceeded)
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok
}

func explainError(err error) error {
	switch {
	case kube.StatusCode(err) == http.StatusUnauthorized:
		return fmt.Errorf("the API server refuses the credentials, which may have expired; log in again: %w", err)
	case isUnreachable(err) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server does not answer: %w", err)
	case isUnreachable(err):
		return fmt.Errorf("the API server cannot be reached: %w", err)
	}
	return err
}

func retryDelay(err error, try int) time.Duration {
	return max(pause.Backoff(kube.FirstRetry, kube.SlowRetry, try), kube.RetryAfter(err))
}

// readObjects writes to files the Events and the objects of all kinds that the source objects of the daemon reads.
func (d *download) readObjects(ctx context.Context) {
	names := []string{eventsName}
	if d.Until.IsZero() {
		names = append(names, objects.DefaultKinds()...)
	} else {
		d.unseen.addOptional("states of objects", "", "the cluster has those of now, and the range ends before", "")
	}
	runConcurrently(len(names), func(i int) {
		of, known := coreResources[names[i]]
		var err error
		if !known {
			of, err = objects.FindResource(ctx, d.Client, names[i])
		}
		if err != nil {
			d.unseen.addRefused(names[i], "", roleRule(names[i], "list"), err)
			return
		}
		if of.Path != "" {
			d.readKind(ctx, names[i], of)
		}
	})
}

func (d *download) readKind(ctx context.Context, name string, resource objects.Resource) {
	out := &objectFile{dir: d.Dir, name: name, resource: resource}
	add := func(in json.RawMessage) error {
		if !d.wantsObject(name, in) {
			return nil
		}
		return out.add(in)
	}
	rule := roleRule(name, "list")
	err := error(&kube.Error{Code: http.StatusForbidden})
	if d.allNamespaces || !resource.Namespaced {
		err = d.listObjects(ctx, resource, "", add)
	}
	if resource.Namespaced && kube.StatusCode(err) == http.StatusForbidden {
		err = nil
		for namespace := range d.selected {
			if err := d.listObjects(ctx, resource, namespace, add); err != nil {
				d.unseen.addRefused(name+" of namespace", namespace, rule, err)
			}
		}
	}
	if err = errors.Join(err, out.close()); err != nil {
		d.unseen.addRefused(name, "", rule, err)
	}
}

// wantsObject reports whether an object is downloaded. The object must belong to a selected namespace or to no
// namespace. An Event must also be in the time range. Events about Nodes are in the namespace default.
func (d *download) wantsObject(kind string, in json.RawMessage) bool {
	of := decodeIdentity(in)
	namespace := of.Metadata.Namespace
	if kind != eventsName {
		return namespace == "" || d.readsNamespace(namespace)
	}
	if !d.readsNamespace(namespace) && !(namespace == "default" && of.InvolvedObject.Namespace == "") {
		return false
	}
	_, _, at, err := objects.RecordedEvent(in, d.Now)
	return err != nil || !at.Before(d.Since) && (d.Until.IsZero() || !at.After(d.Until))
}

// readsNamespace reports whether objects in a namespace are read. An infrastructure namespace is read even without
// pods, because its Events may explain why there are none.
func (d *download) readsNamespace(namespace string) bool {
	return d.selected[namespace] || d.allNamespaces && (d.All || d.Set.Namespaces.Has(namespace))
}

// identity contains the names in an object. If the object is an Event, it also contains the names of the object that
// the Event is about.
type identity struct {
	Metadata       struct{ Name, Namespace string }
	InvolvedObject struct{ Namespace string }
}

func decodeIdentity(in json.RawMessage) (of identity) {
	_ = json.Unmarshal(in, &of) // an object that cannot be decoded has no namespace
	return of
}

// objectFile writes a list of objects to a file. The file is created when the first object is written. It is safe for
// concurrent use.
type objectFile struct {
	dir, name string
	resource  objects.Resource

	mu sync.Mutex
	f  *os.File
	w  *bufio.Writer
}

func (o *objectFile) add(in json.RawMessage) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	separator := ",\n"
	if o.f == nil {
		folder := filepath.Join(o.dir, objectFolder)
		err := os.MkdirAll(folder, 0o700)
		if err == nil {
			o.f, err = os.OpenFile(filepath.Join(folder, o.name+".json"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
		if err != nil {
			return err
		}
		o.w = bufio.NewWriterSize(o.f, 64<<10)
		separator = fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"items":[`, o.resource.Kind, o.resource.APIVersion)
	}
	_, err := o.w.WriteString(separator)
	if err == nil {
		_, err = o.w.Write(in)
	}
	return err
}

func (o *objectFile) close() error {
	if o.f == nil {
		return nil
	}
	_, err := o.w.WriteString("]}\n")
	return errors.Join(err, o.w.Flush(), o.f.Close())
}
