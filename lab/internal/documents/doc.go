// Package documents reads Kubernetes objects from files. It reads YAML and JSON in the forms
// that kubectl, must-gather and support bundles write: single objects and lists.
//
// A file may be hostile. Objects are read one by one, so that memory depends on the largest
// object (which is limited) and not on the size of the file.
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

// MaxObject is the maximum size of one object, in bytes. etcd refuses objects of more than 1.5
// MiB.
const MaxObject = 4 << 20

// Object is a Kubernetes object.
type Object struct {
	APIVersion, Kind string
	JSON             json.RawMessage
}

// Rest counts the content of a file that is not an object.
type Rest struct {
	Foreign int   // number of values that are not Kubernetes objects
	Broken  int   // number of values that cannot be decoded
	First   error // error of the first value that cannot be decoded
}

func (r *Rest) noteBroken(err error) {
	if r.Broken++; r.First == nil {
		r.First = err
	}
}

// Reasons why an object is not read.
var (
	errLarge = fmt.Errorf("an object has more than %d MiB", MaxObject>>20)
	errMany  = fmt.Errorf("an object has more than %d values", strictyaml.MaxValues)
)

// Each calls f with each object of a file, in order. JSON after a syntax error cannot be read.
// Each returns an error only if r does.
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

// listOf reads one list or one object. A list may state the kind of its items once.
type listOf struct {
	each func(Object)
	rest *Rest

	apiVersion, kind string // defaults for items that do not state them
}

// described has the fields that every object has.
type described struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
	Involved   json.RawMessage `json:"involvedObject"`
}

// noteKind stores the kind of the items of a list.
func (l *listOf) noteKind(d described) {
	if kind, ok := strings.CutSuffix(d.Kind, "List"); ok && kind != "" {
		l.apiVersion, l.kind = d.APIVersion, kind
	}
}

// passObject passes a JSON value on if it is an object.
func (l *listOf) passObject(in json.RawMessage) {
	var d described
	if err := json.Unmarshal(in, &d); err != nil {
		l.rest.Foreign++ // this may be a list of numbers
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
