package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/daemon/state/plainfile"
)

// Names of the files of a process that is the standby of another one.
const (
	replica      = "replica"
	identityFile = "identity"

	maxIdentity = 1024 // maximum length in bytes
)

// SaveReplica replaces the replica in dir. A replica is a copy of another process's snapshot. SaveReplica works like
// Save. The payload is packed in a form that only the caller interprets.
func SaveReplica(dir string, packed []byte) error { return save(dir, replica, packed) }

// LoadReplica returns the newest usable replica. It works like Load.
func LoadReplica(dir string) (packed []byte, note string, err error) { return load(dir, replica) }

// DropReplica removes the replica. It is called when the process has a newer snapshot of its own.
func DropReplica(dir string) error {
	// The newest file is removed last, so that the remaining files are never older than before if the process is killed
	// meanwhile.
	for _, name := range []string{previousName(replica), temporaryName(replica), replica} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the replica: %w", err)
		}
	}
	return syncDir(dir)
}

// Has reports whether dir contains a snapshot or a replica.
func Has(dir string) bool {
	for _, name := range []string{current, previousName(current), replica, previousName(replica)} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Identity returns the ID of the directory, which is a random text in a file. The ID is lost with the directory.
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
	if err := plainfile.Replace(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("make an identity: %w", err)
	}
	return id, syncDir(dir)
}
