package journalfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// Flags of compressed objects.
const (
	flagXZ   = 1
	flagLZ4  = 2
	flagZstd = 4
)

// Bounds of what decompressors allocate. journald uses 1 MiB with xz, and at most 8 MiB
// with zstd.
const (
	maxDictionary = 8 << 20
	maxBlock      = 256 << 10
	lz4Head       = 8 // the size of the uncompressed data
)

// inflater decompresses data. The zero value is ready.
type inflater struct {
	out  []byte
	zstd *zstd.Decoder
}

// data decompresses at most keep bytes and reports whether there are more. The result
// is valid until the next call.
func (d *inflater) data(flags byte, b []byte, keep int) (out []byte, cut bool, err error) {
	if cap(d.out) <= keep {
		d.out = make([]byte, keep+1)
	}
	d.out = d.out[:keep+1]
	var n int
	switch flags {
	case flagXZ:
		n, err = d.xz(b)
	case flagLZ4:
		if len(b) < lz4Head {
			return nil, false, io.ErrUnexpectedEOF
		}
		n, err = unLZ4(d.out, b[lz4Head:])
	case flagZstd:
		n, err = d.unzstd(b)
	default:
		err = fmt.Errorf("its flags are %#x", flags)
	}
	if err != nil {
		return nil, false, err
	}
	return d.out[:min(n, keep)], n > keep, nil
}

// fill reads as much as fits.
func (d *inflater) fill(r io.Reader) (int, error) {
	n, err := io.ReadFull(r, d.out)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (d *inflater) unzstd(b []byte) (int, error) {
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxDictionary))
		if err != nil {
			return 0, err
		}
		d.zstd = z
	}
	if err := d.zstd.Reset(bytes.NewReader(b)); err != nil {
		return 0, err
	}
	return d.fill(d.zstd)
}

func (d *inflater) xz(b []byte) (int, error) {
	if err := checkDictionary(b); err != nil {
		return 0, err
	}
	r, err := xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	return d.fill(r)
}

// checkDictionary refuses data for which the decompressor would allocate too much: the
// size is in the header of the first block, which follows a header of 12 bytes.
func checkDictionary(b []byte) error {
	const stream = 12
	if len(b) < stream+8 {
		return io.ErrUnexpectedEOF
	}
	flags, at := b[stream+1], stream+2
	for _, sized := range []byte{0x40, 0x80} { // the sizes of the block, if it states them
		if flags&sized != 0 {
			_, n := binary.Uvarint(b[at:])
			at += max(n, 0)
		}
	}
	const lzma2 = 0x21
	if flags&3 != 0 || len(b) < at+3 || b[at] != lzma2 || b[at+1] != 1 {
		return errors.New("it is not compressed as journald does it")
	}
	size, err := lzma.DecodeDictCap(b[at+2])
	if err != nil {
		return err
	}
	if size > maxDictionary {
		return fmt.Errorf("its dictionary has %d bytes; at most %d are accepted", size, maxDictionary)
	}
	return nil
}
