package journald

import (
	"encoding/binary"
	"os"
)

// Writer writes a small journal file step by step, as journald does, but without the
// tables for searching. Fields may be set before New's first Append.
type Writer struct {
	Path                  string
	File, Machine, Seqnum [16]byte
	Compact               bool
	// Flags are those of compression in the header, which Raw fields use.
	Flags uint32

	image      []byte
	slots      int // of the newest entry array
	used       int
	array      uint64
	firstArray uint64
	entries    uint64
	head, tail [2]uint64 // seqnum, time
	known      map[string]uint64
}

// Item is an entry for Append.
type Item struct {
	Seq, Realtime, Monotonic uint64
	Boot                     [16]byte
	Fields                   []string // NAME=value
	// Raw are data objects with a flag and its compressed payload.
	Raw []Raw
}

// Raw is a compressed field.
type Raw struct {
	Flag    byte
	Payload []byte
}

const headerSize = 272

var le = binary.LittleEndian

// Image returns the bytes of the file.
func (w *Writer) Image() []byte { return append([]byte(nil), w.image...) }

// Append adds an entry. Without link it is written but not counted, as while journald
// writes it.
func (w *Writer) Append(item Item, link bool) error {
	if w.image == nil {
		w.image, w.known = make([]byte, headerSize), map[string]uint64{}
	}
	var data []uint64
	for _, field := range item.Fields {
		if w.known[field] == 0 {
			w.known[field] = w.data(Raw{Payload: []byte(field)})
		}
		data = append(data, w.known[field])
	}
	for _, raw := range item.Raw {
		data = append(data, w.data(raw))
	}
	off := w.entry(item, data)
	if w.head[0] == 0 {
		w.head = [2]uint64{item.Seq, item.Realtime}
	}
	w.tail[0] = item.Seq
	if link {
		w.link(off)
		w.tail[1] = item.Realtime
	}
	return w.Save(1)
}

func (w *Writer) object(kind, flags byte, size int) (off uint64, b []byte) {
	for len(w.image)%8 != 0 {
		w.image = append(w.image, 0)
	}
	off = uint64(len(w.image))
	w.image = append(w.image, make([]byte, size)...)
	b = w.image[off:]
	b[0], b[1] = kind, flags
	le.PutUint64(b[8:], uint64(size))
	return off, b
}

func (w *Writer) data(raw Raw) uint64 {
	head := 64
	if w.Compact {
		head = 72
	}
	off, b := w.object(1, raw.Flag, head+len(raw.Payload))
	le.PutUint64(b[56:], 2)
	copy(b[head:], raw.Payload)
	return off
}

func (w *Writer) entry(item Item, data []uint64) uint64 {
	size := 16
	if w.Compact {
		size = 4
	}
	off, b := w.object(3, 0, 64+size*len(data))
	le.PutUint64(b[16:], item.Seq)
	le.PutUint64(b[24:], item.Realtime)
	le.PutUint64(b[32:], item.Monotonic)
	copy(b[40:], item.Boot[:])
	for i, d := range data {
		w.put(b[64+size*i:], d)
	}
	return off
}

func (w *Writer) put(b []byte, off uint64) {
	if w.Compact {
		le.PutUint32(b, uint32(off))
	} else {
		le.PutUint64(b, off)
	}
}

func (w *Writer) link(off uint64) {
	size := 8
	if w.Compact {
		size = 4
	}
	if w.used == w.slots {
		w.slots, w.used = max(2, 2*w.slots), 0
		array, _ := w.object(6, 0, 24+size*w.slots)
		if w.array == 0 {
			w.firstArray = array
		} else {
			le.PutUint64(w.image[w.array+16:], array)
		}
		w.array = array
	}
	w.put(w.image[w.array+24+uint64(size*w.used):], off)
	w.used++
	w.entries++
}

// Save writes the file with a state: 0 offline, 1 online, 2 archived.
func (w *Writer) Save(state byte) error {
	if w.image == nil {
		w.image, w.known = make([]byte, headerSize), map[string]uint64{}
	}
	b := w.image
	copy(b, "LPKSHHRH")
	flags := w.Flags
	if w.Compact {
		flags |= 1 << 4
	}
	le.PutUint32(b[12:], flags)
	b[16] = state
	copy(b[24:], w.File[:])
	copy(b[40:], w.Machine[:])
	copy(b[72:], w.Seqnum[:])
	for at, v := range map[int]uint64{
		88: headerSize, 96: uint64(len(b)) - headerSize, 152: w.entries, 160: w.tail[0], 168: w.head[0], 176: w.firstArray, 184: w.head[1], 192: w.tail[1],
	} {
		le.PutUint64(b[at:], v)
	}
	if w.Path == "" {
		return nil
	}
	// In place: readers have the file open.
	f, err := os.OpenFile(w.Path, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
