// Package rulefiles reads the files of rules from folders and file systems. It does not know
// what is in them.
package rulefiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/strictyaml"
)

// Limits of the files that are read.
const (
	MaxBytes   = 1 << 20 // size of one file
	maxTotal   = 8 << 20 // bytes of all files
	maxFolders = 16      // depth of nested folders
)

// File is the content of one file.
type File struct {
	Name string // name that messages mention
	Data []byte
	// Released is set for a pack that is part of the program: rules.Parse does not lint its
	// rules, because the lint found nothing before the release.
	Released bool `json:"-"`
	// Compiled is the name of a pack that is part of the program. rules.Parse then uses what
	// was compiled from it, and File has no Data; see rules.ShippedWithoutTests.
	Compiled string `json:"-"`
	// WithoutTests lets rules.Parse omit the tests of a pack in the form of the shipped ones.
	WithoutTests bool `json:"-"`
}

// reader reads rule files up to the limits.
type reader struct {
	files []File
	total int
}

// ReadFS reads every *.yaml and *.yml of fsys and its folders, sorted by name. It
// skips names that start with a dot, such as the second copy of the files that a
// ConfigMap mount has in `..data`. It reads at most one byte more than
// MaxBytes of a file; rules.Parse refuses such a file.
func ReadFS(fsys fs.FS) ([]File, error) {
	r := &reader{}
	if err := r.folder(fsys, ".", nil); err != nil {
		return nil, err
	}
	return r.files, nil
}

// ReadPaths does the same for files and folders of the operating system. It reads
// a file in paths under any name. All files of a ConfigMap mount are of one
// version, even if the kubelet updates the mount meanwhile.
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
		if err := r.file(os.DirFS(dir), base, info); err != nil {
			return nil, err
		}
		r.files[0].Name = name
		return r.files, nil
	}
	root := name
	// The kubelet replaces this link to update a ConfigMap mount, so resolve it once.
	if data, err := filepath.EvalSymlinks(filepath.Join(name, "..data")); err == nil {
		root = data
	}
	if err := r.folder(os.DirFS(root), ".", nil); err != nil {
		return nil, err
	}
	for i := range r.files {
		r.files[i].Name = filepath.Join(name, filepath.FromSlash(r.files[i].Name))
	}
	return r.files, nil
}

// folder reads a folder. above are its parents: a link to one of them is skipped.
func (r *reader) folder(fsys fs.FS, name string, above []fs.FileInfo) error {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return failed(name, err)
	}
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
		return nil
	}
	if len(above) >= maxFolders {
		return fmt.Errorf("read %s: folders are nested more than %d deep", name, maxFolders)
	}
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return failed(name, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := r.entry(fsys, path.Join(name, e.Name()), append(above[:len(above):len(above)], info)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) entry(fsys fs.FS, name string, above []fs.FileInfo) error {
	yaml := strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
	info, err := fs.Stat(fsys, name) // follows links
	switch {
	case err != nil && !yaml:
		return nil
	case err != nil:
		return failed(name, err)
	case info.IsDir():
		return r.folder(fsys, name, above)
	case !yaml:
		return nil
	}
	return r.file(fsys, name, info)
}

func (r *reader) file(fsys fs.FS, name string, info fs.FileInfo) error {
	// A pipe or a device would block.
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return failed(name, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var data bytes.Buffer
	data.Grow(int(min(info.Size(), MaxBytes)) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, MaxBytes+1)); err != nil {
		return failed(name, err)
	}
	if r.total += data.Len(); r.total > maxTotal {
		return tooMuch()
	}
	r.files = append(r.files, File{Name: name, Data: data.Bytes()})
	return nil
}

// failed names the file that an error is about.
func failed(name string, err error) error { return fmt.Errorf("read %s: %w", name, unwrapPath(err)) }

// unwrapPath removes the file name that the operating system repeats.
func unwrapPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
