package inputs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/lab/internal/unpack"
)

// unpacked is a folder with the unpacked content of an archive.
type unpacked struct{ dir, archive string }

// shown returns a name of a file for people. For a file from an archive, it is the name of the
// archive followed by that of the file.
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

// addArchive adds the content of an archive. If a part cannot be unpacked, it adds the rest and
// records an error.
func (c *collector) addArchive(archive string) {
	name := c.shown(archive)
	dir, err := c.folder(filepath.Base(archive))
	if err != nil {
		c.lose("unpack", archive, err)
		return
	}
	c.unpacked = append(c.unpacked, unpacked{dir: dir, archive: name})
	defer func() { c.unpacked = c.unpacked[:len(c.unpacked)-1] }()
	result, err := unpack.Unpack(archive, dir, unpack.DefaultLimits())
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
		_ = os.RemoveAll(dir) // the temporary folder is removed at the end anyway
		return
	}
	before, failed := c.count(), c.failed
	c.addFolder(dir)
	if c.count() == before && c.failed == failed && result.Complete() {
		c.fail(fmt.Errorf("%s: no logs found; it has %s", name, text.Plural(result.Files, "file")))
	}
}

// folder creates a folder for the content of an archive. Its name is that of the archive,
// because layouts recognize folders by name.
func (c *collector) folder(name string) (string, error) {
	parent, err := os.MkdirTemp(c.opt.Unpack, "archive-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	return dir, os.Mkdir(dir, 0o700)
}

// count returns the number of inputs and documents that were found.
func (c *collector) count() int {
	return len(c.logs.inputs) + len(c.journals.inputs) + len(c.state.objects) + len(c.state.lines)
}
