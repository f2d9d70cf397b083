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

	"crowsnest/daemon/state/plainfile"
)

// logHeader is the first line of a Log. Its number is increased when an older program could misread records.
const logHeader = "crowsnest-log 1\n"

// sumLength is the length of a record's checksum in hexadecimal digits.
const sumLength = 16

// ErrLogChanged reports that the file of a Log is not in the state in which the Log wrote it. The file was removed,
// shortened or damaged, or it was not loaded yet. Load or Replace repairs this.
var ErrLogChanged = errors.New("another program changed the file")

// Log is a file of records that grows at its end. It is in the directory of the snapshot. Each record is a line with
// its own checksum. Therefore damage costs only the damaged records, and an interrupted write costs only the records
// that it was writing. The caller must hold the lock of the directory. Calls must not overlap.
type Log struct {
	dir, path string
	size      int64 // size of the valid content in bytes; -1 if it is not known
}

// NewLog returns the log with that name in dir. It does not open the file.
func NewLog(dir, name string) *Log {
	return &Log{dir: dir, path: filepath.Join(dir, name), size: -1}
}

// Size returns the size of the file in bytes, or 0 if it is not known.
func (l *Log) Size() int64 { return max(0, l.size) }

// SizeOf returns the number of bytes that a record of n bytes takes in the file.
func SizeOf(n int) int { return n + sumLength + 2 }

// Load returns all valid records, the oldest first, or nil if there is no file. note is a sentence about unusable
// records. It is empty if there were none. The remains of an interrupted Append are dropped without a note. After an
// error, Append and Replace may still succeed.
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
		l.size = 0 // the first Append was interrupted before it wrote the header
		return nil, "", nil
	case !bytes.HasPrefix(b, []byte(logHeader)):
		return nil, l.setAside(&damage{"the header is unknown"}), nil
	}
	records, lost, tail := splitRecords(b[len(logHeader):])
	if lost == 0 {
		l.size = int64(len(b) - tail)
	} else {
		note = fmt.Sprintf("%d records of %s were damaged and are skipped", lost, l.path)
		bad := l.path + ".bad" // only the newest damaged file is kept; Replace then writes a valid file
		if plainfile.Create(bad, b) == nil {
			note += "; a copy of the damaged file is " + bad
		}
	}
	return records, note, nil
}

// splitRecords returns the valid records, the number of invalid records, and the length of an incomplete last line.
func splitRecords(b []byte) (records [][]byte, lost, tail int) {
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended {
			return records, lost, len(b)
		}
		b = rest
		if payload, ok := verifiedPayload(line); ok {
			records = append(records, payload)
		} else {
			lost++
		}
	}
	return records, lost, 0
}

// setAside renames an unusable file and returns a sentence about it.
func (l *Log) setAside(why *damage) string {
	note := setAside(l.dir, filepath.Base(l.path), why)
	if _, err := os.Lstat(l.path); errors.Is(err, fs.ErrNotExist) {
		l.size = 0
	}
	return note
}

// Append adds records, which must not contain line breaks. When Append returns nil, the records are on disk. After an
// error, none of them is in the log. Append returns ErrLogChanged if the caller must call Load or Replace first.
func (l *Log) Append(records [][]byte) error {
	if err := l.appendRecords(records); err != nil {
		return fmt.Errorf("append to %s: %w", l.path, err)
	}
	return nil
}

func (l *Log) appendRecords(records [][]byte) error {
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
	if _, refused := errors.AsType[*plainfile.RefusedError](err); refused || errors.Is(err, fs.ErrNotExist) {
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

// writeEnd writes the records after the valid content. It overwrites the remains of an earlier attempt.
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
		_ = f.Truncate(l.size) // if this fails, the next call or Load drops the remains
		return 0, err
	}
	return l.size + int64(len(b)), nil
}

// Replace replaces the content. When Replace returns nil, the new content is on disk. After an error, the file is
// unchanged.
func (l *Log) Replace(records [][]byte) error {
	b := appendRecords([]byte(logHeader), records)
	if err := l.replaceContent(b); err != nil {
		return fmt.Errorf("replace %s: %w", l.path, err)
	}
	l.size = int64(len(b))
	return nil
}

func (l *Log) replaceContent(b []byte) error {
	if len(b) > maxSize {
		return fmt.Errorf("the new content has %d bytes, at most %d are allowed", len(b), maxSize)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := plainfile.Replace(l.path, b); err != nil {
		return err
	}
	return syncDir(l.dir)
}

func appendRecords(b []byte, records [][]byte) []byte {
	for _, r := range records {
		b = append(append(append(b, checksum(r)...), ' '), r...)
		b = append(b, '\n')
	}
	return b
}

// verifiedPayload returns the record in a line. It returns false if the checksum is wrong.
func verifiedPayload(line []byte) ([]byte, bool) {
	if len(line) < sumLength+1 || line[sumLength] != ' ' {
		return nil, false
	}
	payload := line[sumLength+1:]
	return payload, checksum(payload) == string(line[:sumLength])
}

func checksum(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:sumLength/2])
}
