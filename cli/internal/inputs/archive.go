package inputs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/cli/internal/unpack"
	"crowsnest/replay"
)

// unpacked is a folder with the content of an archive.
type unpacked struct{ dir, archive string }

// shown returns the name of a file for people: one from an archive has the name of the
// archive in front of its own.
func (c *collector) shown(path string) string {
	for _, u := range c.unpacked {
		if rest, ok := strings.CutPrefix(path, u.dir); ok && (rest == "" || rest[0] == filepath.Separator) {
			return u.archive + rest
		}
	}
	return path
}

func (c *collector) isArchive(path string, info fs.FileInfo) bool {
	if c.opt.Unpack == "" || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false // reading it reports the error
	}
	defer f.Close()
	return unpack.Is(f)
}

// addArchive adds what an archive contains. What cannot be unpacked is an error, after
// the rest was added.
func (c *collector) addArchive(archive string) error {
	name := c.shown(archive)
	parent, err := os.MkdirTemp(c.opt.Unpack, "archive-")
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	// Layouts need the name of the archive: it may be that of a folder.
	dir := filepath.Join(parent, filepath.Base(archive))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	c.unpacked = append(c.unpacked, unpacked{dir: dir, archive: name})
	result, err := unpack.Unpack(archive, dir, unpack.Default())
	for _, s := range result.Skipped {
		c.skip(filepath.Join(dir, s.Path), s.Reason)
	}
	if err != nil {
		c.fail(fmt.Errorf("unpack %s: %w", name, cause(err)))
	}
	before, errorsBefore := c.count(), c.failed
	if err := c.addFolder(dir); err != nil {
		return err
	}
	if c.count() == before && c.failed == errorsBefore && err == nil {
		return fmt.Errorf("%s: no logs found among its %d files", name, result.Files)
	}
	return nil
}

// count returns how much was found that has lines.
func (c *collector) count() int {
	return len(c.inputs) + len(c.journals) + len(c.state.objects) + len(c.state.lines)
}

// addPackedStdin adds standard input that begins like an archive.
func (c *collector) addPackedStdin(r io.Reader) error {
	path, err := spool(func() (io.ReadCloser, error) { return io.NopCloser(r), nil }, c.opt.Unpack)
	if err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	c.unpacked = append(c.unpacked, unpacked{dir: path, archive: "stdin"})
	if c.isArchive(path, info) {
		return c.addArchive(path)
	}
	return c.append(replay.Input{Name: "stdin", Labels: c.labels(""), Open: c.opener(path, info)})
}
