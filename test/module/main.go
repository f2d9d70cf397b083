// Command module gives this repository a module path and with it an owner: it rewrites
// module files, imports, links and the name of the image. Without an owner these are
// placeholders. It can be repeated with another path.
//
//	go run ./test/module github.com/owner/crowsnest
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make module PATH=github.com/owner/crowsnest")
		os.Exit(2)
	}
	changed, err := set(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "set the module path:", err)
		os.Exit(1)
	}
	fmt.Printf("%d files changed, now %s\n", changed, os.Args[1])
}

// names are the forms in which files name this repository.
type names struct{ module, repository, image, owner string }

// slug is OWNER/REPOSITORY.
func (n names) slug() string { return strings.TrimPrefix(n.repository, "github.com/") }

// unset are the placeholders before the first run.
func unset(module string) names {
	const owner = "OWNER"
	return names{module: module, repository: "github.com/" + owner + "/crowsnest", image: "registry.example.org" + "/crowsnest", owner: owner}
}

var modulePath = regexp.MustCompile(`^github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)/([A-Za-z0-9][A-Za-z0-9_.-]*)$`)

// parse returns the names that belong to a module path.
func parse(path string) (names, error) {
	m := modulePath.FindStringSubmatch(path)
	if m == nil {
		return names{}, fmt.Errorf("%q is not github.com/OWNER/REPOSITORY: workflows, releases and the image need a repository on GitHub", path)
	}
	return names{module: path, repository: path, image: strings.ToLower("ghcr.io/" + m[1] + "/" + m[2]), owner: m[1]}, nil
}

// set rewrites the files in root and returns how many it changed. After an error some
// files may be rewritten; git restores them.
func set(root, path string) (int, error) {
	to, err := parse(path)
	if err != nil {
		return 0, err
	}
	from, err := current(root)
	if err != nil {
		return 0, err
	}
	files, err := list(root)
	if err != nil {
		return 0, err
	}
	changed := 0
	for _, name := range files {
		did, err := rewrite(root, name, from, to)
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		if did {
			changed++
		}
	}
	return changed, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// current returns the names in force.
func current(root string) (names, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return names{}, err
	}
	m := moduleLine.FindSubmatch(data)
	if m == nil {
		return names{}, errors.New("go.mod has no module line")
	}
	if n, err := parse(string(m[1])); err == nil {
		return n, nil
	}
	return unset(string(m[1])), nil
}

// list returns the files that git knows or would add.
func list(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-zco", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files with git: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

// rewrite rewrites one file and reports whether that changed it.
func rewrite(root, name string, from, to names) (bool, error) {
	path := filepath.Join(root, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil // deleted, or a link
	}
	if err != nil {
		return false, err
	}
	old, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(old, 0) >= 0 {
		return false, err
	}
	data := replaceName(old, from.repository, to.repository, `[^\w-]`)
	data = replaceName(data, from.image, to.image, `[^\w/-]`) // what is below the image, such as packs, is an example
	for _, before := range []string{"uses: ", "--repo "} {
		data = replaceName(data, before+from.slug(), before+to.slug(), `[^\w-]`)
	}
	switch {
	case filepath.Base(name) == "CODEOWNERS":
		data = replaceName(data, "@"+from.owner, "@"+to.owner, `[^\w/-]`)
	case filepath.Base(name) == "go.mod":
		data = regexp.MustCompile(`(?m)^module `+regexp.QuoteMeta(from.module)+`(/\S+)?$`).ReplaceAll(data, []byte("module "+to.module+"$1"))
	case filepath.Ext(name) == ".go":
		data, err = rewriteGo(root, data, from.module, to.module)
	case name == "testdata/bench/baseline.txt":
		data = bytes.ReplaceAll(data, []byte("\npkg: "+from.module+"/"), []byte("\npkg: "+to.module+"/"))
	}
	if err != nil || bytes.Equal(old, data) {
		return false, err
	}
	return true, os.WriteFile(path, data, info.Mode().Perm())
}

// replaceName replaces a name where it is not part of a longer one: where after, a
// regular expression, matches the character after it.
func replaceName(data []byte, from, to, after string) []byte {
	if !bytes.Contains(data, []byte(from)) {
		return data // nearly all files
	}
	whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(from) + `($|` + after + `)`)
	// A match includes the character after it, which may start the next match.
	for range 2 {
		data = whole.ReplaceAll(data, []byte("${1}"+to+"${2}"))
	}
	return data
}

// rewriteGo rewrites imports, and other strings that name a package of the module.
func rewriteGo(root string, src []byte, from, to string) ([]byte, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return src, nil //nolint:nilerr // an example of broken Go
	}
	imports := map[*ast.BasicLit]bool{}
	for _, spec := range f.Imports {
		imports[spec.Path] = true
	}
	var out []byte
	done := 0
	for lit := range ast.Preorder(f) {
		lit, ok := lit.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(lit.Value)
		rest, ours := strings.CutPrefix(value, from+"/")
		if err != nil || !(ours && isPackage(filepath.Join(root, rest)) || imports[lit] && value == from) {
			continue
		}
		at := files.Position(lit.Pos()).Offset
		out = append(append(out, src[done:at]...), strconv.Quote(to+strings.TrimPrefix(value, from))...)
		done = at + len(lit.Value)
	}
	if done == 0 {
		return src, nil
	}
	return format.Source(append(out, src[done:]...))
}

func isPackage(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(files) > 0
}
