// Package inputs finds recorded logs: files, folders, gzip, standard input.
package inputs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/matcher"
	"crowsnest/replay"
)

// Stdin is the argument that stands for standard input.
const Stdin = "-"

// Options say how logs are found.
type Options struct {
	// Labels are given to every input; they win over those of its path.
	Labels matcher.Labels
	// PathLabels returns the labels that a path states, such as that of a pod
	// log; nil: none.
	PathLabels func(path string) (matcher.Labels, bool)
	// Stdin is read for Stdin.
	Stdin io.Reader
	// Parts is a folder for copies of standard input that holds the lines of
	// several containers, so that each can be read by itself; "": it is read as
	// one log, as it comes. The caller removes it.
	Parts string
	// Spool is a folder for copies of what can be read only once, such as
	// standard input, so that the inputs can be opened several times; "": they
	// cannot. The caller removes it.
	Spool string
}

// Skipped is a file in a folder that was passed over.
type Skipped struct {
	Path, Reason string
}

// maxNamed bounds how many inputs that cannot be read an error names.
const maxNamed = 20

// Collect returns the logs behind the arguments: files, folders with all that
// is in them, or Stdin. An error names what is not there and what cannot be read,
// beside the inputs that can; what never holds logs is skipped in folders. Of a
// file that grows, what it has at the time of the call is read.
func Collect(args []string, opt Options) ([]replay.Input, []Skipped, error) {
	c := &collector{opt: opt, seen: map[string]bool{}}
	for _, arg := range args {
		if err := c.add(arg); err != nil {
			c.fail(err)
		}
	}
	c.keepApart()
	if len(c.inputs) == 0 && c.failed == 0 {
		c.fail(fmt.Errorf("there are no logs in %s", strings.Join(args, ", ")))
	}
	if c.failed > maxNamed {
		c.errs = append(c.errs, fmt.Errorf("%d more inputs cannot be read", c.failed-maxNamed))
	}
	return c.inputs, c.skipped, errors.Join(c.errs...)
}

type collector struct {
	opt     Options
	inputs  []replay.Input
	skipped []Skipped
	seen    map[string]bool // real paths
	errs    []error         // the first ones
	failed  int
}

// keepApart gives the inputs of which nothing says which pod wrote them a label
// of their own, if there are several: they may come from different clusters. The
// rotated files of a log are one.
func (c *collector) keepApart() {
	files := map[string][]int{}
	for i, in := range c.inputs {
		if in.Labels["namespace"] == "" && in.Labels["pod"] == "" && in.Labels["node_name"] == "" {
			name := unrotated(in.Name)
			files[name] = append(files[name], i)
		}
	}
	if len(files) < 2 {
		return
	}
	for name, inputs := range files {
		for _, i := range inputs {
			c.inputs[i].Labels[replay.FileLabel] = name
		}
	}
}

func (c *collector) fail(err error) {
	if c.failed++; c.failed <= maxNamed {
		c.errs = append(c.errs, err)
	}
}

func (c *collector) add(arg string) error {
	if arg == Stdin {
		return c.addStdin()
	}
	info, err := os.Stat(arg)
	if err != nil {
		return fmt.Errorf("open %s: %w", arg, cause(err))
	}
	if info.IsDir() {
		return c.addFolder(arg)
	}
	c.addFile(arg, info)
	return nil
}

func (c *collector) addStdin() error {
	br := bufio.NewReaderSize(c.opt.Stdin, 64<<10)
	open := func() (io.ReadCloser, error) { return io.NopCloser(br), nil }
	in := replay.Input{Name: "stdin", Labels: c.labels(""), Open: c.once(open)}
	if c.opt.Parts != "" {
		if head, _ := peek(br, 1); classifierOf(head, in.Labels) != nil {
			path, err := spool(open, c.opt.Parts)
			if err != nil {
				return fmt.Errorf("read stdin: %w", err)
			}
			in.Open = func() (io.ReadCloser, error) { return os.Open(path) }
			return c.append(in)
		}
	}
	c.inputs = append(c.inputs, in)
	return nil
}

// append adds an input that can be read several times, or those of its parts.
func (c *collector) append(in replay.Input) error {
	parts, err := split(in)
	if parts == nil {
		parts = []replay.Input{in}
	}
	c.inputs = append(c.inputs, parts...)
	return err
}

func (c *collector) addFolder(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			c.fail(fmt.Errorf("read %s: %w", path, cause(err)))
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.IsDir() {
			c.found(path)
		}
		return nil
	})
}

// found takes one entry of a folder if it is a log. Links to files are
// followed, as in /var/log/containers; where one leads nowhere, the log is not
// part of what was collected.
func (c *collector) found(path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.skip(path, "the link leads to nothing")
		return
	case err != nil:
		c.fail(fmt.Errorf("read %s: %w", path, cause(err)))
		return
	case !info.Mode().IsRegular():
		if !info.IsDir() {
			c.skip(path, "not a regular file")
		}
		return
	}
	rc, err := c.opener(path, info)()
	var bad *unreadableError
	switch {
	case errors.As(err, &bad) && bad.kind.alien:
		c.skip(path, bad.Error())
		return
	case err != nil:
		c.fail(fmt.Errorf("read %s: %w", path, err))
		return
	}
	_ = rc.Close()
	c.addFile(path, info)
}

func (c *collector) skip(path, reason string) {
	c.skipped = append(c.skipped, Skipped{Path: path, Reason: reason})
}

// addFile adds a file once, by whichever name it is found first.
func (c *collector) addFile(path string, info fs.FileInfo) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	if abs, err := filepath.Abs(real); err == nil {
		real = abs
	}
	if c.seen[real] {
		return
	}
	c.seen[real] = true
	labels := c.labels(path)
	if len(labels) == len(c.opt.Labels) && real != path {
		labels = c.labels(real)
	}
	in := replay.Input{Name: path, Labels: labels, Open: c.opener(path, info)}
	if !info.Mode().IsRegular() {
		c.inputs = append(c.inputs, in)
	} else if err := c.append(in); err != nil {
		c.fail(err)
	}
}

func (c *collector) labels(path string) matcher.Labels {
	labels := matcher.Labels{}
	if path != "" && c.opt.PathLabels != nil {
		own, _ := c.opt.PathLabels(path)
		maps.Copy(labels, layoutLabels(path))
		maps.Copy(labels, own)
	}
	maps.Copy(labels, c.opt.Labels)
	return labels
}
