package journalfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/therootcompany/xz"

	"crowsnest/test/journald"
)

// written returns a file with n entries, whose numbers and times are 1 to n.
func written(t testing.TB, n int, compact bool) *journald.Writer {
	t.Helper()
	w := &journald.Writer{Compact: compact, File: [16]byte{1}, Seqnum: [16]byte{2}}
	for i := range n {
		require.NoError(t, w.Append(item(uint64(i+1)), true))
	}
	return w
}

func item(seq uint64) journald.Item {
	return journald.Item{
		Seq: seq, Realtime: seq, Monotonic: seq, Boot: [16]byte{3},
		Fields: []string{fmt.Sprintf("MESSAGE=line %d", seq), "_SYSTEMD_UNIT=kubelet.service"},
	}
}

// memory is a file that changes.
type memory struct{ image []byte }

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.image).ReadAt(b, off)
}

// readAll returns the numbers of the entries and the damages up to the end.
func readAll(t testing.TB, f *File) (seqs []uint64, damages []*Damage) {
	t.Helper()
	var e Entry
	for {
		err := f.Next(&e)
		var d *Damage
		switch {
		case errors.Is(err, io.EOF):
			return seqs, damages
		case errors.As(err, &d):
			damages = append(damages, d)
		default:
			require.NoError(t, err)
			seqs = append(seqs, e.Seq)
		}
	}
}

func upTo(n int) (out []uint64) {
	for i := range n {
		out = append(out, uint64(i+1))
	}
	return out
}

func TestFollows(t *testing.T) {
	for _, compact := range []bool{false, true} {
		w := written(t, 5, compact)
		m := &memory{w.Image()}
		f, err := Open(m, 1000)
		require.NoError(t, err)
		seqs, damages := readAll(t, f)
		require.Equal(t, upTo(5), seqs)
		require.Empty(t, damages)
		require.NoError(t, w.Append(item(6), false))
		m.image = w.Image()
		require.NoError(t, f.Refresh())
		require.ErrorIs(t, f.Next(new(Entry)), io.EOF, "an entry that is not linked")
		f.Release()
		for i := range 100 {
			require.NoError(t, w.Append(item(uint64(7+i)), true))
			m.image = w.Image()
			require.NoError(t, f.Refresh())
			var e Entry
			require.NoError(t, f.Next(&e))
			require.Equal(t, uint64(7+i), e.Seq)
			require.ErrorIs(t, f.Next(&e), io.EOF)
		}
	}
}

func TestSeek(t *testing.T) {
	for _, n := range []int{1, 2, 3, 50} {
		w := written(t, n, n%2 == 0)
		f, err := Open(bytes.NewReader(w.Image()), 1000)
		require.NoError(t, err)
		for from := range n + 2 {
			f.Seek(func(e *Entry) bool { return e.Seq > uint64(from) })
			seqs, damages := readAll(t, f)
			require.Empty(t, damages)
			require.Equal(t, upTo(n)[min(from, n):], append([]uint64{}, seqs...))
		}
	}
}

// What cannot be read costs no other entry, and every byte may be wrong.
func TestDamage(t *testing.T) {
	w := written(t, 20, false)
	clean := w.Image()
	for _, final := range []bool{false, true} {
		for at := headSizeInTest; at < len(clean); at++ {
			image := bytes.Clone(clean)
			image[at] ^= 0xff
			f, err := Open(bytes.NewReader(image), 1000)
			require.NoError(t, err)
			f.Final = final
			seqs, damages := readAll(t, f)
			require.LessOrEqual(t, len(seqs), 20)
			lost := 20 - len(seqs)
			told := uint64(0)
			for _, d := range damages {
				told += d.LostEntries
			}
			if final {
				require.Equal(t, uint64(lost), told, "byte %d", at)
			}
		}
	}
}

const headSizeInTest = 272

// An entry at the end of a file that is written to is waited for; elsewhere it is damage.
func TestUnfinishedEnd(t *testing.T) {
	w := written(t, 3, false)
	image := w.Image()
	e := lastEntry(t, image)
	image[e] = 0
	m := &memory{image}
	f, err := Open(m, 1000)
	require.NoError(t, err)
	seqs, damages := readAll(t, f)
	require.Equal(t, upTo(2), seqs)
	require.Empty(t, damages)
	require.True(t, f.IsWaiting())
	f.Final = true
	_, damages = readAll(t, f)
	require.Len(t, damages, 1)
	require.False(t, f.IsWaiting())

	m.image = w.Image()
	f, err = Open(m, 1000)
	require.NoError(t, err)
	seqs, _ = readAll(t, f)
	require.Equal(t, upTo(3), seqs)
}

func lastEntry(t *testing.T, image []byte) uint64 {
	t.Helper()
	f, err := Open(bytes.NewReader(image), 1000)
	require.NoError(t, err)
	var e Entry
	for f.Next(&e) == nil {
		continue
	}
	return e.Offset
}

func TestTruncated(t *testing.T) {
	image := written(t, 20, true).Image()
	for size := range image {
		f, err := Open(bytes.NewReader(image[:size]), 1000)
		if size < minHeader {
			require.ErrorIs(t, err, ErrFormat)
			continue
		}
		require.NoError(t, err)
		f.Final = true
		seqs, damages := readAll(t, f)
		lost := uint64(0)
		for _, d := range damages {
			lost += d.LostEntries
		}
		require.Equal(t, 20, len(seqs)+int(lost))
	}
}

