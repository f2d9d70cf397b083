package inputs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/times"
	"crowsnest/lab/internal/documents"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/sources/journal"
	"crowsnest/sources/objects"
)

// Limits of the data that are kept until all documents of one argument are read.
const (
	maxStateBytes = 64 << 20 // maximum size of generated lines in bytes
	maxObjects    = 50_000
)

const noObjects = "contains no Kubernetes objects"

// hasObjects matches the text of a file that contains Kubernetes objects.
var hasObjects = lazyre.New(`(?m)^(?:- )?(?:apiVersion|kind|items):|"(?:apiVersion|kind|items)"\s*:`)

// compactList matches a Kubernetes list on one line. Any other JSON on one line is a log line.
var compactList = lazyre.New(`^\s*\{\s*"(?:kind"\s*:\s*"\w*List"|apiVersion"\s*:\s*"[^"]*"\s*,\s*"(?:items"|kind"\s*:\s*"\w*List"|metadata"\s*:\s*\{[^}]*\}\s*,\s*"items"))`)

// hasDocument reports whether a file contains Kubernetes objects, as YAML or as JSON over several lines. head contains
// the first bytes of the file.
func hasDocument(path string, head []byte) bool {
	return (isYAML(path) || isDocument(head) || compactList.Match(head)) && hasObjects.Match(head)
}

func isYAML(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}

// stateKey identifies a stream of generated lines about the state of a cluster.
type stateKey struct{ cluster, component, namespace string }

type stateLine struct {
	at   time.Time
	text string
}

type container struct{ cluster, namespace, pod, name string }

// pendingObject is an object that is kept until the time of its argument is known.
type pendingObject struct {
	cluster string
	record  *objects.RecordedObject
	listed  time.Time // newest time in the file of the object
}

// state contains the data from the documents of one argument.
type state struct {
	now     time.Time
	newest  time.Time // newest time in all documents, which serves as the time at which they were collected
	lines   map[stateKey][]stateLine
	bytes   int
	objects []pendingObject
	images  map[container]string
	dropped int // number of Events and objects that exceed the limits and were dropped
}

func newState(now time.Time) *state {
	return &state{now: now, lines: map[stateKey][]stateLine{}, images: map[container]string{}}
}

func (c *collector) addDocument(path string) {
	f, err := os.Open(path)
	if err != nil {
		c.recordLoss("read", path, err)
		return
	}
	defer f.Close()
	first, cluster := len(c.state.objects), c.labels(path)["cluster"]
	bad, read := 0, 0
	rest, err := documents.Each(f, func(o documents.Object) {
		if read++; o.Kind == "Secret" {
			return
		}
		if err := c.state.add(cluster, o); err != nil {
			bad++
		}
	})
	c.state.list(first)
	if err != nil {
		c.recordLoss("read", path, err)
		return
	}
	if read+rest.Broken == 0 {
		c.skip(path, noObjects)
		return
	}
	of := &c.account.Files[c.read(c.shown(path), asDocuments)]
	of.Lines, of.Understood = int64(read+rest.Broken), int64(read-bad)
	switch {
	case rest.Broken > 0:
		of.Problem = fmt.Sprintf("%d of its objects cannot be read: %v", rest.Broken+bad, rest.First)
	case bad > 0:
		of.Problem = fmt.Sprintf("%d of its objects do not have the form of their kind", bad)
	}
}

func (s *state) add(cluster string, o documents.Object) error {
	if o.Kind == "Event" {
		namespace, text, at, err := objects.RecordedEvent(o.JSON, s.now)
		if err == nil {
			s.newest = times.Max(s.newest, at)
			s.line(stateKey{cluster, "events", namespace}, stateLine{at, text})
		}
		return err
	}
	of, err := objects.ReadRecorded(o.APIVersion, o.Kind, o.JSON)
	if err != nil {
		return err
	}
	for name, image := range of.Images() {
		if len(s.images) < maxObjects {
			s.images[container{cluster, of.Namespace(), of.Name(), name}] = image
		}
	}
	if len(s.objects) == maxObjects {
		s.dropped++
		return nil
	}
	s.objects = append(s.objects, pendingObject{cluster: cluster, record: of})
	return nil
}

// list sets the time at which the objects of one file were listed. first is the index of the first of these objects.
func (s *state) list(first int) {
	var newest time.Time
	for _, p := range s.objects[first:] {
		newest = times.Max(newest, times.Min(p.record.Newest(), s.now))
	}
	s.newest = times.Max(s.newest, newest)
	for i := range s.objects[first:] {
		s.objects[first+i].listed = newest
	}
}

