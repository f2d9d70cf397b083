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

// Limits of the memory that decompressors allocate. journald uses 1 MiB with xz, and at most 8 MiB with zstd.
const (
	maxDictionary = 8 << 20
	maxBlock      = 256 << 10
	lz4Head       = 8 // length of the field with the uncompressed size
)

type inflater struct {
	out  []byte
	zstd *zstd.Decoder
}

// decompress returns at most keep bytes of the decompressed data. They are valid until the
// next call. cut reports whether there are more bytes.
func (d *inflater) decompress(flags byte, b []byte, keep int) (out []byte, cut bool, err error) {
	if cap(d.out) <= keep {
		d.out = make([]byte, keep+1)
	}
	d.out = d.out[:keep+1]
	var n int
	switch flags {
	case flagXZ:
		var z *xz.Reader
		if z, err = xz.NewReader(bytes.NewReader(b), maxDictionary); err == nil {
			n, err = d.fill(z)
		}
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

var errLZ4 = errors.New("damaged lz4 data")

// unLZ4 decompresses a block until out is full. It replaces a library, because libraries
// decompress only whole blocks and rely on the stated size, which may be wrong.
func unLZ4(out, in []byte) (n int, err error) {
	for len(in) > 0 {
		token := in[0]
		in = in[1:]
		literals, rest, ok := lz4Length(int(token>>4), in)
		if !ok || literals > len(rest) {
			return 0, errLZ4
		}
		copied := copy(out[n:], rest[:literals])
		n, in = n+copied, rest[literals:]
		if n == len(out) || len(in) == 0 {
			return n, nil
		}
		if len(in) < 2 {
			return 0, errLZ4
		}
		back := int(in[0]) | int(in[1])<<8
		length, rest, ok := lz4Length(int(token&15), in[2:])
		if !ok || back == 0 || back > n {
			return 0, errLZ4
		}
		const minMatch = 4
		n += lz4Repeat(out, n, back, length+minMatch)
		if in = rest; n == len(out) {
			return n, nil
		}
	}
	return n, nil
}

// lz4Length reads the bytes that extend a length of 15.
func lz4Length(n int, in []byte) (length int, rest []byte, ok bool) {
	if n < 15 {
		return n, in, true
	}
	for i, b := range in {
		if n += int(b); b != 255 {
			return n, in[i+1:], true
		}
	}
	return 0, nil, false
}

// lz4Repeat copies length bytes within out, from back bytes before n to n, or fewer if out is
// too short. If source and target overlap, the bytes repeat.
func lz4Repeat(out []byte, n, back, length int) int {
	length = min(length, len(out)-n)
	for done := 0; done < length; {
		done += copy(out[n+done:n+length], out[n-back:n+done])
	}
	return length
}
