// Package documents reads Kubernetes objects from files: YAML and JSON as kubectl,
// must-gather and support bundles write it, single objects and lists.
//
// A file may be hostile. Objects are read one by one, so that memory depends on the
// largest object, which is bounded, and not on the file.
package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"crowsnest/strictyaml"
)

// MaxObject bounds the bytes of one object. etcd refuses objects of more than 1.5 MiB.
const MaxObject = 4 << 20

// Object is a Kubernetes object.
type Object struct {
	APIVersion, Kind string
	JSON             json.RawMessage
}

// Rest counts what a file contains besides objects.
type Rest struct {
	Foreign int   // values that are no Kubernetes objects
	Broken  int   // values that cannot be decoded
	First   error // why the first of them cannot
}

func (r *Rest) broken(err error) {
	if r.Broken++; r.First == nil {
		r.First = err
	}
}

// Reasons for objects that are not read.
var (
	errLarge = fmt.Errorf("an object has more than %d MiB", MaxObject>>20)
	errMany  = fmt.Errorf("an object has more than %d values", strictyaml.MaxValues)
)

// Each calls f with each object of a file in its order. What follows damage in JSON cannot
// be read. It returns an error only if r does.
func Each(r io.Reader, f func(Object)) (Rest, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var rest Rest
	head, err := br.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return rest, err
	}
	list := listOf{each: f, rest: &rest}
	if head = bytes.TrimLeft(head, " \t\r\n\ufeff"); len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		err = list.readJSON(br)
	} else {
		err = list.readYAML(br)
	}
	return rest, err
}

// listOf reads one list, or one object. A list of one kind may state it once.
type listOf struct {
	each func(Object)
	rest *Rest

	apiVersion, kind string // defaults for items that state none
}

// described is what every object has.
type described struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
	Involved   json.RawMessage `json:"involvedObject"`
}

// describe notes the kind of the items of a list.
func (l *listOf) describe(d described) {
	if kind, ok := strings.CutSuffix(d.Kind, "List"); ok && kind != "" {
		l.apiVersion, l.kind = d.APIVersion, kind
	}
}

// object passes on one JSON value if it is an object.
func (l *listOf) object(in json.RawMessage) {
	var d described
	if err := json.Unmarshal(in, &d); err != nil {
		l.rest.Foreign++ // such as a list of numbers
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
	l.each(Object{APIVersion: d.APIVersion, Kind: d.Kind, JSON: in})
}
