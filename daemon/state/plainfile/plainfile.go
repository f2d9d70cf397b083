// Package plainfile reads and writes files in directories to which others may write. Another writer could replace a
// file by a link to another file, by a named pipe that blocks, or by a device whose data never end.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// RefusedError reports that a path is not the name of a plain file.
type RefusedError struct{ Path, Reason string }

func (e *RefusedError) Error() string { return e.Path + " is " + e.Reason }

// Open opens a file like os.OpenFile. It does not follow links and does not wait for named pipes. It returns a
// *RefusedError for everything except a regular file that has only one name.
func Open(path string, flag int, mode os.FileMode) (*os.File, error) {
	// A named pipe or a device must not be opened at all, because opening it may have an effect.
	if fi, err := os.Lstat(path); err == nil {
		if err := checkFile(path, fi); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, flag|openFlags, mode)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		err = checkFile(path, fi)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkFile(path string, fi os.FileInfo) error {
	switch mode := fi.Mode(); {
	case mode&os.ModeSymlink != 0:
		return &RefusedError{path, "a link"}
	case mode.IsDir():
		return &RefusedError{path, "a folder"}
	case !mode.IsRegular():
		return &RefusedError{path, "not a regular file"}
	case links(fi) > 1:
		return &RefusedError{path, "a file with more than one name (hard links)"}
	}
	return nil
}

// Read returns the content of a file that Open accepts, or a *RefusedError if it has more than limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &RefusedError{path, fmt.Sprintf("a file with more than %d bytes", limit)}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return b, nil
}

// Create replaces whatever has this path by a new file. When Create returns nil, the content is on disk.
func Create(path string, parts ...[]byte) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Replace replaces a file. After an error, the old file is unchanged. Replace does not sync the directory.
func Replace(path string, content []byte) error {
	tmp := path + ".tmp"
	err := Create(tmp, content)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // frees the space, which the next attempt may need
	}
	return err
}
