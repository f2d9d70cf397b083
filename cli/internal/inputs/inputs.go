// Package inputs finds recorded logs: files, folders, archives, gzip, standard input.
package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/cli/internal/unpack"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// Stdin is the argument for standard input.
const Stdin = "-"

// Options control how logs are found.
type Options struct {
	// Labels are set on every input; they override those of its path.
	Labels matcher.Labels
	// PathLabels returns the labels that a path implies, such as the path of a pod
	// log; nil: none.
	PathLabels func(path string) (matcher.Labels, bool)
	// Stdin is read for the argument Stdin.
	Stdin io.Reader
	// Parts is a folder for copies of standard input that contains the lines of
	// several containers, so that each can be read separately; "": it is read as
	// one log, as it arrives. The caller removes it.
	Parts string
	// Spool is a folder for copies of inputs that can be read only once, such as
	// standard input, so that they can be opened several times; "": they cannot.
	// The caller removes it.
	Spool string
	// Unpack is a folder for the content of archives; "": archives are refused. The
	// caller removes it.
	Unpack string
}

// maxNamed bounds the number of unreadable inputs that an error names.
const maxNamed = 20

// Collect returns the logs of the arguments: files, folders and archives with all
// their content, or Stdin. With the readable inputs it returns an error that names those
// that do not exist or cannot be read. Files of a kind that never contains logs
// are skipped in folders. A growing file is read up to its size at the call. The account
// has all files.
func Collect(args []string, opt Options) ([]replay.Input, *Account, error) {
	c := &collector{opt: opt, seen: map[string]bool{}, account: Account{args: args}}
	for i, arg := range args {
		before := len(c.logs.inputs)
		c.arg, c.state = i, newState(time.Now())
		c.add(arg)
		c.addState(arg, before)
	}
	return c.collected()
}

// Memory returns the logs of a text, as Collect does for a file of that name; the text is
// uncompressed or gzip. It creates no file.
func Memory(name string, data []byte, opt Options) ([]replay.Input, *Account, error) {
	c := &collector{opt: opt, seen: map[string]bool{}, account: Account{args: []string{name}}}
	open := func() (io.ReadCloser, error) { return lines(io.NopCloser(bytes.NewReader(data)), headSize) }
	c.append(name, replay.Input{Name: c.shown(name), Labels: c.labels(name), Open: open})
	return c.collected()
}

// collected returns what was found.
func (c *collector) collected() ([]replay.Input, *Account, error) {
	c.keepApart()
	c.account.of = slices.Concat(c.logs.file, c.journals.file, slices.Repeat([]int{-1}, len(c.states)))
	inputs := slices.Concat(c.logs.inputs, c.journals.inputs, c.states)
	if len(inputs) == 0 && c.failed == 0 {
		c.fail(fmt.Errorf("%s: no logs found", strings.Join(c.account.args, ", ")))
	}
	if c.failed > maxNamed {
		c.errs = append(c.errs, fmt.Errorf("%d more inputs cannot be read", c.failed-maxNamed))
	}
	return inputs, &c.account, errors.Join(c.errs...)
}

type collector struct {
	opt      Options
	unpacked []unpacked
	logs     found
	journals found          // their labels keep them apart
	states   []replay.Input // lines about Events and objects; the same holds
	arg      int            // index of the present argument
	state    *state         // of the present argument
	account  Account
	seen     map[string]bool // real paths
	errs     []error         // the first ones
	failed   int
}

// keepApart sets a distinct label on each input whose pod is unknown, if there are
// several: they may come from different clusters. Rotated files of one log share
// the label.
func (c *collector) keepApart() {
	files := map[string][]int{}
	for i, in := range c.logs.inputs {
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
			c.logs.inputs[i].Labels[replay.FileLabel] = name
		}
	}
}

func (c *collector) fail(err error) {
	if c.failed++; c.failed <= maxNamed {
		c.errs = append(c.errs, err)
	}
}

func (c *collector) add(arg string) {
	if arg == Stdin {
		c.addStdin()
		return
	}
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		c.lose("open", arg, err)
	case info.IsDir():
		c.addFolder(arg)
	case c.isArchive(arg, info):
		c.addArchive(arg)
	default:
		c.addFile(arg, info)
	}
}

func (c *collector) addStdin() {
	br := bufio.NewReaderSize(c.opt.Stdin, 64<<10)
	if head, _ := peek(br, 1); c.opt.Unpack != "" && unpack.MayBe(head) {
		c.addPackedStdin(br)
		return
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(br), nil }
	in := replay.Input{Name: "stdin", Labels: c.labels(""), Open: c.once(open)}
	if c.opt.Parts != "" {
		if head, _ := peek(br, 1); classifierOf(head, in.Labels) != nil {
			path, err := spool(open, c.opt.Parts)
			if err != nil {
				c.lose("read", "stdin", err)
				return
			}
			in.Open = func() (io.ReadCloser, error) { return os.Open(path) }
			c.append("stdin", in)
			return
		}
	}
	c.logs.add(c.read("stdin", asLog), in)
}

// append adds an input that can be read several times, or one input for each
// container whose lines it contains.
func (c *collector) append(path string, in replay.Input) {
	parts, err := split(in)
	as := asLog
	if parts == nil {
		parts = []replay.Input{in}
	}
	if parts[0].Labels["pod"] != "" {
		as = asPodLog
	}
	file := c.read(path, as)
	c.logs.add(file, parts...)
	if err != nil {
		f := &c.account.Files[file]
		f.Problem, f.Incomplete = err.Error(), true
		c.fail(fmt.Errorf("read %s: %w", f.Name, err))
	}
}

func (c *collector) addFolder(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			c.lose("read", path, err)
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

// found adds one entry of a folder if it is a log. It follows links to files, as
// in /var/log/containers; the target of a broken link was not collected.
func (c *collector) found(path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.skip(path, "the link is broken")
		return
	case err != nil:
		c.lose("read", path, err)
		return
	case !info.Mode().IsRegular():
		if !info.IsDir() {
			c.skip(path, "not a regular file")
		}
		return
	case c.isArchive(path, info):
		c.addArchive(path)
		return
	case isJournal(path), c.hasDocument(path, info):
		c.addFile(path, info)
		return
	case c.opt.Unpack != "" && isYAML(path):
		c.skip(path, noObjects)
		return
	}
	rc, err := c.opener(path, info)()
	var bad *unreadableError
	switch {
	case errors.As(err, &bad) && bad.kind.alien:
		c.skip(path, bad.Error())
		return
	case err != nil:
		c.lose("read", path, err)
		return
	}
	_ = rc.Close()
	c.addFile(path, info)
}

// addFile adds a file once, under the first name that is found.
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
	if info.Mode().IsRegular() && isJournal(path) {
		c.addJournal(path)
		return
	}
	if c.hasDocument(path, info) {
		c.addDocument(path)
		return
	}
	labels := c.labels(path)
	if len(labels) == len(c.opt.Labels) && real != path {
		labels = c.labels(real)
	}
	if labels["filename"] == path {
		labels["filename"] = c.shown(path)
	}
	in := replay.Input{Name: c.shown(path), Labels: labels, Open: c.opener(path, info)}
	if info.Mode().IsRegular() {
		in.Size = info.Size()
	} else {
		c.logs.add(c.read(path, asLog), in)
		return
	}
	c.append(path, in)
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
