// Package cluster downloads the logs and objects of a running cluster into a folder, in a form that the commands for
// recorded logs can read. The logs of current and previous containers get the file names that a kubelet uses. Events
// and objects are stored as lists in JSON. The package writes nothing to the cluster and reads no Secrets.
package cluster

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"crowsnest/internal/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
)

const atOnce = 16

// Config configures a download.
type Config struct {
	Client *kube.Client
	// Namespaces are the only namespaces to read. If the list is empty, Download reads the infrastructure namespaces,
	// and the namespaces with a component that rules in Set describe. With All, Download reads every namespace.
	Namespaces []string
	All        bool
	Set        *rules.Set
	// LikelyNamespace is a namespace that the user can probably read.
	LikelyNamespace string
	// Since and Until limit the times of lines and Events. A zero time means no limit. If Until is set, the states of
	// objects are not read, because they describe the present.
	Since, Until time.Time
	Now          time.Time
	// MaxBytes is the maximum total size of the logs in bytes.
	MaxBytes int64
	// Dir is an empty folder for the download. Title is a name of the download for people.
	Dir, Title string
	// Progress is updated while Download runs.
	Progress *Progress
}

// Progress counts the data read so far. It is safe for concurrent use.
type Progress struct{ Logs, AllLogs, Bytes atomic.Int64 }

// Snapshot is the result of a download. It is immutable and safe for concurrent use.
type Snapshot struct {
	// Namespaces are the namespaces whose logs and objects were read.
	Namespaces []string
	// NotSeen lists what was not downloaded, ordered by importance.
	NotSeen []UnreadGroup
	// Err is the error that interrupted the download, or nil.
	Err error

	dir, title string
	labels     map[string]matcher.Labels // labels of the logs; the key is the container folder
}

// Labels returns the labels of the log at a path. They equal the labels that the daemon sets.
func (s *Snapshot) Labels(path string) (matcher.Labels, bool) {
	labels, ok := s.labels[innerFolders(path)]
	return maps.Clone(labels), ok
}

// Name returns the name of a file of the download for people.
func (s *Snapshot) Name(path string) string {
	rest, ours := strings.CutPrefix(path, s.dir)
	if !ours {
		return path
	}
	if labels := s.labels[innerFolders(path)]; labels != nil {
		return labels["namespace"] + "/" + labels["pod"] + "/" + labels["container"] + "/" + filepath.Base(path)
	}
	if rest == "" {
		return s.title
	}
	return s.title + " " + strings.TrimSuffix(filepath.Base(rest), ".json")
}

// innerFolders returns the two innermost folders of a path, which are the folders of a pod and of a container.
func innerFolders(path string) string {
	container := filepath.Dir(path)
	return filepath.Join(filepath.Base(filepath.Dir(container)), filepath.Base(container))
}

type download struct {
	Config
	stop   context.CancelCauseFunc // ends all requests with a cause
	unseen unreadGroups
	// allNamespaces says whether pods of all namespaces can be listed.
	allNamespaces bool
	selected      map[string]bool // namespaces whose logs and objects are read
	logs          []*podLog
	gates         gates
}

// Download reads the cluster. If it returns an error, nothing was read. Snapshot.NotSeen lists everything that was not
// read because a permission or the object is missing, or because Snapshot.Err ended the download.
func Download(ctx context.Context, cfg Config) (*Snapshot, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &download{Config: cfg, stop: stop, selected: map[string]bool{}}
	if err := d.findPods(ctx); err != nil {
		return nil, err
	}
	d.readObjects(ctx)
	d.readLogs(ctx)
	d.unseen.addOptional("journals of nodes", "", "the API does not have them; scan the journal of a node, or run agents", "")
	s := &Snapshot{
		Namespaces: slices.Sorted(maps.Keys(d.selected)), NotSeen: d.unseen.listUnseen(), Err: context.Cause(ctx),
		dir: d.Dir, title: d.Title, labels: map[string]matcher.Labels{},
	}
	for _, l := range d.logs {
		s.labels[l.folder()] = l.Labels
	}
	return s, nil
}

// runConcurrently calls f concurrently with the numbers from 0 to n-1. It returns when all calls have returned.
func runConcurrently(n int, f func(int)) {
	var calls errgroup.Group
	calls.SetLimit(atOnce)
	for i := range n {
		calls.Go(func() error { f(i); return nil })
	}
	_ = calls.Wait() // the calls return no error
}
