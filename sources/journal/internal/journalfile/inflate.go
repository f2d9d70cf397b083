package journalfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Flags of compressed objects.
const (
	flagXZ   = 1
	flagLZ4  = 2
	flagZstd = 4
)

// Limits of the memory that decompressors allocate. journald uses 1 MiB with xz, and at most 8
// MiB with zstd.
const (
	maxDictionary = 8 << 20
	maxBlock      = 256 << 10
	lz4Head       = 8 // length of the field with the uncompressed size
)

// inflater decompresses data. The zero value is ready.
type inflater struct {
	out  []byte
	zstd *zstd.Decoder
}

// decompress decompresses at most keep bytes of b, and reports whether there are more. The
// result is valid until the next call.
func (d *inflater) decompress(flags byte, b []byte, keep int) (out []byte, cut bool, err error) {
	if cap(d.out) <= keep {
		d.out = make([]byte, keep+1)
	}
	d.out = d.out[:keep+1]
	var n int
	switch flags {
	case flagXZ:
		n, err = d.decompressXZ(b)
	case flagLZ4:
		if len(b) < lz4Head {
			return nil, false, io.ErrUnexpectedEOF
		}
		n, err = unLZ4(d.out, b[lz4Head:])
	case flagZstd:
		n, err = d.decompressZstd(b)
	default:
		err = fmt.Errorf("its flags are %#x", flags)
	}
	if err != nil {
		return nil, false, err
	}
	return d.out[:min(n, keep)], n > keep, nil
}

// fill reads from r until the buffer is full or r ends.
func (d *inflater) fill(r io.Reader) (int, error) {
	n, err := io.ReadFull(r, d.out)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (d *inflater) decompressZstd(b []byte) (int, error) {
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

func (d *inflater) decompressXZ(b []byte) (int, error) {
	z, err := xz.NewReader(bytes.NewReader(b), maxDictionary)
	if err != nil {
		return 0, err
	}
	return d.fill(z)
}