// addImage adds the label image of a container, if the documents contain the image.
func (s *state) addImage(labels matcher.Labels) {
	image := s.images[container{labels["cluster"], labels["namespace"], labels["pod"], labels["container"]}]
	if image != "" && labels["image"] == "" {
		labels["image"] = image
	}
}

func (s *state) line(k stateKey, l stateLine) {
	if s.bytes += len(l.text); s.bytes > maxStateBytes {
		s.dropped++
		return
	}
	s.lines[k] = append(s.lines[k], l)
}

// addState adds an input for each stream of Events, and for each view of objects, in the documents of an argument. It
// also adds the label image to the logs of the argument. from is the index of the first of these logs.
func (c *collector) addState(arg string, from int) {
	s := c.state
	at := cmp.Or(s.newest, s.now)
	for _, p := range s.objects {
		for _, l := range p.record.Lines(at, p.listed) {
			s.line(stateKey{p.cluster, l.Component, l.Namespace}, stateLine{l.Time, l.Text})
		}
	}
	if s.dropped > 0 {
		c.fail(fmt.Errorf("%s: %d Events or objects are too many to be read; scan parts of it", arg, s.dropped))
	}
	for _, in := range c.logs.inputs[from:] {
		if in.Derive == nil {
			s.addImage(in.Labels)
		}
	}
	order := func(a, b stateKey) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.component, b.component), cmp.Compare(a.namespace, b.namespace))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.lines), order) {
		if err := c.addLines(arg, k, s.lines[k]); err != nil {
			c.fail(err)
		}
	}
}

func (c *collector) addLines(arg string, k stateKey, lines []stateLine) error {
	slices.SortStableFunc(lines, func(a, b stateLine) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.text, b.text)) })
	var b bytes.Buffer
	for _, l := range slices.CompactFunc(lines, func(a, b stateLine) bool { return a.at.Equal(b.at) && a.text == b.text }) {
		if err := writeLine(&b, l); err != nil {
			return fmt.Errorf("write the lines of %s: %w", k.component, err)
		}
	}
	path, err := spool(&b, c.opt.Unpack)
	if err != nil {
		return fmt.Errorf("the lines of %s: %w", k.component, err)
	}
	labels := matcher.Labels{"component": k.component}
	for name, value := range map[string]string{"cluster": k.cluster, "namespace": k.namespace} {
		if value != "" {
			labels[name] = value
		}
	}
	maps.Copy(labels, c.opt.Labels)
	name := strings.Join(slices.DeleteFunc([]string{k.cluster, k.component, k.namespace}, func(s string) bool { return s == "" }), " ")
	c.states = append(c.states, replay.Input{
		Name: c.shown(arg) + "[" + name + "]", Labels: labels, Exact: true,
		Open: func() (io.ReadCloser, error) { return os.Open(path) },
	})
	return nil
}

func writeLine(b *bytes.Buffer, l stateLine) error {
	return json.NewEncoder(b).Encode(struct {
		Log    string    `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}{l.text + "\n", "stdout", l.at.UTC()})
}

// journalMagic is the first bytes of a systemd journal file.
const journalMagic = "LPKSHHRH"

// addJournal adds an input for each combination of unit, identifier and transport in a journal.
func (c *collector) addJournal(path string) {
	f, err := os.Open(path)
	if err != nil {
		c.recordLoss("read", path, err)
		return
	}
	defer f.Close()
	found, err := journal.ReadRecorded(f)
	if err != nil {
		c.recordLoss("read", path, fmt.Errorf("it begins like a systemd journal: %w", err))
		return
	}
	file := c.read(c.shown(path), asJournal)
	if found.Damaged > 0 {
		c.account.Files[file].Problem = fmt.Sprintf("%d of %d entries are damaged", found.Damaged, found.Damaged+found.Entries)
	}
	for _, log := range found.Logs {
		labels := maps.Clone(log.Labels)
		maps.Copy(labels, c.labels(path))
		delete(labels, "filename")
		name := labels["unit"]
		if name == "" {
			name = labels["identifier"]
		}
		c.journals.add(file, nil, nil, replay.Input{Name: c.shown(path) + "[" + name + "]", Labels: labels, Open: func() (io.ReadCloser, error) {
			f, err := os.Open(path)
			if err != nil {
				return nil, cause(err)
			}
			lines := log.Lines(f)
			return journalLines{lines, f}, nil
		}})
	}
}

// journalLines reads lines of a journal, and closes the journal file when it is closed.
type journalLines struct {
	io.ReadCloser
	file io.Closer
}

func (l journalLines) Close() error {
	_ = l.ReadCloser.Close() // cannot fail
	return l.file.Close()
}
