package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/state/plainfile"
)

// The files of a process that stands by.
const (
	replica      = "replica"
	identityFile = "identity"

	maxIdentity = 1024 // bytes
)

// SaveReplica replaces the replica of another process's snapshot in dir, as Save does with
// the snapshot. The payload is packed: the caller knows how.
func SaveReplica(dir string, packed []byte) error { return save(dir, replica, packed) }

// LoadReplica returns the newest usable replica, as Load does with the snapshot.
func LoadReplica(dir string) (packed []byte, note string, err error) { return load(dir, replica) }

// DropReplica removes the replica: the snapshot is newer.
func DropReplica(dir string) error {
	// The newest goes last: what a kill leaves is no older than what was there.
	for _, name := range []string{previous(replica), fresh(replica), replica} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the replica: %w", err)
		}
	}
	return syncDir(dir)
}

// Has reports whether dir has a snapshot or a replica.
func Has(dir string) bool {
	for _, name := range []string{current, previous(current), replica, previous(replica)} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Identity returns the name of the directory: a random text that is made once and is lost
// with the directory.
func Identity(dir string) (string, error) {
	path := filepath.Join(dir, identityFile)
	b, err := plainfile.Read(path, maxIdentity)
	if id := strings.TrimSpace(string(b)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the identity: %w", err)
	}
	id := rand.Text()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make an identity: %w", err)
	}
	tmp := path + ".tmp"
	if err = plainfile.Create(tmp, []byte(id+"\n")); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return "", fmt.Errorf("make an identity: %w", err)
	}
	return id, syncDir(dir)
}
