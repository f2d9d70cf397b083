package unpack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

const headSize = 512

// maxWindow is the maximum memory in bytes for the window of zstd and xz, whose size the archive determines.
const maxWindow = 128 << 20

type archiveFormat struct {
	name, magic string
	// suffixes contains pairs of file name suffixes before and after decompression.
	suffixes [][2]string
	open     func(io.Reader) (io.Reader, func(), error)
}

var packings = []archiveFormat{
	{"gzip", "\x1f\x8b", [][2]string{{".gz", ""}, {".tgz", ".tar"}}, func(r io.Reader) (io.Reader, func(), error) {
		zr, err := gzip.NewReader(r)
		return zr, func() {}, err
	}},
	{"xz", "\xfd7zXZ\x00", [][2]string{{".xz", ""}, {".txz", ".tar"}}, func(r io.Reader) (io.Reader, func(), error) {
		zr, err := xz.NewReader(r, maxWindow)
		return zr, func() {}, err
	}},
	{"zstd", "\x28\xb5\x2f\xfd", [][2]string{{".zst", ""}, {".tzst", ".tar"}}, func(r io.Reader) (io.Reader, func(), error) {
		zr, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return zr, zr.Close, nil
	}},
	{"bzip2", "BZh", [][2]string{{".bz2", ""}, {".tbz2", ".tar"}, {".tbz", ".tar"}}, func(r io.Reader) (io.Reader, func(), error) {
		return bzip2.NewReader(r), func() {}, nil
	}},
}

// detectPacking determines the compression format of a stream from its first bytes. It returns nil if the format is
// unknown.
func detectPacking(head []byte) *archiveFormat {
	for i, p := range packings {
		if bytes.HasPrefix(head, []byte(p.magic)) && (p.name != "bzip2" || len(head) > 9 && string(head[4:7]) == "1AY") {
			return &packings[i]
		}
	}
	return nil
}

func isZip(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06"))
}

// isTar reports whether a block is the header of a tar archive with a valid checksum.
func isTar(head []byte) bool {
	if len(head) < headSize || head[0] == 0 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head[:headSize])).Next()
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) // an extended header is longer than the block
}

// unpackedTar returns the decompressed stream of r, and whether the stream is a tar archive. The buffer of br contains
// the first block.
func unpackedTar(p *archiveFormat, r io.Reader) (br *bufio.Reader, isArchive bool, done func(), err error) {
	zr, done, err := p.open(r)
	if err != nil {
		return nil, false, nil, fmt.Errorf("unpack %s: %w", p.name, err)
	}
	br = bufio.NewReaderSize(zr, 64<<10)
	head, _ := br.Peek(headSize) // the next read returns the error again
	return br, isTar(head), done, nil
}

// IsArchive reports whether a file is an archive, or is compressed in another format than gzip. A gzip file that is no
// archive is a rotated log, which this package does not unpack.
func IsArchive(r io.ReaderAt) bool {
	head := make([]byte, headSize)
	n, _ := r.ReadAt(head, 0)
	head = head[:n]
	p := detectPacking(head)
	if p == nil || p.name != "gzip" {
		return p != nil || isZip(head) || isTar(head)
	}
	_, archive, done, err := unpackedTar(p, io.NewSectionReader(r, 0, 1<<62))
	if err != nil {
		return false
	}
	done()
	return archive
}

// MayBe reports whether a file with the first bytes head may be an archive or compressed.
func MayBe(head []byte) bool { return detectPacking(head) != nil || isZip(head) || isTar(head) }

// maxContents is the maximum size in bytes of the table of contents of a zip archive.
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

const zipEntry = "PK\x01\x02"

// endEntries is the number of entries that archive/zip reads twice when it searches for the table of contents.
const endEntries = 2 << 10

// contents is a reader for a zip archive. It fails if the table of contents is too large, because archive/zip does not
// limit the table.
type contents struct {
	io.ReaderAt

	max, entries, size int
	end                []byte // last bytes of the previous read
	tooMany            func() error
	opened             bool // whether the table of contents was read completely
}

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

// entriesOverlap reports whether two entries of a zip archive share bytes. Only a malicious archive has such entries.
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
