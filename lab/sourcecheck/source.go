package sourcecheck

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"crowsnest/rules/components"
)

// Tree is a checkout of a repository, or a revision in a Git repository.
type Tree struct {
	Dir string
	// Revision is a tag, branch or commit of the Git repository in Dir. If it is "", the files
	// in Dir are read.
	Revision string
}

// maxFileBytes is the maximum size of files that are read. Larger files are generated.
const maxFileBytes = 4 << 20

// otherFolders match folders without texts of a running component.
var otherFolders = regexp.MustCompile(`(^|/)(\.git|\.github|vendor|third_party|node_modules|test|tests|testing|testdata|e2e|testutils?|hack|examples?|docs?|mocks?|fakes?|crds?|contrib|benchmarks?|CHANGELOG)/`)

// otherFiles match tests and generated files.
var otherFiles = regexp.MustCompile(`(_test\.go|\.pb(\.gw)?\.go|/zz_generated[^/]*|/bindata\.go|_mock\.go)$`)

// readFiles calls use with each file of a tree that may contain texts of c, in the order of
// names.
func (t Tree) readFiles(c components.Component, use func(name string, data []byte)) error {
	paths, err := t.componentPaths(c)
	if err != nil {
		return err
	}
	wanted := func(name string) bool {
		inside := len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
		return inside && !otherFolders.MatchString(name) && !otherFiles.MatchString("/"+name)
	}
	if t.Revision != "" {
		return t.readArchive(wanted, use)
	}
	return filepath.WalkDir(t.Dir, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(t.Dir, file)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && otherFolders.MatchString(name+"/"):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !wanted(name):
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > maxFileBytes {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil {
			use(name, data)
		}
		return err
	})
}

// readArchive calls use with the wanted files of a revision.
func (t Tree) readArchive(wanted func(string) bool, use func(string, []byte)) error {
	cmd := t.gitCommand("archive", "--format=tar", t.Revision, ".", ":(exclude,glob)**/vendor/**", ":(exclude,glob)**/third_party/**")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("read %s of %s: %w", t.Revision, t.Dir, err)
	}
	files := tar.NewReader(out)
	for {
		h, err := files.Next()
		if err != nil {
			_, _ = io.Copy(io.Discard, out)
			if failed := cmd.Wait(); failed != nil || !errors.Is(err, io.EOF) {
				return fmt.Errorf("read %s of %s: %s", t.Revision, t.Dir, strings.TrimSpace(stderr.String()+" "+err.Error()))
			}
			return nil
		}
		if h.Typeflag == tar.TypeReg && h.Size <= maxFileBytes && wanted(h.Name) {
			data, _ := io.ReadAll(files) // the next call of Next returns the error
			use(h.Name, data)
		}
	}
}

func (t Tree) gitCommand(args ...string) *exec.Cmd {
	return exec.Command("git", append([]string{"-C", t.Dir}, args...)...)
}

// componentPaths returns the folders of the component that the tree contains. It returns none
// if the whole tree is to be read, because the component has no paths, or because the
// repository is a library.
func (t Tree) componentPaths(c components.Component) ([]string, error) {
	var found, repos []string
	for _, s := range c.Sources {
		repos = append(repos, s.Repo)
		for _, p := range s.Paths {
			if t.hasFile(p) {
				found = append(found, path.Clean(p))
			}
		}
	}
	if !t.hasFile(".") {
		return nil, fmt.Errorf("%s: there is no such folder or revision; it must be a checkout of %s", t.name(), strings.Join(repos, " or "))
	}
	return found, nil
}

func (t Tree) hasFile(name string) bool {
	if t.Revision != "" {
		return t.gitCommand("cat-file", "-e", t.Revision+":"+strings.TrimPrefix(name, ".")).Run() == nil
	}
	_, err := os.Stat(filepath.Join(t.Dir, name))
	return err == nil
}

func (t Tree) name() string { return strings.TrimSuffix(t.Dir+"@"+t.Revision, "@") }
