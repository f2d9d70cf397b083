package unpack

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"time"
)

// localHeader stands before the bytes of each file in a zip archive.
type localHeader struct {
	Signature          [4]byte
	Version, Flags     uint16
	Method, Time, Date uint16
	CRC, Packed, Size  uint32
	Name, Extra        uint16 // bytes that follow
}

const (
	zipLocal     = "PK\x03\x04"
	zipTrailer   = "PK\x07\x08"
	stored       = 0
	deflated     = 8
	flagSecret   = 1 << 0 // the file is encrypted
	flagTrailing = 1 << 3 // the sizes follow the bytes of the file
)

// rescue unpacks the files of a zip archive whose table of contents is missing, one after
// the other until something is not as it should be. It returns an error only if it ends
// the unpacking.
func (u *unpacker) rescue(in *source, size int64) error {
	br := bufio.NewReaderSize(io.NewSectionReader(in, 0, size), 64<<10)
	for {
		var h localHeader
		if binary.Read(br, binary.LittleEndian, &h) != nil || string(h.Signature[:]) != zipLocal {
			return nil //nolint:nilerr // no header follows
		}
		name := make([]byte, int(h.Name))
		if _, err := io.ReadFull(br, name); err != nil {
			return nil //nolint:nilerr // the archive ends here
		}
		if _, err := br.Discard(int(h.Extra)); err != nil {
			return nil //nolint:nilerr // the archive ends here
		}
		if more, err := u.rescueFile(br, h, string(name), in); !more || err != nil {
			return err
		}
	}
}

// rescueFile unpacks the file behind a header. more means that the next header follows.
func (u *unpacker) rescueFile(br *bufio.Reader, h localHeader, name string, in *source) (more bool, err error) {
	trailing := h.Flags&flagTrailing != 0
	if h.Flags&flagSecret != 0 || trailing && h.Method != deflated || h.Packed == 1<<32-1 || h.Method != stored && h.Method != deflated {
		return false, nil
	}
	var packed io.Reader = br // flate reads no byte too many of it
	if !trailing {
		packed = io.LimitReader(br, int64(h.Packed))
	}
	file := packed
	if h.Method == deflated {
		file = flate.NewReader(packed)
	}
	if bytes.HasSuffix([]byte(name), []byte("/")) {
		err = u.counted(name)
	} else {
		err = in.entry(name, time.Time{}, file)
	}
	if err != nil {
		return false, err
	}
	if !trailing {
		_, err := io.Copy(io.Discard, packed)
		return err == nil, nil
	}
	if n, err := file.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return false, nil // the file is damaged
	}
	return skipTrailer(br), nil
}

// skipTrailer reads the sizes behind a file: with or without a signature, of 4 or 8 bytes.
func skipTrailer(br *bufio.Reader) bool {
	for _, size := range []int{16, 24, 12, 20} {
		next, _ := br.Peek(size + len(zipLocal))
		if len(next) > size && bytes.HasPrefix(next[size:], []byte("PK")) && (size%8 == 4 || string(next[:4]) == zipTrailer) {
			_, err := br.Discard(size)
			return err == nil
		}
	}
	return false
}
