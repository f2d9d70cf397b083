package journalfile

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrFormat means that a file is not a journal, or one that this package cannot read.
var ErrFormat = errors.New("not a readable journal file")

// ID is a 128-bit identifier of systemd.
type ID [16]byte

// String returns the ID as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns the ID as 32 hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) != 2*len(id) {
		return fmt.Errorf("%q is not an ID of 32 hexadecimal digits", text)
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Header is the header of a file at one moment.
type Header struct {
	File    ID // ID of the file, which survives renaming
	Machine ID
	Seqnum  ID // ID of the sequence that numbers the entries; several files can share it
	// Online is set if the file was not closed, because a process writes to it or was killed.
	Online   bool
	Entries  uint64 // number of linked entries
	HeadSeq  uint64 // number of the first entry; zero if there is none
	TailSeq  uint64 // newest number that journald assigned; the entry may be unfinished
	HeadTime uint64 // time of the first entry in microseconds since 1970
	TailTime uint64
	size     uint64 // size of the header in bytes
	array    uint64 // offset of the first entry array
	compact  bool
}

// Layout of the header. Fields behind minHeader exist only in newer files and are not used.
const (
	signature  = "LPKSHHRH"
	minHeader  = 208
	maxHeader  = 64 << 10
	flagsKnown = 1<<5 - 1 // flags for xz, lz4, keyed hash, zstd and compact
	compactBit = 1 << 4
	online     = 1
)

var le = binary.LittleEndian

func readHeader(r io.ReaderAt) (Header, error) {
	var b [minHeader]byte
	if n, err := r.ReadAt(b[:], 0); n < minHeader {
		if errors.Is(err, io.EOF) {
			return Header{}, fmt.Errorf("%w: it has only %d bytes", ErrFormat, n)
		}
		return Header{}, fmt.Errorf("read the header: %w", err)
	}
	if string(b[:8]) != signature {
		return Header{}, fmt.Errorf("%w: it does not begin with %s", ErrFormat, signature)
	}
	flags := le.Uint32(b[12:])
	if unknown := flags &^ flagsKnown; unknown != 0 {
		return Header{}, fmt.Errorf("%w: it uses features that this version does not know (flags %#x); update crowsnest", ErrFormat, unknown)
	}
	h := Header{
		File: ID(b[24:40]), Machine: ID(b[40:56]), Seqnum: ID(b[72:88]), Online: b[16] == online,
		size: le.Uint64(b[88:]), compact: flags&compactBit != 0,
		Entries: le.Uint64(b[152:]), TailSeq: le.Uint64(b[160:]), HeadSeq: le.Uint64(b[168:]), array: le.Uint64(b[176:]),
		HeadTime: le.Uint64(b[184:]), TailTime: le.Uint64(b[192:]),
	}
	if h.size < minHeader || h.size > maxHeader || h.size%8 != 0 {
		return Header{}, fmt.Errorf("%w: the size of its header is %d", ErrFormat, h.size)
	}
	return h, nil
}