func TestLongValues(t *testing.T) {
	w := &journald.Writer{}
	it := item(1)
	it.Fields = []string{"MESSAGE=" + strings.Repeat("x", 5000), "A=" + strings.Repeat("y", 100), "B="}
	require.NoError(t, w.Append(it, true))
	f, err := Open(bytes.NewReader(w.Image()), 100)
	require.NoError(t, err)
	var e Entry
	require.NoError(t, f.Next(&e))
	got := map[string]string{}
	for field := range f.Fields(&e) {
		require.NoError(t, field.Err)
		require.Equal(t, string(field.Name) == "MESSAGE", field.Cut)
		got[string(field.Name)] = string(field.Value)
	}
	require.Equal(t, map[string]string{"MESSAGE": strings.Repeat("x", 100), "A": strings.Repeat("y", 100), "B": ""}, got)
}

func TestRefused(t *testing.T) {
	good := written(t, 1, false).Image()
	change := func(at int, b byte) []byte {
		image := bytes.Clone(good)
		image[at] = b
		return image
	}
	for want, image := range map[string][]byte{
		"it has only 0 bytes":                   nil,
		"it has only 100 bytes":                 good[:100],
		"it does not begin with LPKSHHRH":       change(0, 'x'),
		"(flags 0x80); update crowsnest":        change(12, 0x80),
		"the size of its header is 8":           change(88, 8),
		"the size of its header is 65808":       change(90, 1),
		"the size of its header is 72057594037": change(95, 1),
	} {
		if want == "the size of its header is 8" {
			image[89] = 0
		}
		_, err := Open(bytes.NewReader(image), 100)
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, want)
	}
}

func TestOverwritten(t *testing.T) {
	m := &memory{written(t, 5, false).Image()}
	f, err := Open(m, 100)
	require.NoError(t, err)
	m.image = written(t, 4, false).Image()
	require.ErrorIs(t, f.Refresh(), ErrFormat)
}

func TestLZ4(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"\x50hello", "hello"},
		{"\x12a\x01\x00", "aaaaaaa"}, // a match that overlaps itself
		{"\xf0\x01" + strings.Repeat("b", 16), strings.Repeat("b", 16)},
	} {
		for size := range len(c.out) + 1 {
			out := make([]byte, size)
			n, err := unLZ4(out, []byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.out[:size], string(out[:n]))
		}
	}
	for _, in := range []string{"\x50hell", "\x10", "\x10a\x01", "\x10a\x00\x00", "\x10a\x02\x00", "\xf0", "\xf0\xff", "\x1fa\x01\x00"} {
		_, err := unLZ4(make([]byte, 100), []byte(in))
		require.ErrorIs(t, err, errLZ4, "%q", in)
	}
}

// xz data may demand a dictionary of 4 GiB.
func TestXZDictionary(t *testing.T) {
	block := []byte("\x02\x00\x21\x01\x28\x00\x00\x00")
	data := append([]byte("\xfd7zXZ\x00\x00\x00\xff\x12\xd9\x41"), le.AppendUint32(block, crc32.ChecksumIEEE(block))...)
	var d inflater
	for n := range data {
		_, _, err := d.decompress(flagXZ, data[:n], 4096)
		require.Error(t, err)
	}
	_, _, err := d.decompress(flagXZ, data, 4096)
	require.ErrorIs(t, err, xz.ErrMemlimit)
}

// FuzzFile reads whatever is in a file. Its work and memory are bounded by the size.
func FuzzFile(f *testing.F) {
	for _, compact := range []bool{false, true} {
		f.Add(written(f, 9, compact).Image())
	}
	packed := &journald.Writer{Flags: 1<<0 | 1<<1 | 1<<3}
	for _, name := range []string{"xz", "lz4", "zstd"} {
		_ = packed.Append(journald.Item{Seq: 1, Realtime: 1, Fields: []string{"A=" + name}, Raw: compressed(f, name)}, true)
	}
	f.Add(packed.Image())
	f.Fuzz(func(t *testing.T, image []byte) {
		file, err := Open(bytes.NewReader(image), 4096)
		if err != nil {
			return
		}
		file.Final = len(image)%2 == 0
		var e Entry
		for range 2 * len(image) {
			err := file.Next(&e)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				continue
			}
			for field := range file.Fields(&e) {
				if field.Err == nil && (len(field.Value) > 4096 || len(field.Name) == 0) {
					t.Fatalf("a value has %d bytes", len(field.Value))
				}
			}
		}
		seqs := uint64(0)
		file.Seek(func(e *Entry) bool { seqs++; return e.Seq > 3 })
		if seqs > 64*64 {
			t.Fatalf("Seek read %d entries", seqs)
		}
	})
}

// compressed returns some compressed fields of a real file.
func compressed(t testing.TB, name string) (out []journald.Raw) {
	t.Helper()
	image := unzip(t, "testdata/"+name+".journal.gz")
	f, err := Open(bytes.NewReader(image), 1<<20)
	require.NoError(t, err)
	head := uint64(dataHead)
	if f.h.compact {
		head += 8
	}
	var e Entry
	for len(out) < 2 && f.Next(&e) == nil {
		for _, off := range e.data {
			if b := image[off:]; b[1] != 0 && le.Uint64(b[8:]) < 20_000 {
				out = append(out, journald.Raw{Flag: b[1], Payload: b[head:le.Uint64(b[8:])]})
			}
		}
	}
	require.NotEmpty(t, out, name)
	return out
}
