// Package inputs finds recorded logs: files, folders, archives, gzip, standard input.
package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/lab/internal/unpack"
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
	// log; nil if there is none.
	PathLabels func(path string) (matcher.Labels, bool)
	// Name names a file or argument for people; nil means by its path.
	Name func(path string) string
	// Stdin is read for the argument Stdin.
	Stdin io.Reader
	// Live means that an input that can be read only once, such as standard input, is read
	// as it arrives, unless its first lines have an envelope. Otherwise it is copied first
	// if Unpack is set, and can be opened several times.
	Live bool
	// Unpack is a folder for the content of archives, and for copies of inputs; "":
	// archives are refused, and lines with an envelope are kept in memory. The caller
	// removes it.
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
	c := &collector{opt: opt, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	for _, arg := range args {
		name := c.shown(arg)
		if arg == Stdin {
			name = "stdin"
		}
		c.account.args = append(c.account.args, name)
	}
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
	c := &collector{opt: opt, seed: maphash.MakeSeed(), seen: map[uint64]bool{}, account: Account{args: []string{name}}, state: newState(time.Now())}
	log := &logFile{c: c, path: name, name: c.shown(name), labelled: name, content: func() *bytes.Reader { return bytes.NewReader(data) }, size: int64(len(data)), state: c.state}
	c.append(log, replay.Input{Name: log.name, Derive: log.labels, Size: log.size, Open: log.open})
	return c.collected()
}

// collected returns what was found.
func (c *collector) collected() ([]replay.Input, *Account, error) {
	c.keepApart()
	// Logs can be 200,000, so they are not copied.
	c.account.of = slices.Concat(c.logs.file, c.journals.file, slices.Repeat([]int{-1}, len(c.states)))
	c.account.seen = append(append(c.logs.seen, c.journals.seen...), make([]*tally, len(c.states))...)
	inputs := append(append(c.logs.inputs, c.journals.inputs...), c.states...)
	if len(inputs) == 0 && c.failed == 0 {
		c.fail(fmt.Errorf("%s: no logs found", strings.Join(c.account.args, ", ")))
	}
	if c.failed > maxNamed {
		c.errs = append(c.errs, fmt.Errorf("%s cannot be read", text.Plural(c.failed-maxNamed, "more input")))
	}
	return inputs, &c.account, errors.Join(c.errs...)
}

type collector struct {
	opt      Options
	unpacked []unpacked // around the present file, the innermost one last
	logs     found
	journals found          // their labels keep them apart
	states   []replay.Input // lines about Events and objects; the same holds
	arg      int            // index of the present argument
	state    *state         // state of the current argument
	account  Account
	seed     maphash.Seed
	seen     map[uint64]bool // hashes of real paths
	full     bool            // there were more than maxFiles
	errs     []error         // the first ones
	failed   int
}

