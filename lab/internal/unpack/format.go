package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// headSize is the size of the header of a tar archive.
const headSize = 512

// maxWindow bounds the memory that zstd and xz may ask for: an archive states it.
const maxWindow = 128 << 20

// packing is a format that packs one stream.
type packing struct {
	name, magic string
	// suffixes of names, each with the one after unpacking.
	suffixes [][2]string
	open     func(io.Reader) (io.Reader, func(), error)
}

var packings = []packing{
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

// packingOf returns the format of a packed stream from its first bytes, nil if it is none.
func packingOf(head []byte) *packing {
	for i, p := range packings {
		if bytes.HasPrefix(head, []byte(p.magic)) && (p.name != "bzip2" || len(head) > 9 && string(head[4:7]) == "1AY") {
			return &packings[i]
		}
	}
	return nil
}

// isZip reports whether a file begins like a zip archive with entries, or without.
func isZip(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06"))
}

// isTar reports whether a block is the header of a tar archive: archive/tar checks its sum.
func isTar(head []byte) bool {
	if len(head) < headSize || head[0] == 0 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head[:headSize])).Next()
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) // an extended header continues behind the block
}

// unpackedTar returns the stream in a packed one, and whether it is a tar archive. Its
// buffer holds the first block.
func unpackedTar(p *packing, r io.Reader) (br *bufio.Reader, isArchive bool, done func(), err error) {
	zr, done, err := p.open(r)
	if err != nil {
		return nil, false, nil, fmt.Errorf("unpack %s: %w", p.name, err)
	}
	br = bufio.NewReaderSize(zr, 64<<10)
	head, _ := br.Peek(headSize) // an error returns with the next read
	return br, isTar(head), done, nil
}

// Is reports whether a file is an archive, or packed in a format other than gzip, by its
// first bytes. gzip without an archive in it is a rotated log, which others read.
func Is(r io.ReaderAt) bool {
	head := make([]byte, headSize)
	n, _ := r.ReadAt(head, 0)
	head = head[:n]
	p := packingOf(head)
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

// MayBe reports whether an input that begins with these bytes may be an archive, or is
// packed in any format.
func MayBe(head []byte) bool { return packingOf(head) != nil || isZip(head) || isTar(head) }
