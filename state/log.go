package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"crowsnest/state/plainfile"
)

// logHeader is the first line of a Log. Its number is raised when an older program could
// misread the records.
const logHeader = "crowsnest-log 1\n"

// sumLength is the length of the checksum of a record, in hexadecimal digits.
const sumLength = 16

// ErrLogChanged reports that the file of a Log is not as the Log left it: something
// removed, shortened or damaged it, or it was not loaded. Load or Replace repairs that.
var ErrLogChanged = errors.New("the file was changed by something else")

// Log is a file of records in the folder of the snapshot, which grows at its end. Each
// record is a line with a checksum of its own, so that damage costs the damaged records
// only, and a write that was interrupted costs only what it was writing. The caller holds
// the lock of the folder. Calls must not overlap.
type Log struct {
	dir, path string
	size      int64 // size of the valid content; -1 if unknown
}

// NewLog returns the log of that name in dir. It opens nothing.
func NewLog(dir, name string) *Log {
	return &Log{dir: dir, path: filepath.Join(dir, name), size: -1}
}

// Size returns the bytes of the file as far as they are known, else 0.
func (l *Log) Size() int64 { return max(0, l.size) }

// SizeOf returns how many bytes a record of n bytes has in the file.
func SizeOf(n int) int { return n + sumLength + 2 }

// Load returns all good records, the oldest first; nil if there is no file. note says in
// one sentence what was unusable; "" if nothing was. What an interrupted Append left is
// dropped without a note. After an error, Append and Replace may still succeed.
func (l *Log) Load() (records [][]byte, note string, err error) {
	l.size = -1
	b, err := readWhole(l.path)
	damaged, bad := errors.AsType[*damage](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.size = 0
		return nil, "", nil
	case bad:
		return nil, l.setAside(damaged), nil
	case err != nil:
		return nil, "", fmt.Errorf("load %s: %w", l.path, err)
	case len(b) < len(logHeader) && bytes.HasPrefix([]byte(logHeader), b):
		l.size = 0 // the first Append was interrupted
		return nil, "", nil
	case !bytes.HasPrefix(b, []byte(logHeader)):
		return nil, l.setAside(&damage{"no header that this program knows"}), nil
	}
	records, lost, tail := split(b[len(logHeader):])
	if lost == 0 {
		l.size = int64(len(b) - tail)
	} else {
		note = fmt.Sprintf("%d records of %s were damaged and are left out%s", lost, l.path, l.keepDamaged(b))
	}
	return records, note, nil
}

// split returns the good records of the lines, how many others there are, and how many
// bytes the incomplete line at the end has.
func split(b []byte) (records [][]byte, lost, tail int) {
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended {
			return records, lost, len(b)
		}
		b = rest
		if payload, ok := checked(line); ok {
			records = append(records, payload)
		} else {
			lost++
		}
	}
	return records, lost, 0
}

// setAside renames an unusable file, and returns a sentence about it.
func (l *Log) setAside(why *damage) string {
	note := setAside(l.dir, filepath.Base(l.path), why)
	if _, err := os.Lstat(l.path); errors.Is(err, fs.ErrNotExist) {
		l.size = 0
	}
	return note
}

// keepDamaged keeps the newest damaged file under another name, for inspection. Replace
// puts a good one in its place.
func (l *Log) keepDamaged(b []byte) string {
	to := l.path + ".bad"
	if plainfile.Create(to, b) != nil {
		return ""
	}
	return "; a copy of the damaged file is " + to
}

// Append adds records, which contain no line break. When it returns nil, they are on disk.
// After an error none of them is in the log. It returns ErrLogChanged if the file has to be
// loaded or replaced first.
func (l *Log) Append(records [][]byte) error {
	if err := l.grow(records); err != nil {
		return fmt.Errorf("append to %s: %w", l.path, err)
	}
	return nil
}

func (l *Log) grow(records [][]byte) error {
	if l.size < 0 {
		return ErrLogChanged
	}
	create := 0
	if l.size == 0 {
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return err
		}
		create = os.O_CREATE
	}
	f, err := plainfile.Open(l.path, os.O_WRONLY|create, 0o600)
	if _, refused := errors.AsType[*plainfile.Refused](err); refused || errors.Is(err, fs.ErrNotExist) {
		return ErrLogChanged
	}
	if err != nil {
		return err
	}
	size, err := l.writeEnd(f, records)
	if err == nil && l.size == 0 {
		err = syncDir(l.dir)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		l.size = size
	}
	return err
}

// writeEnd writes the records behind the good content and returns the new size. It removes
// what an earlier attempt left there.
func (l *Log) writeEnd(f *os.File, records [][]byte) (int64, error) {
	fi, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case fi.Size() < l.size:
		return 0, ErrLogChanged
	case fi.Size() > l.size:
		if err := f.Truncate(l.size); err != nil {
			return 0, err
		}
	}
	var b []byte
	if l.size == 0 {
		b = append(b, logHeader...)
	}
	b = appendRecords(b, records)
	if _, err = f.WriteAt(b, l.size); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Truncate(l.size) // otherwise the next call or Load drops the rest
		return 0, err
	}
	return l.size + int64(len(b)), nil
}

// Replace makes the records the whole content. When it returns nil, they are on disk. After
// an error the file is as it was.
func (l *Log) Replace(records [][]byte) error {
	b := appendRecords([]byte(logHeader), records)
	if err := l.replace(b); err != nil {
		return fmt.Errorf("replace %s: %w", l.path, err)
	}
	l.size = int64(len(b))
	return nil
}

func (l *Log) replace(b []byte) error {
	if len(b) > maxSize {
		return fmt.Errorf("%d bytes are more than %d", len(b), maxSize)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	tmp := l.path + ".tmp"
	err := plainfile.Create(tmp, b)
	if err == nil {
		err = os.Rename(tmp, l.path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the next attempt may need the space
		return err
	}
	return syncDir(l.dir)
}

// appendRecords appends a line for each record.
func appendRecords(b []byte, records [][]byte) []byte {
	for _, r := range records {
		b = append(append(append(b, sumOf(r)...), ' '), r...)
		b = append(b, '\n')
	}
	return b
}

// checked returns the payload of a line if its checksum is right.
func checked(line []byte) ([]byte, bool) {
	if len(line) < sumLength+1 || line[sumLength] != ' ' {
		return nil, false
	}
	payload := line[sumLength+1:]
	return payload, sumOf(payload) == string(line[:sumLength])
}

func sumOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:sumLength/2])
}
