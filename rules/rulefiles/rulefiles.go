// Package rulefiles reads files of rules from folders. It does not interpret their content.
package rulefiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/internal/strictyaml"
)

// Limits of the files that are read.
const (
	MaxBytes   = 1 << 20 // maximum size of one file in bytes
	maxTotal   = 8 << 20 // maximum size of all files together in bytes
	maxFolders = 16      // maximum depth of nested folders
)

// File is the content of one file.
type File struct {
	Name string // name of the file in messages
	Data []byte
	// Namespace is the owner of the file. If it is set, the rules of the file may select only streams of this namespace,
	// and the file cannot change other rules. Empty means that the file belongs to the operator.
	Namespace string `json:",omitempty"`
	// Cluster is the name of the cluster that Namespace is in. If it is set, the rules of the file select only streams with
	// this label cluster and streams without one. It has no effect on a file of the operator.
	Cluster string `json:",omitempty"`
	// Unread is the reason why a file of an owner was not read. It is empty if Data has the content.
	Unread string `json:"-"`
	// Released is set for a pack that is part of the program. rules.Parse does not lint its rules, because they passed
	// the lint before the release.
	Released bool `json:"-"`
	// Compiled is the path of a pack that is part of the program, or empty. If it is set, rules.Parse uses the compiled
	// form of the pack, and Data is empty; see rules.ShippedWithoutTests.
	Compiled string `json:"-"`
	// WithoutTests lets rules.Parse omit the tests of a pack.
	WithoutTests bool `json:"-"`
}

// reader reads rule files up to the limits.
type reader struct {
	files []File
	total int
}

// ReadFS reads every *.yaml and *.yml file of fsys, sorted by name. Of a larger file it reads one byte more than
// MaxBytes, so that rules.Parse refuses the file. It skips names that start with a dot, because a ConfigMap mount has a
// second copy of its files in `..data`.
func ReadFS(fsys fs.FS) ([]File, error) {
	r := &reader{}
	err := r.readFolder(fsys, ".", nil)
	return r.files, err
}

// ReadPaths reads files and folders of the operating system like ReadFS. It reads a file that is listed in paths
// whatever its name is. All files of a ConfigMap mount are read from the same version, even if the kubelet updates the
// mount meanwhile.
func ReadPaths(paths []string) ([]File, strictyaml.Problems) {
	var out []File
	var problems strictyaml.Problems
	seen := map[string]bool{}
	total := 0
	for _, p := range paths {
		files, err := readPath(p)
		if err == nil && len(files) == 0 {
			err = errors.New("the folder has no *.yaml or *.yml")
		}
		if err != nil {
			problems = append(problems, strictyaml.Problem{File: p, Check: "read", Message: "read: " + err.Error(), Fix: readFix(err)})
		}
		for _, f := range files {
			if seen[filepath.Clean(f.Name)] {
				continue
			}
			seen[filepath.Clean(f.Name)] = true
			total += len(f.Data)
			out = append(out, f)
		}
		if total > maxTotal {
			return nil, append(problems, strictyaml.Problem{File: p, Check: "too-large", Message: tooMuch().Error(), Fix: "load fewer packs"})
		}
	}
	return out, problems
}

func readFix(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the path"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that runs crowsnest read it"
	}
	return "name a pack, or a folder with packs"
}

func tooMuch() error {
	return fmt.Errorf("the rule files together have more than %d MiB", maxTotal>>20)
}

func readPath(name string) ([]File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, unwrapPath(err)
	}
	r := &reader{}
	if !info.IsDir() {
		dir, base := filepath.Split(name)
		if dir == "" {
			dir = "."
		}
		if err := r.readFile(os.DirFS(dir), base, info); err != nil {
			return nil, err
		}
		r.files[0].Name = name
		return r.files, nil
	}
	root := name
	// The kubelet replaces this symbolic link to update a ConfigMap mount, so the link is resolved once.
	if data, err := filepath.EvalSymlinks(filepath.Join(name, "..data")); err == nil {
		root = data
	}
	if err := r.readFolder(os.DirFS(root), ".", nil); err != nil {
		return nil, err
	}
	for i := range r.files {
		r.files[i].Name = filepath.Join(name, filepath.FromSlash(r.files[i].Name))
	}
	return r.files, nil
}

// readFolder reads a folder. above are the folders that contain it. It skips a link to one of these folders.
func (r *reader) readFolder(fsys fs.FS, name string, above []fs.FileInfo) error {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return fileError(name, err)
	}
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
		return nil
	}
	if len(above) >= maxFolders {
		return fmt.Errorf("read %s: folders are nested more than %d deep", name, maxFolders)
	}
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return fileError(name, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := r.readEntry(fsys, path.Join(name, e.Name()), append(above[:len(above):len(above)], info)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readEntry(fsys fs.FS, name string, above []fs.FileInfo) error {
	yaml := strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
	info, err := fs.Stat(fsys, name) // Stat follows links
	switch {
	case err != nil && !yaml:
		return nil
	case err != nil:
		return fileError(name, err)
	case info.IsDir():
		return r.readFolder(fsys, name, above)
	case !yaml:
		return nil
	}
	return r.readFile(fsys, name, info)
}

func (r *reader) readFile(fsys fs.FS, name string, info fs.FileInfo) error {
	// Reading a named pipe or a device would block.
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return fileError(name, err)
	}
	defer f.Close() //nolint:errcheck // closing a file that was only read cannot lose data
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return fileError(name, err)
	}
	if r.total += len(data); r.total > maxTotal {
		return tooMuch()
	}
	r.files = append(r.files, File{Name: name, Data: data})
	return nil
}

func fileError(name string, err error) error { return fmt.Errorf("read %s: %w", name, unwrapPath(err)) }

// unwrapPath removes the file name from an error of the operating system.
func unwrapPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
