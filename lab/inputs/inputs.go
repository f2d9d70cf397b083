// Package inputs finds recorded logs in files, folders, archives, gzip and standard input.
package inputs

import (
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
	// Labels are set on every input. They override the labels that the path implies.
	Labels matcher.Labels
	// PathLabels returns the labels that a path implies, such as the path of a pod log. It may be nil.
	PathLabels func(path string) (matcher.Labels, bool)
	// Name returns the name of a file or argument for people. If it is nil, the path is used.
	Name func(path string) string
	// Stdin is the reader for the argument "-".
	Stdin io.Reader
	// Unpack is a folder for the contents of archives, and for copies of inputs such as standard input. The caller must
	// remove the folder. If it is "", archives are refused, and lines from which a header was removed are kept in
	// memory.
	Unpack string
}

const maxNamed = 20

// Collect returns the logs in the arguments. An argument is a file, a folder or archive with all its contents, or
// Stdin. If some arguments do not exist or cannot be read, Collect returns the readable inputs together with an error
// that names the others. In folders, it skips kinds of files that never contain logs. A growing file is read up to its
// size at the time of the call. The account lists all files.
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

// Memory returns the logs in data without creating a file. It treats data like the content of a file with this name.
// data must be plain text or gzip.
func Memory(name string, data []byte, opt Options) ([]replay.Input, *Account, error) {
	c := &collector{opt: opt, seed: maphash.MakeSeed(), seen: map[uint64]bool{}, account: Account{args: []string{name}}, state: newState(time.Now())}
	log := &logFile{c: c, path: name, name: c.shown(name), labelled: name, content: func() *bytes.Reader { return bytes.NewReader(data) }, size: int64(len(data)), state: c.state}
	c.append(log, replay.Input{Name: log.name, Derive: log.labels, Size: log.size, Open: log.open})
	return c.collected()
}

func (c *collector) collected() ([]replay.Input, *Account, error) {
	c.keepApart()
	// The slices are not copied, because there may be 200,000 logs.
	c.account.fileOfInput = slices.Concat(c.logs.file, c.journals.file, slices.Repeat([]int{-1}, len(c.states)))
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
	unpacked []openArchive // archives around the current file, the innermost one last
	logs     foundInputs
	journals foundInputs    // inputs from journals; each has distinguishing labels
	states   []replay.Input // inputs with lines about Events and objects; each has distinguishing labels
	arg      int            // index of the current argument
	state    *state         // data from the documents of the current argument
	account  Account
	seed     maphash.Seed
	seen     map[uint64]bool // hashes of the real paths of files that were added
	full     bool            // whether maxFiles was exceeded
	errs     []error         // first errors, up to maxNamed
	failed   int
}

// keepApart sets a distinct label on each input with an unknown pod if there are several, because such inputs may come
// from different clusters. Rotated files of the same log get the same label.
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
		if in, of := &c.logs.inputs[i], c.logs.files[i]; of != nil {
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
		c.addPipe("stdin", c.opt.Stdin)
		return
	}
	info, err := os.Stat(arg)
	switch {
	case err != nil && strings.Contains(arg, "://"):
		c.recordLoss("open", arg, errors.New("this is an address and not a file; download it first, or pipe it: curl -s ADDRESS | crowsnest scan"))
	case err != nil:
		c.recordLoss("open", arg, err)
	case info.IsDir():
		c.addFolder(arg)
	case info.Mode().IsRegular():
		if p := c.probe(arg, info); p.archive {
			c.addArchive(arg)
		} else {
			c.addFile(arg, info, p)
		}
	default:
		f, err := os.Open(arg)
		if err != nil {
			c.recordLoss("open", arg, err)
			return
		}
		defer f.Close()
		c.addPipe(c.shown(arg), f)
	}
}

// addPipe adds an input that can be read only once. It copies the content, so that the input can be opened several
// times.
func (c *collector) addPipe(name string, r io.Reader) {
	path, err := spool(r, c.opt.Unpack)
	if err != nil {
		c.recordLoss("read", name, err)
		return
	}
	info, err := os.Stat(path)
	if err != nil {
		c.recordLoss("read", name, err)
		return
	}
	c.unpacked = append(c.unpacked, openArchive{dir: path, archive: name})
	if c.probe(path, info).archive {
		c.addArchive(path)
		return
	}
	log := &logFile{c: c, path: path, name: name, size: info.Size(), state: c.state}
	c.append(log, replay.Input{Name: name, Derive: log.labels, Size: log.size, Open: log.open})
}

