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

// headSize is the size of a tar header.
const headSize = 512

// maxWindow is the maximum memory that an archive may make zstd and xz use.
const maxWindow = 128 << 20

// packing is a format that compresses one stream.
type packing struct {
	name, magic string
	// suffixes are pairs of suffixes of names, before and after unpacking.
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

// detectPacking returns the format of a compressed stream from its first bytes; nil if it is
// not compressed.
func detectPacking(head []byte) *packing {
	for i, p := range packings {
		if bytes.HasPrefix(head, []byte(p.magic)) && (p.name != "bzip2" || len(head) > 9 && string(head[4:7]) == "1AY") {
			return &packings[i]
		}
	}
	return nil
}

// isZip reports whether head is the beginning of a zip archive, which may be empty.
func isZip(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06"))
}

// isTar reports whether a block is the header of a tar archive. archive/tar checks its
// checksum.
func isTar(head []byte) bool {
	if len(head) < headSize || head[0] == 0 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head[:headSize])).Next()
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) // an extended header continues after the block
}

// unpackedTar returns the uncompressed stream of r, and whether it is a tar archive. The buffer
// of br contains the first block.
func unpackedTar(p *packing, r io.Reader) (br *bufio.Reader, isArchive bool, done func(), err error) {
	zr, done, err := p.open(r)
	if err != nil {
		return nil, false, nil, fmt.Errorf("unpack %s: %w", p.name, err)
	}
	br = bufio.NewReaderSize(zr, 64<<10)
	head, _ := br.Peek(headSize) // an error is returned again by the next read
	return br, isTar(head), done, nil
}

// IsArchive reports whether the first bytes of a file are those of an archive, or of a
// compressed format other than gzip. gzip without an archive is a rotated log, which is not
// unpacked here.
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

// MayBe reports whether head may be the beginning of an archive or of a compressed file.
func MayBe(head []byte) bool { return detectPacking(head) != nil || isZip(head) || isTar(head) }
