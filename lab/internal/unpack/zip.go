package unpack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxContents is the maximum size of the table of contents of a zip archive, which is read as a
// whole.
const maxContents = 24 << 20

func (u *unpacker) unpackZip(in *source, size int64) error {
	c := &contents{ReaderAt: in, max: u.limits.Entries + endEntries, tooMany: u.tooMany}
	zr, err := zip.NewReader(c, size)
	c.opened = true
	switch {
	case isFinal(err):
		return err
	case err != nil && !errors.Is(err, zip.ErrInsecurePath):
		return fmt.Errorf("its table of contents is missing or damaged, so nothing of it was read: %w; repair it with zip -FF, or fetch it again", err)
	case len(zr.File) > u.limits.Entries:
		return u.tooMany()
	case entriesOverlap(zr.File):
		return errors.New("its files overlap, as in a zip bomb; nothing was unpacked")
	}
	for _, e := range zr.File {
		switch {
		case e.Mode().IsDir():
			err = u.countEntry(e.Name)
		case !e.Mode().IsRegular():
			err = u.noteSpecial(in.dir, e.Name)
		case e.Flags&1 != 0:
			u.noteLost(entryPath(in.dir, e.Name), errEncrypted)
			err = u.countEntry(e.Name)
		default:
			err = u.zipFile(e, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errEncrypted = errors.New("it is encrypted; unpack it by hand")

func (u *unpacker) zipFile(e *zip.File, in *source) error {
	rc, err := e.Open()
	if err != nil {
		u.noteLost(entryPath(in.dir, e.Name), err)
		return u.countEntry(e.Name)
	}
	defer rc.Close()
	return in.writeEntry(e.Name, e.Modified, rc)
}

// zipEntry is the beginning of each entry in the table of contents.
const zipEntry = "PK\x01\x02"

// endEntries is the number of entries that archive/zip reads twice while it searches for the
// table.
const endEntries = 2 << 10

// contents is a reader of a zip archive. It fails if the table of contents is too large,
// because archive/zip does not limit it.
type contents struct {
	io.ReaderAt

	max, entries, size int
	end                []byte // last bytes of the previous read
	tooMany            func() error
	opened             bool // whether the table was read
}

// ReadAt implements io.ReaderAt.
func (c *contents) ReadAt(p []byte, t int64) (int, error) {
	if c.opened {
		return c.ReaderAt.ReadAt(p, t)
	}
	if c.entries > c.max || c.size > maxContents {
		return 0, c.tooMany()
	}
	n, err := c.ReaderAt.ReadAt(p, t)
	block := append(c.end, p[:n]...)
	c.entries += bytes.Count(block, []byte(zipEntry))
	c.size += n
	c.end = append(c.end[:0], block[max(0, len(block)-len(zipEntry)+1):]...)
	return n, err
}

// entriesOverlap reports whether two entries share bytes. No tool writes such an archive.
func entriesOverlap(files []*zip.File) bool {
	type span struct{ from, to int64 }
	spans := make([]span, 0, len(files))
	for _, e := range files {
		if at, err := e.DataOffset(); err == nil && e.CompressedSize64 > 0 {
			spans = append(spans, span{at, at + int64(min(e.CompressedSize64, 1<<60))})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return true
		}
	}
	return false
}
