// Package cluster downloads what a running cluster says about itself into a folder that
// the commands for recorded logs read: the logs of containers and of their previous
// instances as a kubelet names them, Events and objects as lists in JSON. It writes
// nothing to the cluster and reads no Secrets.
package cluster

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// atOnce bounds the requests at the same time.
const atOnce = 16

// Config says what to download.
type Config struct {
	Client *kube.Client
	// Namespaces are read alone. Without any, those of the infrastructure are, and those
	// where a component runs that a rule of Set is about; with All, every one.
	Namespaces []string
	All        bool
	Set        *rules.Set
	// Home is a namespace that the person may read probably.
	Home string
	// Since and Until limit the times of lines and Events. With Until, which may be zero,
	// states of objects are not read: they are those of now.
	Since, Until time.Time
	Now          time.Time
	// MaxBytes bounds the logs together.
	MaxBytes int64
	// Dir is an empty folder, and Title names it for people.
	Dir, Title string
	// Progress is updated while Download runs.
	Progress *Progress
}

// Progress counts what was read. It is safe for concurrent use.
type Progress struct{ Logs, AllLogs, Bytes atomic.Int64 }

// Snapshot is what was downloaded. It is immutable and safe for concurrent use.
type Snapshot struct {
	// Namespaces are those whose logs and objects were read.
	Namespaces []string
	// NotSeen is what was not, the most important first.
	NotSeen []Unseen
	// Err is the error that interrupted the download, or nil.
	Err error

	dir, title string
	labels     map[string]matcher.Labels // labels of each container folder
}

// Labels returns the labels of the log at a path, as the daemon sets them.
func (s *Snapshot) Labels(path string) (matcher.Labels, bool) {
	labels, ok := s.labels[folderOf(path)]
	return maps.Clone(labels), ok
}

// Name returns the name of a file of the download for people.
func (s *Snapshot) Name(path string) string {
	rest, ours := strings.CutPrefix(path, s.dir)
	if !ours {
		return path
	}
	if labels := s.labels[folderOf(path)]; labels != nil {
		return labels["namespace"] + "/" + labels["pod"] + "/" + labels["container"] + "/" + filepath.Base(path)
	}
	if rest == "" {
		return s.title
	}
	return s.title + " " + strings.TrimSuffix(filepath.Base(rest), ".json")
}

// folderOf returns the two innermost folders of a path: those of pod and container.
func folderOf(path string) string {
	container := filepath.Dir(path)
	return filepath.Join(filepath.Base(filepath.Dir(container)), filepath.Base(container))
}

// download is one Download.
type download struct {
	Config
	stop   context.CancelCauseFunc // ends everything
	unseen unseen
	// wide means that pods of all namespaces can be listed.
	wide     bool
	selected map[string]bool // namespaces
	logs     []*podLog
	gates    gates
}

// Download reads the cluster. An error means that nothing was read. What was not read for
// lack of rights, or because it does not exist, is in Snapshot.NotSeen; so is the rest
// after Snapshot.Err.
func Download(ctx context.Context, cfg Config) (*Snapshot, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &download{Config: cfg, stop: stop, selected: map[string]bool{}}
	if err := d.findPods(ctx); err != nil {
		return nil, err
	}
	d.readObjects(ctx)
	d.readLogs(ctx)
	d.unseen.add("journals of nodes", "", "the API does not have them; scan the journal of a node, or run agents", "")
	s := &Snapshot{
		Namespaces: slices.Sorted(maps.Keys(d.selected)), NotSeen: d.unseen.all(), Err: context.Cause(ctx),
		dir: d.Dir, title: d.Title, labels: map[string]matcher.Labels{},
	}
	for _, l := range d.logs {
		s.labels[l.folder()] = l.Labels
	}
	return s, nil
}

// each calls f for the numbers below n, with several at the same time, and returns when all
// calls have returned.
func each(n int, f func(int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, atOnce) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}
