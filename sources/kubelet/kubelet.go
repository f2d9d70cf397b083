// Package kubelet reads the log files of containers below /var/log/pods. Container runtimes
// write them. The kubelet names, rotates, compresses and removes them.
//
// The labels of a line come only from its path, which the kubelet chooses, and never
// from its content, which anyone can write.
package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/logname"
	"crowsnest/sources/internal/tail"
)

// Config selects the logs of a node to read.
type Config struct {
	sources.Common `yaml:",inline"`
	sources.OwnPod `yaml:",inline"`
	// Dir is the directory of the pods' logs.
	Dir string `yaml:"dir" bounds:"0,4096"`
	// Include and Exclude are globs of namespaces. An empty Include includes all. Exclude takes precedence.
	Include []string `yaml:"include" bounds:"0,1000,4096"`
	Exclude []string `yaml:"exclude" bounds:"0,1000,4096"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are labels that are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// MaxOpenFiles is the largest number of idle files that are kept open. Default 1024.
	MaxOpenFiles int `yaml:"max_open_files" bounds:"0,1000000"`
	// PollInterval is the interval between reads. Default 300ms.
	PollInterval time.Duration `yaml:"poll_interval" bounds:"0s,1m"`
	// NoWatch disables inotify, for filesystems without inotify support.
	NoWatch bool `yaml:"no_watch"`
	// Foreign allows a Dir that does not contain the log of this program's pod, such as a copy of another node's logs.
	// Otherwise such a Dir is an error, because the filesystem is probably not mounted.
	Foreign bool `yaml:"foreign"`

	// SelfFolder is the prefix of the folder of this program's pod in Dir, or "" if the pod is
	// not known with certainty.
	SelfFolder string `yaml:"-"`
}

var pathLabels = []string{"namespace", "pod", "container", "filename"}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		errs = append(errs, fmt.Errorf("kubelet: dir %q must be an absolute path", c.Dir))
	}
	errs = append(errs, sources.CheckGlobs("kubelet: include", c.Include)...)
	errs = append(errs, sources.CheckGlobs("kubelet: exclude", c.Exclude)...)
	return errors.Join(append(errs, sources.CheckLabels("kubelet", c.Labels, "the path", pathLabels...)...)...)
}

// Source reads the logs of the pods of one node.
type Source struct {
	*tail.Tailer
	cfg Config
	// others is the number of pods that the configuration excluded in the last search. Only the search uses it.
	others int
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg.Dir = cmp.Or(cfg.Dir, "/var/log/pods")
	if cfg.Foreign {
		cfg.SelfFolder = ""
	}
	s := &Source{cfg: cfg}
	s.Tailer = tail.New(tail.Config{
		Source: cmp.Or(cfg.Name, "kubelet"), Clock: cfg.Clock, LookBack: cfg.LookBack, MaxOpen: cfg.MaxOpenFiles,
		Poll: cfg.PollInterval, NoWatch: cfg.NoWatch, OneName: true, Framed: true,
	}, tail.Finder{Root: filepath.Clean(cfg.Dir), Find: s.findStreams, ChecksRoot: cfg.SelfFolder != "", Empty: s.whyEmpty})
	return s
}

// Serves reports whether the selector can match a stream of this source. A stream has the labels from its path, whose
// values are not known in advance, and the configured labels, but no other labels.
func (s *Source) Serves(from rules.Selector) bool {
	return from.MaySelect(s.cfg.Labels, pathLabels)
}

// findStreams lists the directories of containers, NS_POD_UID/CONTAINER. A pod whose directory
// cannot be listed does not prevent findStreams from finding the other pods.
func (s *Source) findStreams(list func(dir string) ([]logdir.Entry, error)) ([]tail.Stream, error) {
	pods, err := list(".")
	if err != nil {
		return nil, err
	}
	var found []tail.Stream
	var doubt error
	isOwn := func(e logdir.Entry) bool { return e.Dir && strings.HasPrefix(e.Name, s.cfg.SelfFolder) }
	if s.cfg.SelfFolder != "" && !slices.ContainsFunc(pods, isOwn) {
		doubt = fmt.Errorf("%s has no log of the pod that crowsnest runs in (%s*): %w; check whether the folder of the node is mounted there; if the folder has the logs of another node, set foreign: true",
			s.cfg.Dir, s.cfg.SelfFolder, tail.ErrDoubt)
	}
	s.others = 0
	for _, p := range pods {
		ns, pod, ok := splitPod(p.Name)
		if !ok || !s.selectsPod(ns, pod) {
			if ok && pod != s.cfg.SelfPod {
				s.others++
			}
			continue
		}
		if !p.Dir && !p.Link {
			continue
		}
		if !p.Dir {
			found = append(found, s.newStream(p.Name, ns, pod, ""))
			found[len(found)-1].Refused = refusedLink
			continue
		}
		cs, err := list(p.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the directory was removed in the meantime
		}
		if err != nil {
			found = append(found, s.newStream(p.Name, ns, pod, ""))
			found[len(found)-1].Failed = err
			continue
		}
		for _, c := range cs {
			st := s.newStream(p.Name+"/"+c.Name, ns, pod, c.Name)
			if !c.Dir && !c.Link {
				continue
			}
			if !c.Dir {
				st.Refused = refusedLink
			}
			found = append(found, st)
		}
	}
	return found, doubt
}

func (s *Source) whyEmpty() string {
	if s.others > 0 {
		return fmt.Sprintf("include and exclude select none of the %d pods in %s", s.others, s.cfg.Dir)
	}
	return fmt.Sprintf("%s has no log of a pod, whose folder would be named NAMESPACE_POD_UID", s.cfg.Dir)
}

// refusedLink is the reason why a link instead of a directory is not followed. The kubelet creates no links, and the
// logs that a link leads to would be attributed to the wrong pod.
const refusedLink = "it is a symbolic link, and the logs behind it would be taken for those of another pod"

// newStream returns the stream of a container, or of all containers of a pod if container is "".
func (s *Source) newStream(dir, ns, pod, container string) tail.Stream {
	st := tail.Stream{
		Key: dir, Dir: dir, Order: logname.ParseKubeletName, Unknown: []string{"filename"},
		New: func(path string) *matcher.Stream {
			return matcher.NewStream(s.streamLabels(ns, pod, container, path), matcher.StreamOptions{Join: matcher.JoinStream})
		},
		Labels: func() matcher.Labels {
			l := s.streamLabels(ns, pod, container, "")
			maps.DeleteFunc(l, func(_, value string) bool { return value == "" })
			return l
		},
	}
	if container == "" {
		st.Unknown = append(st.Unknown, "container")
	}
	return st
}

func (s *Source) selectsPod(ns, pod string) bool {
	return !s.cfg.IsOwn(ns, pod) && !sources.MatchesAny(s.cfg.Exclude, ns) && (len(s.cfg.Include) == 0 || sources.MatchesAny(s.cfg.Include, ns))
}

func (s *Source) streamLabels(ns, pod, container, path string) matcher.Labels {
	l := matcher.Labels{}
	maps.Copy(l, s.cfg.Labels)
	l["namespace"], l["pod"], l["container"], l["filename"] = ns, pod, container, path
	return l
}

// splitPod splits a directory name of the form NS_POD_UID. It returns false if a part contains "_".
func splitPod(name string) (ns, pod string, ok bool) {
	f := strings.Split(name, "_")
	if len(f) != 3 || f[0] == "" || f[1] == "" || f[2] == "" {
		return "", "", false
	}
	return f[0], f[1], true
}

// PathLabels returns the labels in a path of the form .../NS_POD_UID/CONTAINER/N.log. The file
// may be rotated or compressed. It returns false for other paths.
func PathLabels(path string) (matcher.Labels, bool) {
	f := strings.Split(filepath.ToSlash(filepath.Clean(path)), "/")
	if len(f) < 3 {
		return nil, false
	}
	f = f[len(f)-3:]
	ns, pod, ok := splitPod(f[0])
	if _, isLog := logname.ParseKubeletName(f[2]); !ok || !isLog || f[1] == "" {
		return nil, false
	}
	return matcher.Labels{"namespace": ns, "pod": pod, "container": f[1], "filename": path}, true
}
