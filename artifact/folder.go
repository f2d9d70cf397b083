package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
	"crowsnest/state/plainfile"
)

// recordFile, in a folder of packs, identifies the artifact that the folder holds. Its
// name is hidden, so it is not read as a pack.
const recordFile = ".crowsnest-artifact.json"

// maxRecord bounds recordFile, in bytes.
const maxRecord = 1 << 20

// ReadFolder reads the packs of a folder for New: names are relative to it.
func ReadFolder(dir string) ([]rules.File, error) {
	files, problems := rulefiles.ReadPaths([]string{dir})
	if len(problems) > 0 {
		return nil, problems
	}
	for i, f := range files {
		rel, err := filepath.Rel(dir, f.Name)
		if err != nil || rel == "." {
			return nil, fmt.Errorf("%s is not a folder", dir)
		}
		files[i].Name = filepath.ToSlash(rel)
	}
	return files, nil
}

// InFolder returns the artifact that a folder holds; nil if the folder is empty or
// missing. A folder with other content is an error: Write would delete it.
func InFolder(dir string) (*Last, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	data, err := plainfile.Read(filepath.Join(dir, recordFile), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has files that crowsnest rules pull did not write; name an empty or a new folder", dir)
	}
	var last Last
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; remove the folder to pull it again", filepath.Join(dir, recordFile), err)
	}
	return &last, nil
}

// Write replaces a folder by the artifact. The folder has the old files or the new ones,
// never a mixture, also after a kill. The new folder stays beside the old one until it
// is complete; a later call removes what a kill left there.
func Write(dir string, a *Artifact) error {
	dir = filepath.Clean(dir)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("write the packs: %w", err)
	}
	prefix := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".pull-")
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) { // a kill between the two renames of exchangeTwice
		if err := os.Rename(prefix+"old", dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", dir, err)
		}
	}
	left, _ := filepath.Glob(escape(prefix) + "*") // the pattern is valid
	for _, old := range left {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove what an earlier pull left: %w", err)
		}
	}
	fresh := prefix + "new"
	if err := writeAll(fresh, a); err != nil {
		return errors.Join(fmt.Errorf("write the packs: %w", err), os.RemoveAll(fresh))
	}
	if err := exchange(fresh, dir, prefix+"old"); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w; a mounted folder cannot be replaced: name a folder in it", dir, err), os.RemoveAll(fresh))
	}
	return nil
}

// escape makes a path a pattern that only matches itself.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// writeAll writes the files and the record, and returns when they are on disk.
func writeAll(dir string, a *Artifact) error {
	record, err := json.Marshal(Last{a.Digest, a.Title, a.Version})
	if err != nil {
		return err
	}
	root, err := openNew(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // every file was synced
	for _, f := range append([]rules.File{{Name: recordFile, Data: record}}, a.Files...) {
		name := filepath.FromSlash(f.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeFile(root, name, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// openNew creates a folder and opens it such that no name in it leads outside.
func openNew(dir string) (*os.Root, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// exchangeTwice puts fresh in the place of dir with two renames.
func exchangeTwice(fresh, dir, old string) error {
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}
