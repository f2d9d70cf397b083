package artifact

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange puts the folder fresh in the place of dir and removes what was there. It is
// atomic where the file system can exchange two names; elsewhere dir is missing for a
// moment, and old is used in between.
func exchange(fresh, dir, old string) error {
	err := os.Rename(fresh, dir) // dir is missing or empty
	if err == nil {
		return nil
	}
	err = unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return exchangeTwice(fresh, dir, old)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(fresh)
}
