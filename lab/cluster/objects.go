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
	"slices"
	"sync"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/kube"
	"crowsnest/sources/objects"
)

// objectFolder is the folder of the objects in that of the download.
const objectFolder = "objects"

// maxTries bounds how often a request is made.
const maxTries = 3

// eventsName names Events in the form that the role view of Kubernetes allows to read.
const eventsName = "events"

// list calls f for the objects of a namespace, "" for all. It tries again what may be
// temporary, as long as no object has arrived.
func (d *download) list(ctx context.Context, of objects.Resource, namespace string, f func(json.RawMessage) error) error {
	for try := 1; ; try++ {
		got := false
		_, err := d.Client.List(ctx, of.Within(namespace), of.Query, func(in json.RawMessage) error { got = true; return f(in) })
		if err == nil || got || try == maxTries || !temporary(err) || !pause.Sleep(ctx, waitOf(err, try), nil) {
			return err
		}
	}
}

// temporary reports whether a request may succeed a moment later. Credentials are read again.
func temporary(err error) bool {
	code := kube.Code(err)
	return code == http.StatusUnauthorized || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError ||
		errors.Is(err, errBroken) && !errors.Is(err, errQuiet) || unreachable(err) && !errors.Is(err, context.DeadlineExceeded)
}

// unreachable reports whether no answer arrived.
func unreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok
}

// explain says what an error means that concerns all requests.
func explain(err error) error {
	switch {
	case kube.Code(err) == http.StatusUnauthorized:
		return fmt.Errorf("the API server refuses the credentials, which may have expired; log in again: %w", err)
	case unreachable(err) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server does not answer: %w", err)
	case unreachable(err):
		return fmt.Errorf("the API server cannot be reached: %w", err)
	}
	return err
}

// waitOf returns how long to wait after a try.
func waitOf(err error, try int) time.Duration {
	return max(pause.Backoff(kube.FirstRetry, kube.SlowRetry, try), kube.RetryAfter(err))
}

// readObjects writes the Events, and the objects of the kinds that the source objects reads.
func (d *download) readObjects(ctx context.Context) {
	names := []string{eventsName}
	if d.Until.IsZero() {
		names = append(names, objects.DefaultKinds()...)
		names = slices.DeleteFunc(names, func(name string) bool { return name == "pods" })
	} else {
		d.unseen.add("states of objects", "", "the cluster has those of now, and the range ends before", "")
	}
	each(len(names), func(i int) {
		of, err := objects.Resource{Path: "/api/v1/events", APIVersion: "v1", Kind: "Event", Namespaced: true}, error(nil)
		if names[i] != eventsName {
			of, err = objects.Find(ctx, d.Client, names[i])
		}
		if err != nil {
			d.unseen.refused(names[i], "", ruleOf(names[i], "list"), err)
			return
		}
		if of.Path != "" {
			d.readKind(ctx, names[i], of)
		}
	})
}

// readKind writes the objects of one kind.
func (d *download) readKind(ctx context.Context, name string, of objects.Resource) {
	out := &objectFile{dir: d.Dir, name: name, of: of}
	add := func(in json.RawMessage) error {
		if !d.wants(name, in) {
			return nil
		}
		return out.add(in)
	}
	rule := ruleOf(name, "list")
	err := error(&kube.Error{Code: http.StatusForbidden})
	if d.wide || !of.Namespaced {
		err = d.list(ctx, of, "", add)
	}
	if of.Namespaced && kube.Code(err) == http.StatusForbidden {
		err = nil
		for namespace := range d.selected {
			if err := d.list(ctx, of, namespace, add); err != nil {
				d.unseen.refused(name+" of namespace", namespace, rule, err)
			}
		}
	}
	if err = errors.Join(err, out.close()); err != nil {
		d.unseen.refused(name, "", rule, err)
	}
}

// wants reports whether an object is of a selected namespace, or of none, or is an Event
// of the time in question. Events about Nodes are in the namespace default.
func (d *download) wants(kind string, in json.RawMessage) bool {
	of := named(in)
	if kind != eventsName {
		return of.Namespace == "" || d.reads(of.Namespace)
	}
	if !d.reads(of.Namespace) && !(of.Namespace == "default" && of.About.Namespace == "") {
		return false
	}
	_, _, at, err := objects.RecordedEvent(in, d.Now)
	return err != nil || !at.Before(d.Since) && (d.Until.IsZero() || !at.After(d.Until))
}

// reads reports whether objects of a namespace are read. One of the infrastructure may
// have no pods, which Events explain.
func (d *download) reads(namespace string) bool {
	return d.selected[namespace] || d.wide && (d.All || d.Set.Namespaces.Has(namespace))
}

// name is what identifies an object.
type name struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// About is the object that an Event is about.
	About struct{ Namespace string }
}

func named(in json.RawMessage) name {
	var o struct {
		Metadata name `json:"metadata"`
		About    struct {
			Namespace string `json:"namespace"`
		} `json:"involvedObject"`
	}
	_ = json.Unmarshal(in, &o) // an object without a name is in no namespace
	o.Metadata.About.Namespace = o.About.Namespace
	return o.Metadata
}

// objectFile is a list of objects in a file, which is created for the first one. It is safe
// for concurrent use.
type objectFile struct {
	dir, name string
	of        objects.Resource

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
		separator = fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"items":[`, o.of.Kind, o.of.APIVersion)
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
