package objects

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// output passes the lines of a source to the pipeline. It also keeps the source's streams, counts of lost lines, and
// status.
type output struct {
	name       string
	components []string // possible values of the label component
	namespaces []string // possible values of the label namespace; empty means any
	labels     map[string]string
	clock      func() time.Time
	client     *kube.Client
	read       []func(context.Context) // functions that read until their context ends
	pipe       sources.Pipeline        // pipeline; set by Run

	mu      sync.Mutex // guards the following fields
	status  sources.Status
	streams map[streamKey]*stream
}

type streamKey struct{ component, namespace string }

func (k streamKey) compare(o streamKey) int {
	return cmp.Or(cmp.Compare(k.component, o.component), cmp.Compare(k.namespace, o.namespace))
}

// stream is a stream of lines. It may be dropped at any time, because the next line creates a new one.
type stream struct {
	*matcher.Stream
	status sources.StreamStatus // guarded by output.mu
}

type line struct {
	view      view
	namespace string
	text      string
}

// Name returns the name in the configuration, by default the kind of the source.
func (o *output) Name() string { return o.name }

// Serves reports whether the selector can match a stream of this source. Streams have only the
// labels component, namespace and the configured labels.
func (o *output) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(o.components, func(component string) bool {
		for _, m := range from.Matchers() {
			matches := m.Matches(o.labels[m.Name])
			switch m.Name {
			case "namespace":
				matches = len(o.namespaces) == 0 || slices.ContainsFunc(o.namespaces, m.Matches)
			case "component":
				matches = m.Matches(component)
			}
			if !matches {
				return false
			}
		}
		return true
	})
}

// Run reads until ctx ends, which also ends requests in progress.
func (o *output) Run(ctx context.Context, p sources.Pipeline) error {
	o.pipe = p
	defer o.client.Close()
	defer o.withLock(func() { o.status.Up = false })
	var running sync.WaitGroup
	for _, read := range o.read {
		running.Go(func() { read(ctx) })
	}
	running.Wait()
	return nil
}

func (o *output) withLock(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// writeLines passes lines to the pipeline. It calls commit in the same checkpoint as the last line, with mu held. If
// lines is empty, it still calls commit. Calls for the same stream must not overlap.
func (o *output) writeLines(lines []line, t time.Time, commit func()) {
	for i, l := range lines {
		st := o.stream(streamKey{l.view.component(), l.namespace})
		o.pipe.Match(st.Stream, matcher.Record{Time: t, Text: []byte(l.text)}, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			c := st.Counters()
			st.status.Offset, st.status.Size, st.status.Lines, st.status.LastRead = c.Bytes, c.Bytes, c.Lines, o.clock()
			o.status.Lines, o.status.Evaluated = o.status.Lines+1, o.status.Evaluated+1
			o.status.Bytes += int64(len(l.text))
			if i == len(lines)-1 {
				commit()
			}
		})
	}
	if len(lines) == 0 {
		o.withLock(commit)
	}
}

func (o *output) stream(key streamKey) *stream {
	o.mu.Lock()
	defer o.mu.Unlock()
	if st, ok := o.streams[key]; ok {
		return st
	}
	labels := matcher.Labels{}
	maps.Copy(labels, o.labels)
	labels["component"] = key.component
	if key.namespace != "" {
		labels["namespace"] = key.namespace
	}
	st := &stream{Stream: matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText})}
	st.status.Labels = labels
	o.streams[key] = st
	return st
}

// countLost counts a loss or a possible loss. The caller holds mu.
func (o *output) countLost(reason, path string) {
	o.status.Losses[reason] = sources.Loss{Count: o.status.Losses[reason].Count + 1, Time: o.clock().UTC(), Path: path}
}

// copyStatus returns a copy of the status, including the streams. The caller holds mu.
func (o *output) copyStatus() sources.Status {
	st := o.status
	st.Errors, st.Losses = maps.Clone(st.Errors), maps.Clone(st.Losses)
	for _, key := range slices.SortedFunc(maps.Keys(o.streams), streamKey.compare) {
		st.Streams = append(st.Streams, o.streams[key].status)
	}
	return st
}
