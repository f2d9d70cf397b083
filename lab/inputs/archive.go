package inputs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/lab/internal/unpack"
)

// unpacked is a folder with the content of an archive.
type unpacked struct{ dir, archive string }

// shown returns the name of a file for people: one from an archive has the name of the
// archive in front of its own.
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

// addArchive adds what an archive contains. What cannot be unpacked is an error, after
// the rest was added.
func (c *collector) addArchive(archive string) {
	name := c.shown(archive)
	dir, err := c.folder(filepath.Base(archive))
	if err != nil {
		c.lose("unpack", archive, err)
		return
	}
	c.unpacked = append(c.unpacked, unpacked{dir: dir, archive: name})
	defer func() { c.unpacked = c.unpacked[:len(c.unpacked)-1] }()
	result, err := unpack.Unpack(archive, dir, unpack.Default())
	if err != nil {
		c.lose("unpack", archive, err)
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
		_ = os.RemoveAll(dir) // the temporary folder is removed at the end in any case
		return
	}
	before, failed := c.count(), c.failed
	c.addFolder(dir)
	if c.count() == before && c.failed == failed && result.Complete() {
		c.fail(fmt.Errorf("%s: no logs found; it has %s", name, text.Plural(result.Files, "file")))
	}
}

// folder makes a folder for what an archive contains. It has the name of the archive, which
// may be that of a folder in a layout.
func (c *collector) folder(name string) (string, error) {
	parent, err := os.MkdirTemp(c.opt.Unpack, "archive-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	return dir, os.Mkdir(dir, 0o700)
}

// count returns how much was found that has lines.
func (c *collector) count() int {
	return len(c.logs.inputs) + len(c.journals.inputs) + len(c.state.objects) + len(c.state.lines)
}

// addPackedStdin adds standard input that begins like an archive.
func (c *collector) addPackedStdin(r io.Reader) {
	path, err := spool(func() (io.ReadCloser, error) { return io.NopCloser(r), nil }, c.opt.Unpack)
	if err != nil {
		c.lose("read", "stdin", err)
		return
	}
	info, err := os.Stat(path)
	if err != nil {
		c.lose("read", "stdin", err)
		return
	}
	c.unpacked = append(c.unpacked, unpacked{dir: path, archive: "stdin"})
	if p := c.probe(path, info); p.archive {
		c.addArchive(path)
		return
	}
	c.addCopy("stdin", path)
}
