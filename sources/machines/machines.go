// Package machines compares the Nodes of a cluster with its Cluster API Machines and
// writes the results as log lines, so that rules can match a state that nobody logs: a
// node without a Machine is never upgraded, and no controller reports it.
//
// It needs list of nodes and of machines.cluster.x-k8s.io, in the version that the
// server prefers. Every interval it writes one line for each node, one for each Machine
// without a node, and a summary. The stream has the label component="machines". The
// lines are:
//
//	msg="node has no machine" node=NODE
//	msg="node has a machine" node=NODE machine=NAMESPACE/NAME cluster=NAMESPACE/NAME
//	msg="node is gone" node=NODE
//	msg="machine has no node" machine=NAMESPACE/NAME cluster=NAMESPACE/NAME phase=PHASE
//	msg="machine is gone" machine=NAMESPACE/NAME
//	msg="nodes and machines agree" nodes=4 machines=4
//	msg="nodes and machines differ" nodes=4 machines=3 nodes_without_machine=1 machines_without_node=0
//	msg="no machine belongs to these nodes" nodes=4 machines=7
//	msg="node is claimed by other machines" node=NODE machines=2 first=NAMESPACE/NAME
//
// A tenant may create a Machine that names any node, so a Machine has a node only if the
// Node agrees: its annotations name the Machine, as Cluster API writes them, or without
// such annotations both have one provider ID, or the Machine is in the namespace of the
// configuration. The last line counts the Machines that only claim a node.
//
// The removal of an object is reported once, and only if it had no counterpart before.
// A Machine that is being deleted counts as removed, unless it still has its node. The
// line "no machine belongs to these nodes" states that none of the clusters that the API server manages is its own; the
// comparison then writes no line about their nodes. These texts do not change.
//
// If the Cluster API is not installed, and was not according to the saved position,
// there is nothing to watch: the source is up and idle, and checks again every
// interval. If it was installed and is now missing, the source is down.
package machines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/machines"
)

const (
	// defaultInterval is the time between two comparisons.
	defaultInterval = time.Minute

	minInterval = 5 * time.Second
	maxInterval = time.Hour
	// retryAfter is the longest wait after a failed comparison.
	retryAfter = 30 * time.Second
	// watermarkEvery is the interval at which the watermark advances.
	watermarkEvery = 5 * time.Second
	component      = "machines"
)

// Config selects the Machines that belong to the nodes of the cluster.
type Config struct {
	// Name is the source's name if there are several of the kind. Default
	// "machines".
	Name string `yaml:"name" bounds:"0,4096"`
	// Kubeconfig is the path of a file. The default is the service account of the
	// pod that this program runs in.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespace and Cluster name this cluster's own Cluster, such as fleet-local and
	// local on Harvester. By default, Machines count if their Cluster has at least one
	// Machine that is a node here.
	Namespace string `yaml:"namespace" bounds:"0,4096"`
	Cluster   string `yaml:"cluster" bounds:"0,4096"`
	// Interval is the time between two comparisons. Default 1m.
	Interval time.Duration `yaml:"interval" bounds:"0s,1y"`
	// Labels are added to the stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Interval != 0 && (c.Interval < minInterval || c.Interval > maxInterval) {
		errs = append(errs, fmt.Errorf("machines: interval is %v; use a duration from %v to %v", c.Interval, minInterval, maxInterval))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("machines: label %q is not a label name; use letters, digits and _", name))
		case name == "component":
			errs = append(errs, errors.New(`machines: label "component" is always "machines"; remove it`))
		}
	}
	return errors.Join(errs...)
}

// Source compares Nodes with Machines.
type Source struct {
	cfg    Config
	client *kube.Client
	labels matcher.Labels
	stream *matcher.Stream

	mu     sync.Mutex
	status sources.Status
	last   machines.Lacking // of the latest comparison
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg.Name = cmp.Or(cfg.Name, "machines")
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	labels := matcher.Labels{}
	maps.Copy(labels, cfg.Labels)
	labels["component"] = component
	s := &Source{
		cfg: cfg, labels: labels, stream: matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText}),
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
	}
	s.status = sources.Status{Name: cfg.Name, Errors: map[string]int64{"compare": 0}}
	return s
}

