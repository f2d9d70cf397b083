package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"crowsnest/daemon/state"
	"crowsnest/daemon/state/plainfile"
)

const maxRecord = 64 << 10

// FileStore keeps the record in a folder on storage that both processes share. The storage must have file locks that
// work between machines, such as NFSv4. A request holds the lock of the folder only while the request runs.
type FileStore struct{ dir string }

// NewFileStore returns a store that uses a folder. It opens nothing.
func NewFileStore(dir string) *FileStore { return &FileStore{dir} }

// Where returns the folder.
func (s *FileStore) Where() string { return "folder " + s.dir }

type savedRecord struct {
	Revision uint64 `json:"revision"`
	Record   Record `json:"record"`
}

func (s *FileStore) path() string { return filepath.Join(s.dir, "leader.json") }

// Get reads the record from the file.
func (s *FileStore) Get(ctx context.Context) (Record, string, error) {
	var rec Record
	var revision string
	err := s.withLock(ctx, func() (err error) {
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
		return Record{}, "", fmt.Errorf("read the leader record: %w", err)
	}
	var in savedRecord
	if err := json.Unmarshal(b, &in); err != nil {
		return Record{}, "", fmt.Errorf("read the leader record from %s: %w; remove the file while no process runs", s.path(), err)
	}
	return in.Record, strconv.FormatUint(in.Revision, 10), nil
}

// Put replaces the record in the file.
func (s *FileStore) Put(ctx context.Context, rec Record, revision string) (string, error) {
	next := ""
	err := s.withLock(ctx, func() error {
		_, now, err := s.read()
		if err != nil {
			return err
		}
		if now != revision {
			return ErrConflict
		}
		n, _ := strconv.ParseUint(now, 10, 64) // the revision "" becomes 0
		b, err := json.Marshal(savedRecord{n + 1, rec})
		if err != nil {
			return err
		}
		next = strconv.FormatUint(n+1, 10)
		if err := plainfile.Replace(s.path(), b); err != nil {
			return fmt.Errorf("write the leader record: %w", err)
		}
		return nil
	})
	return next, err
}

func (s *FileStore) withLock(ctx context.Context, f func() error) error {
	held, err := state.Lock(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("lock the leader record: %w", err)
	}
	return errors.Join(f(), held.Release())
}
