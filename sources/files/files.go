// Package files reads log files by path and glob, including rotated ones.
//
// A log is identified by its base name. app.log continues in app.log.1, app.log-20240131 and
// their compressed forms. A line in an envelope (CRI, docker-json) has the time in the
// envelope. Other lines have the time at which they were read.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
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

// Config selects the files to read.
type Config struct {
	sources.Common `yaml:",inline"`
	// Paths are the files. A file belongs to the first path that names it.
	Paths []Path `yaml:"paths" bounds:"0,1000"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// FromStart is whether files without timestamps are read from their start, and not from their end, if there is no
	// saved state.
	FromStart bool `yaml:"from_start"`
	// Newest reads a log that exists at a first start from the start of its newest file.
	// Commands set it, because their user named that file.
	Newest bool `yaml:"-"`
	// MaxOpenFiles is the largest number of idle files that are kept open. Default 1024.
	MaxOpenFiles int `yaml:"max_open_files" bounds:"0,1000000"`
	// PollInterval is the interval between reads. Default 300ms.
	PollInterval time.Duration `yaml:"poll_interval" bounds:"0s,1m"`
	// NoWatch disables inotify, for filesystems without inotify support.
	NoWatch bool `yaml:"no_watch"`
}

// Path selects files.
type Path struct {
	// Path is an absolute path. Its elements may be globs, but not **. Links are followed only before the first glob,
	// or in the directory of a path without globs. Elsewhere, name the target of the link.
	Path string `yaml:"path" bounds:"0,4096"`
	// Labels are the labels of all lines of these files. The label filename is added.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	if len(c.Paths) == 0 {
		errs = append(errs, errors.New("files: paths is empty: name at least one file"))
	}
	for _, p := range c.Paths {
		_, err := path.Match(p.Path, "")
		switch {
		case !strings.HasPrefix(p.Path, "/"):
			errs = append(errs, fmt.Errorf("files: path %q must be absolute", p.Path))
		case err != nil:
			errs = append(errs, fmt.Errorf("files: path %q is not a glob: close its [ or remove a trailing \\", p.Path))
		case strings.Contains(p.Path, "**"):
			errs = append(errs, fmt.Errorf("files: path %q has **, which is not supported; write one * for each directory", p.Path))
		case strings.HasSuffix(p.Path, "/"):
			errs = append(errs, fmt.Errorf("files: path %q is a directory; add a pattern for its files, such as /*.log", p.Path))
		}
		errs = append(errs, sources.CheckLabels("files", p.Labels, "the path", "filename")...)
	}
	return errors.Join(errs...)
}

// Source reads the lines of log files.
type Source struct {
	*tail.Tailer
	cfg Config
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	taken := map[string]int{} // index of the first configured path that named a log; the key is the log's key
	var finders []tail.Finder
	for i, p := range cfg.Paths {
		root, rest := splitAtGlob(path.Clean(p.Path))
		finders = append(finders, tail.Finder{
			Root: root, Labels: p.labels(""), Unknown: []string{"filename"},
			Find:  finding{root: root, rest: rest, path: p, index: i, taken: taken}.findStreams,
			Empty: func() string { return "no file matches " + p.Path },
		})
	}
	return &Source{cfg: cfg, Tailer: tail.New(tail.Config{
		Source: cmp.Or(cfg.Name, "files"), Clock: cfg.Clock, LookBack: cfg.LookBack, FromEnd: !cfg.FromStart, Newest: cfg.Newest,
		MaxOpen: cfg.MaxOpenFiles, Poll: cfg.PollInterval, NoWatch: cfg.NoWatch,
	}, finders...)}
}

// Serves reports whether the selector can match a file of this source.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.cfg.Paths, func(p Path) bool { return from.MaySelect(p.Labels, []string{"filename"}) })
}

// splitAtGlob splits the path p before its first glob, or else before its last element.
func splitAtGlob(p string) (root string, rest []string) {
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	n := 0
	for n < len(parts)-1 && !strings.ContainsAny(parts[n], `*?[\`) {
		n++
	}
	return "/" + path.Join(parts[:n]...), parts[n:]
}

// finding is the search for the logs of one configured path.
type finding struct {
	root  string
	rest  []string
	path  Path
	index int
	taken map[string]int
}

// findStreams expands the globs of a path and groups the files that belong to one log.
func (f finding) findStreams(list func(string) ([]logdir.Entry, error)) ([]tail.Stream, error) {
	var found []tail.Stream
	dirs := []string{"."}
	for i, glob := range f.rest {
		var below []string
		for _, d := range dirs {
			es, err := list(d)
			switch {
			case err == nil:
			case d == ".":
				return nil, err
			case !errors.Is(err, fs.ErrNotExist): // otherwise the directory was removed in the meantime
				found = append(found, tail.Stream{ // this stream stands for all logs in the directory
					Key: path.Join(f.root, d), Dir: d, Failed: err, Unknown: []string{"filename"},
					Labels: func() matcher.Labels { return f.path.labels("") },
				})
			}
			if i == len(f.rest)-1 {
				found = append(found, f.groupByBaseName(d, es)...)
				continue
			}
			for _, e := range es {
				if ok, _ := path.Match(glob, e.Name); ok && e.Dir {
					below = append(below, path.Join(d, e.Name))
				}
			}
		}
		dirs = below
	}
	return found, nil
}

// labels returns the labels of the log with this key. If key is empty, it returns the labels
// that all logs of the path share.
func (p Path) labels(key string) matcher.Labels {
	l := matcher.Labels{}
	maps.Copy(l, p.Labels)
	if key != "" {
		l["filename"] = filepath.Clean(key)
	}
	return l
}

// groupByBaseName groups the files of a directory that the last path element matches into logs.
// The element may match the base name of a log or the name of a rotated file.
func (f finding) groupByBaseName(dir string, es []logdir.Entry) []tail.Stream {
	glob := f.rest[len(f.rest)-1]
	seen := map[string]bool{}
	var found []tail.Stream
	for _, e := range es {
		base, _ := logname.PlainBase(e.Name)
		named, _ := path.Match(glob, e.Name)
		if !named {
			named, _ = path.Match(glob, base)
		}
		key := path.Join(f.root, dir, base)
		if e.Dir || !named || seen[base] {
			continue
		}
		if owner, ok := f.taken[key]; ok && owner != f.index {
			continue
		}
		f.taken[key] = f.index
		seen[base] = true
		found = append(found, tail.Stream{
			Key: key, Dir: dir, Order: logname.OrderByBase(base),
			New: func(string) *matcher.Stream {
				return matcher.NewStream(f.path.labels(key), matcher.StreamOptions{Join: matcher.JoinStream})
			},
			Labels: func() matcher.Labels { return f.path.labels(key) },
		})
	}
	return found
}
