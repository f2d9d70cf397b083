package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"crowsnest/state"
	"crowsnest/state/plainfile"
)

// maxRecord bounds the file of the record, in bytes.
const maxRecord = 64 << 10

// FileStore keeps the record in a folder on storage that both processes share. The storage
// must have locks for files that work between machines, such as NFSv4. Each request holds
// the lock of the folder; nobody holds it in between.
type FileStore struct{ dir string }

// NewFileStore returns a store in a folder. It opens nothing.
func NewFileStore(dir string) *FileStore { return &FileStore{dir} }

// Where returns the folder.
func (s *FileStore) Where() string { return "folder " + s.dir }

// saved is a record in the file.
type saved struct {
	Revision uint64 `json:"revision"`
	Record   Record `json:"record"`
}

func (s *FileStore) path() string { return filepath.Join(s.dir, "leader.json") }

// Get reads the file.
func (s *FileStore) Get(ctx context.Context) (Record, string, error) {
	var rec Record
	var revision string
	err := s.locked(ctx, func() (err error) {
		rec, revision, err = s.read()
		return err
	})
	return rec, revision, err
}

func (s *FileStore) read() (Record, string, error) {
	b, err := plainfile.Read(s.path(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, "", nil
	}
	if err != nil {
		return Record{}, "", fmt.Errorf("read who leads: %w", err)
	}
	var in saved
	if err := json.Unmarshal(b, &in); err != nil {
		return Record{}, "", fmt.Errorf("read who leads from %s: %w; remove the file while no process runs", s.path(), err)
	}
	return in.Record, strconv.FormatUint(in.Revision, 10), nil
}

// Put replaces the file.
func (s *FileStore) Put(ctx context.Context, rec Record, revision string) (string, error) {
	next := ""
	err := s.locked(ctx, func() error {
		_, now, err := s.read()
		if err != nil {
			return err
		}
		if now != revision {
			return ErrConflict
		}
		n, _ := strconv.ParseUint(now, 10, 64) // "": 0
		b, err := json.Marshal(saved{n + 1, rec})
		if err != nil {
			return err
		}
		next = strconv.FormatUint(n+1, 10)
		tmp := s.path() + ".tmp"
		if err := plainfile.Create(tmp, b); err != nil {
			return fmt.Errorf("write who leads: %w", err)
		}
		if err := os.Rename(tmp, s.path()); err != nil {
			return fmt.Errorf("write who leads: %w", err)
		}
		return nil
	})
	return next, err
}

// locked calls f while this process holds the lock of the folder.
func (s *FileStore) locked(ctx context.Context, f func() error) error {
	held, err := state.Lock(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("lock who leads: %w", err)
	}
	return errors.Join(f(), held.Release())
}
