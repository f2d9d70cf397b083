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
	"strconv"
	"strings"

	"crowsnest/daemon/state/plainfile"
)

// Names of the files in a state directory.
const (
	current  = "state"
	lockFile = "lock"
)

// maxSize is the maximum size of a snapshot in bytes. About 2 MiB are expected. Larger snapshots are not written.
const maxSize = 64 << 20

// version is the version of the file format, which is a header line followed by the payload.
const version = 1

const magic = "crowsnest-state"

// maxBad is the maximum number of damaged files that are kept for inspection.
const maxBad = 9

// Save replaces the snapshot in dir by payload and keeps the previous snapshot. When Save returns nil, the new snapshot
// is on disk. After an error, the older ones are intact. The next Save may succeed, because Save creates a missing
// directory. Calls must not overlap.
func Save(dir string, payload []byte) error { return save(dir, current, payload) }

// A snapshot has three files: the newest generation, the previous one, and one that is being written.
func previousName(name string) string  { return name + ".prev" }
func temporaryName(name string) string { return name + ".tmp" }

func save(dir, name string, payload []byte) error {
	if err := replace(dir, name, payload); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

func replace(dir, name string, payload []byte) error {
	if len(payload) > maxSize {
		return fmt.Errorf("the snapshot has %d bytes, at most %d are allowed", len(payload), maxSize)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cur, tmp := filepath.Join(dir, name), filepath.Join(dir, temporaryName(name))
	if err := plainfile.Create(tmp, []byte(header(payload)), payload); err != nil {
		return err
	}
	// After a crash between the two renames there is no current file. Then Load uses the temporary file.
	if err := os.Rename(cur, filepath.Join(dir, previousName(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the previous file: %w", err)
	}
	if err := os.Rename(tmp, cur); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func header(payload []byte) string {
	sum := sha256.Sum256(payload)
	return fmt.Sprintf("%s %d %d %s\n", magic, version, len(payload), hex.EncodeToString(sum[:]))
}

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
		return nil, fmt.Errorf("the content has %d bytes, but the header states %.20q", len(payload), f[2])
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != f[3] {
		return nil, errors.New("wrong checksum")
	}
	return payload, nil
}

// Load returns the newest usable snapshot in dir, or nil if there is none. note is a sentence that states which files
// were unusable and where they are now. It is empty if there were none. err reports that the directory or a file in it
// cannot be read. Even then the payload may be usable, so the caller continues in every case.
func Load(dir string) (payload []byte, note string, err error) { return load(dir, current) }

func load(dir, base string) (payload []byte, note string, err error) {
	var notes []string
	var errs []error
	// A complete temporary file is the newest generation. Save was killed before it could rename the file.
	for _, name := range []string{temporaryName(base), base, previousName(base)} {
		b, rerr := read(filepath.Join(dir, name))
		if errors.Is(rerr, fs.ErrNotExist) {
			continue
		}
		damaged, bad := errors.AsType[*damage](rerr)
		if rerr != nil && !bad {
			errs = append(errs, fmt.Errorf("load state: %w", rerr))
			continue
		}
		if rerr == nil {
			if name == previousName(base) && len(notes)+len(errs) > 0 {
				notes = append(notes, "the previous generation is used")
			}
			return b, strings.Join(notes, "; "), errors.Join(errs...)
		}
		if name == temporaryName(base) {
			continue // an interrupted Save is not a problem
		}
		notes = append(notes, setAside(dir, name, damaged))
	}
	return nil, strings.Join(notes, "; "), errors.Join(errs...)
}

// damage is a defect in the content of a file.
type damage struct{ reason string }

func (d *damage) Error() string { return d.reason }

// read returns the payload of a snapshot. The error is a *damage if its content is unusable.
func read(path string) ([]byte, error) {
	b, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	payload, err := decode(b)
	if err != nil {
		return nil, &damage{err.Error()}
	}
	return payload, nil
}

// readWhole returns the content of a file. It returns a *damage if this package cannot have written the file.
func readWhole(path string) ([]byte, error) {
	b, err := plainfile.Read(path, maxSize+1024)
	if refused, ok := errors.AsType[*plainfile.RefusedError](err); ok {
		return nil, &damage{refused.Reason}
	}
	return b, err
}

// setAside renames a damaged file for inspection, and returns a sentence about it.
func setAside(dir, name string, why *damage) string {
	from := filepath.Join(dir, name)
	for n := 1; n <= maxBad; n++ {
		to := from + ".bad-" + strconv.Itoa(n)
		if _, err := os.Lstat(to); err == nil && n < maxBad {
			continue
		}
		if n == maxBad {
			_ = os.RemoveAll(to) // if this fails, the rename below reports an error
		}
		if err := os.Rename(from, to); err != nil {
			return fmt.Sprintf("%s is damaged (%s) and could not be set aside: %v", from, why.reason, err)
		}
		return fmt.Sprintf("%s was damaged (%s) and was renamed to %s", from, why.reason, to)
	}
	return ""
}