// append adds an input that can be read several times. If the lines of the input come from several containers, it adds
// an input for each of them. log is nil if the input is not a file.
func (c *collector) append(log *logFile, in replay.Input) {
	inputs, places, err := c.unwrap(&in, log)
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
		t := &log.tally
		if places != nil {
			t = &tally{lines: places[i].lines, understood: places[i].understood, exact: true}
		}
		c.logs.add(file, log, t, inputs[i])
	}
	if places != nil {
		c.account.Files[file].NULs = log.tally.nuls
	}
	if err != nil {
		f := &c.account.Files[file]
		f.Problem, f.Incomplete = err.Error(), true
		c.fail(fmt.Errorf("read %s: %w", f.Name, err))
	}
}

type probe struct {
	archive, journal, document bool
	err                        error // reason why the file cannot be read as a log; nil if it can
}

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
	case unpacks && unpack.MayBe(head) && unpack.IsArchive(f):
		return probe{archive: true}
	case bytes.HasPrefix(head, []byte(journalMagic)):
		return probe{journal: true}
	case unpacks && hasDocument(path, head):
		return probe{document: true}
	}
	_, err = lines(joined{f, io.NopCloser(nil)}, info.Size(), new(int64))
	if err == nil && isDocument(head) {
		err = checkDocument(f, info.Size())
	}
	return probe{err: err}
}

func (c *collector) addFolder(dir string) {
	entries, err := readFolder(dir, maxFiles-len(c.account.Files))
	if err != nil {
		c.recordLoss("read", dir, err)
	}
	for _, entry := range entries {
		switch path := filepath.Join(dir, entry.Name()); {
		case entry.IsDir():
			c.addFolder(path)
		case len(c.account.Files) >= maxFiles:
			if !c.full {
				c.full = true
				c.recordLoss("read", dir, errTooMany)
			}
			return
		default:
			c.found(path)
		}
	}
}

// readFolder returns the entries of a folder sorted by name. It returns an error if there are more than most entries.
func readFolder(dir string, most int) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(most + 1)
	if len(entries) > most {
		return nil, errTooMany
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// maxFiles is the maximum number of files, and also of logs in them. Each needs memory until the end of the command.
const maxFiles = 200_000

var errTooMany = fmt.Errorf("there are more than %d files and logs, and the rest is not read; scan the folders that matter, one after the other", maxFiles)

// found adds a file in a folder if the file is a log. It follows symbolic links to files, as in /var/log/containers. A
// broken link is skipped, because its target was not collected.
func (c *collector) found(path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.skip(path, "the link is broken")
		return
	case err != nil:
		c.recordLoss("read", path, err)
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
		c.recordLoss("read", path, p.err)
	default:
		c.addFile(path, info, p)
	}
}

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

type openArchive struct{ dir, archive string }

// shown returns the name of a file for people. For a file in an archive, the name of the archive precedes the name of
// the file.
func (c *collector) shown(path string) string {
	for _, u := range slices.Backward(c.unpacked) {
		if rest, ok := strings.CutPrefix(path, u.dir); ok && (rest == "" || rest[0] == filepath.Separator) {
			return u.archive + text.Printable(rest)
		}
	}
	if c.opt.Name != nil {
		path = c.opt.Name(path)
	}
	return text.Printable(path)
}

// addArchive adds the contents of an archive. If a part cannot be unpacked, it adds the rest and records an error.
func (c *collector) addArchive(archive string) {
	name := c.shown(archive)
	dir, err := c.folder(filepath.Base(archive))
	if err != nil {
		c.recordLoss("unpack", archive, err)
		return
	}
	c.unpacked = append(c.unpacked, openArchive{dir: dir, archive: name})
	defer func() { c.unpacked = c.unpacked[:len(c.unpacked)-1] }()
	result, err := unpack.Unpack(archive, dir, unpack.DefaultLimits())
	if err != nil {
		c.recordLoss("unpack", archive, err)
		return
	}
	for _, p := range result.Problems {
		member := name
		if p.Path != "." {
			member += "/" + p.Path
		}
		if p.Lost {
			c.loseShown("unpack", member, errors.New(p.Reason))
		} else {
			c.account.Files = append(c.account.Files, File{Name: member, Problem: p.Reason, arg: c.arg})
		}
	}
	if result.Refused {
		_ = os.RemoveAll(dir) // the temporary folder is removed at the end anyway
		return
	}
	before, failed := c.count(), c.failed
	c.addFolder(dir)
	if c.count() == before && c.failed == failed && result.Complete() {
		c.fail(fmt.Errorf("%s: no logs found; it has %s", name, text.Plural(result.Files, "file")))
	}
}

// folder creates a folder for the contents of an archive. The folder has the name of the archive, because layouts
// recognize folders by name.
func (c *collector) folder(name string) (string, error) {
	parent, err := os.MkdirTemp(c.opt.Unpack, "archive-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	return dir, os.Mkdir(dir, 0o700)
}

func (c *collector) count() int {
	return len(c.logs.inputs) + len(c.journals.inputs) + len(c.state.objects) + len(c.state.lines)
}