// Name returns "machines" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Serves reports whether the selector matches the single stream of this source.
func (s *Source) Serves(from rules.Selector) bool { return from.Matches(s.labels, false) }

// Remote marks the source as served by another process.
func (s *Source) Remote() {}

// Positions returns the objects without a counterpart. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := json.Marshal(s.last)
	if err != nil {
		return nil // cannot fail
	}
	return b
}

// Restore sets the objects without a counterpart, so that their removal is reported.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in machines.Lacking
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = in
	return nil
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors = maps.Clone(st.Errors)
	st.Streams = slices.Clone(st.Streams)
	return st
}

// Run compares until ctx ends, which also ends a request in progress.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	defer s.client.Close()
	defer s.set(func(st *sources.Status) { st.Up = false })
	tick := time.NewTicker(min(watermarkEvery, s.cfg.Interval))
	defer tick.Stop()
	var due time.Time
	failed := 0
	for {
		now := s.cfg.Clock()
		if !now.Before(due) || now.Before(due.Add(-2*s.cfg.Interval)) { // the clock was set back
			idle, err := s.idle(s.compare(ctx, p))
			if ctx.Err() != nil {
				return nil
			}
			if due = now.Add(s.cfg.Interval); err == nil {
				failed = 0
			} else if failed++; failed == 1 {
				due = now // after reading the credentials again
			} else {
				due = now.Add(min(s.cfg.Interval, retryAfter))
			}
			s.note(idle, err, failed)
		}
		if failed == 0 {
			s.advanceWatermark(p)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// idle returns the reason why there is nothing to compare, "" if there is something,
// and the error of a failed comparison. Machines that existed before and are missing
// now are a failure.
func (s *Source) idle(err error) (string, error) {
	if !errors.Is(err, errNone) {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Compared {
		return "", errGone
	}
	return errNone.Error(), nil
}

// note records the result of a comparison. It does not report a single failure.
func (s *Source) note(idle string, err error, failed int) {
	s.set(func(st *sources.Status) {
		if err == nil {
			st.Up, st.Opened, st.Error, st.Idle = true, true, "", idle
			return
		}
		st.Idle = ""
		st.Errors["compare"]++
		if failed > 1 || !st.Opened {
			st.Up, st.Error = false, explain(err)
		}
	})
}

// advanceWatermark advances the watermark: only this source writes lines, so none is
// missing.
func (s *Source) advanceWatermark(p sources.Pipeline) {
	now := s.cfg.Clock()
	s.set(func(st *sources.Status) { st.Watermark = now })
	p.AdvanceWatermark(s.cfg.Name, now)
}

func (s *Source) set(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// compare reads both lists and writes the lines of one comparison.
func (s *Source) compare(ctx context.Context, p sources.Pipeline) error {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	all, err := s.machines(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	lines, now := machines.Selection{Namespace: s.cfg.Namespace, Cluster: s.cfg.Cluster}.Compare(nodes, all, last)
	at := s.cfg.Clock()
	for i, line := range lines {
		p.Match(s.stream, matcher.Record{Time: at, Text: []byte(line)}, func() {
			c := s.stream.Counters()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.status.Count(c)
			s.status.Streams = []sources.StreamStatus{{Labels: s.labels, Offset: c.Bytes, Size: c.Bytes, Lines: c.Lines, LastRead: at}}
			if i == len(lines)-1 {
				s.last = now
			}
		})
	}
	return nil
}

// explain adds the fix to an error.
func explain(err error) string {
	switch kube.Code(err) {
	case http.StatusUnauthorized:
		return fmt.Sprintf("the API server refuses the credentials: renew the token or the kubeconfig, it is read again every %v (%v)", retryAfter, err)
	case http.StatusForbidden:
		return fmt.Sprintf("not allowed: grant list of nodes and of machines.cluster.x-k8s.io (%v)", err)
	}
	return fmt.Sprintf("nodes and machines cannot be compared: %v", err)
}
