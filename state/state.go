package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The files of a state directory.
const (
	current  = "state"
	previous = "state.prev"
	fresh    = "state.tmp"
	lockFile = "lock"
)

// MaxSize is the greatest snapshot that is written or read. About 2 MiB are
// expected; a file beyond this was not written by us.
const MaxSize = 64 << 20

// version of the envelope: one header line, then the payload as it is.
const version = 1

const magic = "crowsnest-state"

// maxBad is how many damaged files are kept for a look at them.
const maxBad = 9

// Save replaces the snapshot in dir by payload and keeps the one before. When
// it returns nil the snapshot is on disk. After an error the older generations
// are whole and the next Save may succeed: a directory that vanished is made
// again. Calls must not overlap.
func Save(dir string, payload []byte) error {
	if len(payload) > MaxSize {
		return fmt.Errorf("save state: %d bytes are more than %d", len(payload), MaxSize)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	tmp := filepath.Join(dir, fresh)
	if err := write(tmp, payload); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	cur := filepath.Join(dir, current)
	// A crash between the two renames leaves no current file, but the fresh one,
	// which Load takes.
	if err := os.Rename(cur, filepath.Join(dir, previous)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save state: keep the previous one: %w", err)
	}
	if err := os.Rename(tmp, cur); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

// write creates the file anew and returns when its content is on disk. What
// lies in the way and is not a file of ours is removed, not written through.
func write(path string, payload []byte) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(header(payload))
	if err == nil {
		_, err = f.Write(payload)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func header(payload []byte) string {
	sum := sha256.Sum256(payload)
	return fmt.Sprintf("%s %d %d %s\n", magic, version, len(payload), hex.EncodeToString(sum[:]))
}

// decode returns the payload of a file's content.
func decode(b []byte) ([]byte, error) {
	line, payload, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, errors.New("no header")
	}
	f := strings.Split(string(line), " ")
	if len(f) < 2 || f[0] != magic {
		return nil, errors.New("no header")
	}
	v, err := strconv.Atoi(f[1])
	switch {
	case err != nil || v < 1:
		return nil, errors.New("no version")
	case v > version:
		return nil, fmt.Errorf("version %d is newer than %d, which this program knows", v, version)
	case len(f) != 4:
		return nil, errors.New("no header")
	}
	if strconv.Itoa(len(payload)) != f[2] {
		return nil, fmt.Errorf("%d bytes where %.20q are stated", len(payload), f[2])
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != f[3] {
		return nil, errors.New("wrong checksum")
	}
	return payload, nil
}

// Load returns the newest usable snapshot in dir, or nil if there is none. note
// tells in one sentence what was unusable and where it lies now; "" if all was
// well. err means that the directory or a file in it cannot be read at all; the
// payload may be usable nevertheless, and the caller goes on in every case.
func Load(dir string) (payload []byte, note string, err error) {
	var notes []string
	var errs []error
	// A fresh one that is whole is newer than the current one: its Save was waiting
	// for the disk when the process was killed.
	for _, name := range []string{fresh, current, previous} {
		b, rerr := read(filepath.Join(dir, name))
		if errors.Is(rerr, fs.ErrNotExist) {
			continue
		}
		var damaged *damage
		if rerr != nil && !errors.As(rerr, &damaged) {
			errs = append(errs, fmt.Errorf("load state: %w", rerr))
			continue
		}
		if rerr == nil {
			if name == previous && len(notes)+len(errs) > 0 {
				notes = append(notes, "the previous generation is used")
			}
			return b, strings.Join(notes, "; "), errors.Join(errs...)
		}
		if name == fresh {
			continue // a Save that was interrupted: nothing is wrong
		}
		notes = append(notes, setAside(dir, name, damaged))
	}
	return nil, strings.Join(notes, "; "), errors.Join(errs...)
}

// damage is what is wrong with the content of a file.
type damage struct{ reason string }

func (d *damage) Error() string { return d.reason }

// read returns the payload of one file; a *damage if its content is unusable.
func read(path string) ([]byte, error) {
	// A FIFO in its place must not hang the start.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, &damage{"not a regular file"}
	case fi.Size() > MaxSize+1024:
		return nil, &damage{fmt.Sprintf("%d bytes are too many", fi.Size())}
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+1024))
	if err != nil {
		return nil, err
	}
	payload, err := decode(b)
	if err != nil {
		return nil, &damage{err.Error()}
	}
	return payload, nil
}

// setAside renames a damaged file so that it can be looked at and is not read
// again, and tells what it did.
func setAside(dir, name string, why *damage) string {
	from := filepath.Join(dir, name)
	for n := 1; n <= maxBad; n++ {
		to := from + ".bad-" + strconv.Itoa(n)
		if _, err := os.Lstat(to); err == nil && n < maxBad {
			continue
		}
		if n == maxBad {
			_ = os.RemoveAll(to) // if it stays, the rename below says so
		}
		if err := os.Rename(from, to); err != nil {
			return fmt.Sprintf("%s is damaged (%s) and could not be set aside: %v", from, why.reason, err)
		}
		return fmt.Sprintf("%s was damaged (%s) and is now %s", from, why.reason, to)
	}
	return ""
}
