// Package files reads log files by path and glob, with what rotates them.
//
// A log is its base name: app.log goes on in app.log.1, app.log-20240131 and
// their compressed forms. Lines in an envelope (CRI, docker-json) have its
// time; others have the time at which they were read.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/tail"
)

// Config says which files are read.
type Config struct {
	// Name is the source's name if there are several of the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Paths are read in this order: a file belongs to the first that names it.
	Paths []Path `yaml:"paths" bounds:"0,1000"`
	// LookBack is how old a line with a time may be that is read without a
	// saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// FromStart reads files without times from their start when there is no
	// saved state. Otherwise they are read from their end.
	FromStart bool `yaml:"from_start"`
	// MaxOpenFiles bounds the files that are held open while idle. Default 1024.
	MaxOpenFiles int `yaml:"max_open_files" bounds:"0,1000000"`
	// PollInterval is how often files are looked at. Default 300ms.
	PollInterval time.Duration `yaml:"poll_interval" bounds:"0s,1y"`
	// NoWatch only polls: for file systems that tell of nothing.
	NoWatch bool `yaml:"no_watch"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
}

// Path names files.
type Path struct {
	// Path is absolute. Its elements may be globs, without **. Links are
	// followed before the first glob or in the directory of a plain path, and
	// nowhere else: name the file that a link leads to.
	Path string `yaml:"path" bounds:"0,4096"`
	// Labels are what rules select by. The label filename is added.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Validate returns everything that is wrong with the configuration.
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
			errs = append(errs, fmt.Errorf("files: path %q: ** is not known, write one * per directory", p.Path))
		case strings.HasSuffix(p.Path, "/"):
			errs = append(errs, fmt.Errorf("files: path %q names a directory: add /*.log or the like", p.Path))
		}
		for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
			if !labelName.MatchString(name) {
				errs = append(errs, fmt.Errorf("files: label %q is not a label name: use letters, digits and _", name))
			} else if name == "filename" {
				errs = append(errs, fmt.Errorf("files: label %q is set to the path: remove it", name))
			}
		}
	}
	errs = append(errs, tail.CheckBounds("files", c.LookBack, c.PollInterval, c.MaxOpenFiles))
	return errors.Join(errs...)
}

// Source reads files.
type Source struct {
	cfg  Config
	name string
	tail *tail.Tailer
}

// New returns a source that reads nothing yet.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, name: cfg.Name}
	if s.name == "" {
		s.name = "files"
	}
	taken := map[string]int{} // key: index of the path that named it first
	var finders []tail.Finder
	for i, p := range cfg.Paths {
		root, rest := split(path.Clean(p.Path))
		finders = append(finders, tail.Finder{
			Root: root,
			Find: func(list func(string) ([]tail.Entry, error)) ([]tail.Stream, error) {
				return find(list, finding{root: root, rest: rest, labels: p.Labels, index: i, taken: taken})
			},
		})
	}
	s.tail = tail.New(tail.Config{
		Source: s.name, Clock: cfg.Clock, LookBack: cfg.LookBack, FromEnd: !cfg.FromStart,
		MaxOpen: cfg.MaxOpenFiles, Poll: cfg.PollInterval, NoWatch: cfg.NoWatch,
	}, finders...)
	return s
}

// Name is "files" unless the configuration has another.
func (s *Source) Name() string { return s.name }

// Serves tells whether the selector can hold for a file of this source.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.cfg.Paths, func(p Path) bool {
		// Only filename is not known yet: every other label that is not stated
		// is missing for good.
		return !slices.ContainsFunc(from.Matchers(), func(m rules.LabelMatcher) bool {
			return m.Name != "filename" && !m.Matches(p.Labels[m.Name])
		})
	})
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error { return s.tail.Run(ctx, p) }

// Positions returns what Restore needs. It does not block.
func (s *Source) Positions() json.RawMessage { return s.tail.Positions() }

// Restore sets the positions before Run.
func (s *Source) Restore(b json.RawMessage) error { return s.tail.Restore(b) }

// Local tells that our clock, or another of this machine, stamps the lines.
func (s *Source) Local() {}

// Status is safe for concurrent use.
func (s *Source) Status() sources.Status { return s.tail.Status() }

// split cuts a path before its first glob, or before its last element.
func split(p string) (root string, rest []string) {
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	n := 0
	for n < len(parts)-1 && !strings.ContainsAny(parts[n], `*?[\`) {
		n++
	}
	return "/" + path.Join(parts[:n]...), parts[n:]
}

// finding is what find needs to know of one configured path.
type finding struct {
	root   string
	rest   []string
	labels map[string]string
	index  int
	taken  map[string]int
}

// find expands the globs and gathers the files that belong together.
func find(list func(string) ([]tail.Entry, error), f finding) ([]tail.Stream, error) {
	dirs := []string{"."}
	for i, glob := range f.rest[:len(f.rest)-1] {
		var below []string
		for _, d := range dirs {
			es, err := list(d)
			if errors.Is(err, fs.ErrNotExist) && i > 0 {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			for _, e := range es {
				if ok, _ := path.Match(glob, e.Name); ok && e.Dir {
					below = append(below, path.Join(d, e.Name))
				}
			}
		}
		dirs = below
	}
	var found []tail.Stream
	for _, d := range dirs {
		es, err := list(d)
		if errors.Is(err, fs.ErrNotExist) && d != "." {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, f.bases(d, es)...)
	}
	return found, nil
}

// bases returns the logs of a directory that the last element names, by
// themselves or by one of their rotated files.
func (f finding) bases(dir string, es []tail.Entry) []tail.Stream {
	glob := f.rest[len(f.rest)-1]
	seen := map[string]bool{}
	var found []tail.Stream
	for _, e := range es {
		base, _ := tail.PlainBase(e.Name)
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
			Key: key, Dir: dir, Order: tail.PlainOrder(base),
			New: func(string) *matcher.Stream {
				l := matcher.Labels{}
				maps.Copy(l, f.labels)
				l["filename"] = filepath.Clean(key)
				return matcher.NewStream(l, matcher.StreamOptions{})
			},
		})
	}
	return found
}
