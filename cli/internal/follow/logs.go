package follow

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/lab/inputs"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/files"
	"crowsnest/sources/stdin"
)

// depth is how many levels of a folder are followed, itself included.
const depth = 8

// Logs are the logs to follow.
type Logs struct {
	sources []sources.Source
	pipes   map[string]bool // names of sources that are pipes
	folders []folder
	shown   map[string]string // names of files as they were given, by real path
	several bool              // there may be more than one log
}

// folder is a folder as it was given, and its real path.
type folder struct{ given, real string }

// Find returns the logs of the arguments: files, folders with the logs that are made in
// them later, named pipes, and inputs.Stdin. in is standard input.
func Find(args []string, in io.Reader) (*Logs, error) {
	l := &Logs{pipes: map[string]bool{}, shown: map[string]string{}, several: len(args) > 1}
	var named, below []files.Path
	for _, arg := range args {
		if arg == inputs.Stdin {
			l.pipe("stdin", in)
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		real, err := realPath(arg)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			l.several = true
			l.folders = append(l.folders, folder{arg, real})
			for n := range depth {
				below = append(below, files.Path{Path: escape(real) + strings.Repeat("/*", n+1)})
			}
			below = append(l.links(arg), below...)
		case info.Mode().IsRegular():
			if err := check(arg); err != nil {
				return nil, err
			}
			l.shown[real] = arg
			named = append(named, files.Path{Path: escape(real)})
		default:
			f, err := os.Open(arg)
			if err != nil {
				return nil, err
			}
			l.pipe(arg, f)
		}
	}
	// A file that was named is read from its start; of the logs in a folder, rotated files
	// are read too.
	for name, paths := range map[string][]files.Path{"files": named, "folders": below} {
		if len(paths) > 0 {
			l.sources = append(l.sources, files.New(files.Config{
				Name: name, Paths: paths, LookBack: -1, FromStart: true, Newest: name == "files",
			}))
		}
	}
	return l, nil
}

func (l *Logs) pipe(name string, r io.Reader) {
	if l.pipes[name] {
		return
	}
	l.pipes[name] = true
	l.sources = append(l.sources, stdin.New(stdin.Config{Name: name, Reader: r, Labels: map[string]string{pipeLabel: name}}))
}

// pipeLabel is the label by which the stream of a pipe is found.
const pipeLabel = "pipe"

// links returns the targets of the links to files in a folder, such as
// /var/log/containers: sources do not follow links below a folder.
func (l *Logs) links(dir string) (out []files.Path) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return nil //nolint:nilerr // the source reports what cannot be read
		}
		info, err := os.Stat(path)
		real, realErr := realPath(path)
		if err == nil && realErr == nil && info.Mode().IsRegular() && l.shown[real] == "" {
			l.shown[real] = path
			out = append(out, files.Path{Path: escape(real)})
		}
		return nil
	})
	return out
}

// check returns an error if a file does not consist of lines of text.
func check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if problem := inputs.Problem(path, head[:n]); problem != "" {
		return fmt.Errorf("%s %s", path, problem)
	}
	return nil
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// escape returns a glob that matches exactly a path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// single reports whether there is one log, whose lines are in order.
func (l *Logs) single() bool { return !l.several }

// log returns the log of a source's stream.
func (l *Logs) log(s *matcher.Stream, opt inputs.Options) *log {
	out := &log{streams: map[envelope.Place]*matcher.Stream{}}
	given := ""
	if name := s.Labels()[pipeLabel]; name != "" {
		out.name, out.source = name, name
	} else {
		given = s.Labels()["filename"]
		out.name = l.name(given)
	}
	out.labels = l.labels(out.name, given, opt)
	return out
}

// name returns the path of a file as a person knows it.
func (l *Logs) name(real string) string {
	if shown, ok := l.shown[real]; ok {
		return shown
	}
	for _, f := range l.folders {
		if rel, err := filepath.Rel(f.real, real); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(f.given, rel)
		}
	}
	return real
}

// labels returns the labels of a log. real is the path of a file, "" for a pipe. Logs
// whose pod is unknown are kept apart.
func (l *Logs) labels(name, real string, opt inputs.Options) matcher.Labels {
	path := name
	if real == "" {
		path = ""
	}
	labels := inputs.LabelsOf(path, opt)
	if len(labels) == len(opt.Labels) && real != "" {
		labels = inputs.LabelsOf(real, opt)
	}
	if labels["namespace"] == "" && labels["pod"] == "" && labels["node_name"] == "" && l.several {
		labels[replay.FileLabel] = name
	}
	return labels
}

// Reads returns whether lines of a selector's streams can be among the logs.
func (l *Logs) Reads(opt inputs.Options, lenient bool) func(rules.Selector) bool {
	if len(l.folders) > 0 {
		return nil // logs may be made later
	}
	var all []matcher.Labels
	for _, path := range l.shown {
		all = append(all, l.labels(path, path, opt))
	}
	for name := range l.pipes {
		all = append(all, l.labels(name, "", opt))
	}
	return func(from rules.Selector) bool {
		return slices.ContainsFunc(all, func(labels matcher.Labels) bool {
			return lenient && from.MayMatch(labels) || from.Matches(labels, false)
		})
	}
}