// keepApart sets a distinct label on each input whose pod is unknown, if there are
// several: they may come from different clusters. Rotated files of one log share
// the label.
func (c *collector) keepApart() {
	var unknown []int
	first, several := "", false
	for i := range c.logs.inputs {
		in := &c.logs.inputs[i]
		if labels := in.StreamLabels(); labels["namespace"] == "" && labels["pod"] == "" && labels["node_name"] == "" {
			name := unrotated(in.Name)
			several = several || len(unknown) > 0 && name != first
			first = name
			unknown = append(unknown, i)
		}
	}
	if !several {
		return
	}
	for _, i := range unknown {
		if in, of := &c.logs.inputs[i], c.logs.of[i]; of != nil {
			of.apart = true
		} else {
			in.Labels[replay.FileLabel] = unrotated(in.Name)
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
	case err != nil && strings.Contains(arg, "://"):
		c.lose("open", arg, errors.New("this is an address and not a file; download it first, or pipe it: curl -s ADDRESS | crowsnest scan"))
	case err != nil:
		c.lose("open", arg, err)
	case info.IsDir():
		c.addFolder(arg)
	case info.Mode().IsRegular():
		if p := c.probe(arg, info); p.archive {
			c.addArchive(arg)
		} else {
			c.addFile(arg, info, p)
		}
	default:
		c.addFile(arg, info, probe{})
	}
}

func (c *collector) addStdin() {
	br := bufio.NewReaderSize(c.opt.Stdin, 64<<10)
	if head, _ := peek(br, 1); c.opt.Unpack != "" && unpack.MayBe(head) {
		c.addPackedStdin(br)
		return
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(br), nil }
	c.addPipe(replay.Input{Name: "stdin", Labels: c.labels("")}, open, br)
}

// addPipe adds an input that can be read only once. br, if not nil, is what open returns.
func (c *collector) addPipe(in replay.Input, open openFunc, br *bufio.Reader) {
	live := c.opt.Live || c.opt.Unpack == ""
	if live && br != nil {
		head, _ := peek(br, 1)
		whole := head[:bytes.LastIndexByte(head, '\n')+1]
		p, _, _ := look(bytes.NewReader(whole))
		live, in.Until = !p.wrapped, p.until
	}
	if live {
		tally := new(tally)
		in.Open = once(open, tally)
		c.logs.add(c.read(in.Name, asLog), nil, tally, in)
		return
	}
	path, err := spool(open, c.opt.Unpack)
	if err != nil {
		c.lose("read", in.Name, err)
		return
	}
	c.addCopy(in.Name, path)
}

// addCopy adds the copy of an input that can be read only once.
func (c *collector) addCopy(name, path string) {
	log := &logFile{c: c, path: path, name: name, state: c.state}
	if info, err := os.Stat(path); err == nil {
		log.size = info.Size()
	}
	c.append(log, replay.Input{Name: name, Derive: log.labels, Size: log.size, Open: log.open})
}

// append adds an input that can be read several times, or one input for each
// container whose lines it contains. of is nil if it is no file.
func (c *collector) append(of *logFile, in replay.Input) {
	inputs, places, err := c.unwrap(&in, of)
	as := asLog
	if inputs == nil && err == nil {
		inputs = []replay.Input{in}
	}
	if len(inputs) > 0 && inputs[0].StreamLabels()["pod"] != "" {
		as = asPodLog
	}
	file := c.read(in.Name, as)
	if len(c.logs.inputs)+len(inputs) > maxFiles {
		inputs, places, err = nil, nil, errTooMany
	}
	for i := range inputs {
		t := &of.tally
		if places != nil {
			t = &tally{lines: places[i].lines, understood: places[i].understood, exact: true}
		}
		c.logs.add(file, of, t, inputs[i])
	}
	if places != nil {
		c.account.Files[file].NULs = int64(of.tally.nuls)
	}
	if err != nil {
		f := &c.account.Files[file]
		f.Problem, f.Incomplete = err.Error(), true
		c.fail(fmt.Errorf("read %s: %w", f.Name, err))
	}
}

// probe is what the beginning of a file says about it.
type probe struct {
	archive, journal, document bool
	err                        error // reason why the file cannot be read as a log
}

// probe reads the beginning of a regular file.
func (c *collector) probe(path string, info fs.FileInfo) (p probe) {
	f, err := os.Open(path)
	if err != nil {
		return probe{err: cause(err)}
	}
	defer f.Close()
	head := make([]byte, min(max(info.Size(), headSize), 4<<10))
	n, err := f.ReadAt(head, 0)
	if head = head[:n]; err != nil && !errors.Is(err, io.EOF) {
		return probe{err: cause(err)}
	}
	unpacks := c.opt.Unpack != ""
	switch {
	case unpacks && unpack.MayBe(head) && unpack.Is(f):
		return probe{archive: true}
	case bytes.HasPrefix(head, []byte(journalMagic)):
		return probe{journal: true}
	case unpacks && hasDocument(path, head):
		return probe{document: true}
	}
	_, err = lines(joined{f, io.NopCloser(nil)}, headSize, info.Size(), nil)
	if err == nil && isDocument(head) {
		err = checkDocument(f, info.Size())
	}
	return probe{err: err}
}

// addFolder adds all files below a folder, in the order of their names.
func (c *collector) addFolder(dir string) {
	entries, err := readFolder(dir, maxFiles-len(c.account.Files))
	if err != nil {
		c.lose("read", dir, err)
	}
	for _, entry := range entries {
		switch path := filepath.Join(dir, entry.name); {
		case entry.folder:
			c.addFolder(path)
		case len(c.account.Files) >= maxFiles:
			if !c.full {
				c.full = true
				c.lose("read", dir, errTooMany)
			}
			return
		default:
			c.found(path)
		}
	}
}

// entry is an entry of a folder.
type entry struct {
	name   string
	folder bool
}

// readFolder returns the entries of a folder in the order of their names. More than a
// number of them are an error.
func readFolder(dir string, most int) ([]entry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []entry
	for {
		some, err := f.ReadDir(1000)
		for _, e := range some {
			out = append(out, entry{e.Name(), e.IsDir()})
		}
		switch {
		case len(out) > most:
			return nil, errTooMany
		case errors.Is(err, io.EOF):
			slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

// maxFiles bounds the files that are found, and the logs in them: each needs memory until
// the end.
const maxFiles = 200_000

var errTooMany = fmt.Errorf("there are more than %d files and logs, and the rest is not read; scan the folders that matter, one after the other", maxFiles)

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
	}
	p := c.probe(path, info)
	var bad *unreadableError
	switch {
	case p.archive:
		c.addArchive(path)
	case p.journal, p.document:
		c.addFile(path, info, p)
	case c.opt.Unpack != "" && isYAML(path):
		c.skip(path, noObjects)
	case errors.As(p.err, &bad) && bad.kind.alien:
		c.skip(path, bad.Error())
	case p.err != nil:
		c.lose("read", path, p.err)
	default:
		c.addFile(path, info, p)
	}
}

// addFile adds a file once, under the first name that is found.
func (c *collector) addFile(path string, info fs.FileInfo, p probe) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	abs, err := filepath.Abs(real)
	if err != nil {
		abs = real
	}
	key := maphash.String(c.seed, abs)
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	switch {
	case p.journal:
		c.addJournal(path)
		return
	case p.document:
		c.addDocument(path)
		return
	}
	labelled := path
	if real != path && len(c.labels(path)) == len(c.opt.Labels) {
		labelled = abs
	}
	log := &logFile{c: c, path: path, name: c.shown(path), labelled: labelled, size: info.Size(), state: c.state}
	in := replay.Input{Name: log.name}
	if !info.Mode().IsRegular() {
		in.Labels = log.labels()
		c.addPipe(in, func() (io.ReadCloser, error) {
			f, err := os.Open(path)
			return f, cause(err)
		}, nil)
		return
	}
	in.Derive, in.Open, in.Size = log.labels, log.open, log.size
	if modified := info.ModTime(); modified.After(oldest) {
		in.Until = modified
	}
	c.append(log, in)
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
