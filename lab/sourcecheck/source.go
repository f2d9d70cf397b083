package sourcecheck

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crowsnest/rules/components"
)

// Tree is the source code of a component: a folder, or a revision in a Git repository.
type Tree struct {
	Dir string
	// Revision is a tag, branch or commit of the Git repository in Dir. If it is "", the files
	// in Dir are read.
	Revision string
}

// maxFileBytes is the maximum size of files that are read. Larger files are generated code.
const maxFileBytes = 4 << 20

// otherFolders matches folders whose texts a running component does not log, such as tests.
var otherFolders = regexp.MustCompile(`(^|/)(\.git|\.github|vendor|third_party|node_modules|test|tests|testing|testdata|e2e|testutils?|hack|examples?|docs?|mocks?|fakes?|crds?|contrib|benchmarks?|CHANGELOG)/`)

var otherFiles = regexp.MustCompile(`(_test\.go|\.pb(\.gw)?\.go|/zz_generated[^/]*|/bindata\.go|_mock\.go)$`)

// readFiles calls use with each file of a tree that may contain texts of c. The files are ordered by name.
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
		data, err := os.ReadFile(file) //nolint:gosec // a person checks out the tree and runs the command
		if err == nil {
			use(name, data)
		}
		return err
	})
}

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
	return exec.Command("git", append([]string{"-C", t.Dir}, args...)...) //nolint:noctx // git ends with the command
}

// componentPaths returns the folders of the component in the tree. It returns none if the whole tree must be read,
// because the component has no paths or the repository is a library.
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

// anything is a placeholder in a literal for a value that the program inserts at run time, by a verb such as %s or by a
// variable between joined strings.
const anything = "\x00"

type literal struct {
	text string // text in which anything stands for each value
	file string
	line int
	// failure reports whether the text belongs to a log call with level error, or wraps an error.
	failure bool
}

var (
	verb        = regexp.MustCompile(`%[-+#0]*(\*|\d+)?(\.(\*|\d+)?)?(\[\d+\])?(l|ll|h|z)?[a-zA-Z]`)
	placeholder = regexp.MustCompile(`\$\{[^}]*\}|\$\([^)]*\)|\$\w+|\{\{.*?\}\}|\{[^{} ]*\}`)
	quoted      = regexp.MustCompile(`"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.){3,})'`)
	word        = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9_-]*`)
)

func withoutVerbs(text string) string {
	text = strings.ReplaceAll(text, "%%", "\x02")
	return strings.ReplaceAll(verb.ReplaceAllString(text, anything), "\x02", "%")
}

// addFile adds the literals of a file. The extension of name determines the programming language.
func (x *index) addFile(name string, data []byte) {
	x.addLiteral(literal{text: path.Base(name), file: name, line: 1}) // added, because klog logs the name of the source file
	switch ext := path.Ext(name); {
	case ext == ".go":
		x.addGo(name, data)
	case ext == ".c" || ext == ".h" || ext == ".cc" || ext == ".cpp" || ext == ".rs" || ext == ".py":
		x.addQuoted(name, string(data))
	case ext == ".sh" || ext == ".yaml" || ext == ".yml" || ext == ".tpl" || ext == ".tmpl" || ext == "" && bytes.HasPrefix(data, []byte("#!")):
		if !bytes.Contains(data, []byte("kind: CustomResourceDefinition")) {
			x.addLines(name, string(data))
		}
	}
}

func (x *index) addLines(name, data string) {
	for i, line := range strings.Split(data, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			line = strings.NewReplacer(`\"`, `"`, `"`, "", `'`, "").Replace(line)
			x.addLiteral(literal{text: placeholder.ReplaceAllString(withoutVerbs(line), anything), file: name, line: i + 1})
		}
	}
}

// addQuoted adds all quoted strings. It joins two strings that are separated only by white space or the name of a
// macro.
func (x *index) addQuoted(name, data string) {
	var now literal
	end := 0
	for _, at := range quoted.FindAllStringSubmatchIndex(data, -1) {
		from, to := at[2], at[3]
		if from < 0 {
			from, to = at[4], at[5]
		}
		text := strings.NewReplacer(`\"`, `"`, `\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(data[from:to])
		text = placeholder.ReplaceAllString(withoutVerbs(text), anything)
		between := strings.TrimSpace(data[end:at[0]])
		if now.file != "" && (between == "" || macro.MatchString(between)) {
			now.text += strings.Repeat(anything, min(len(between), 1)) + text
		} else {
			x.addLiteral(now)
			now = literal{text: text, file: name, line: 1 + strings.Count(data[:at[0]], "\n")}
		}
		end = at[1]
	}
	x.addLiteral(now)
	for _, w := range word.FindAllString(data, -1) {
		x.words[w] = true
	}
}

var macro = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]*$`)

// addGo adds the string literals of a Go file. It joins literals that are connected by +.
func (x *index) addGo(name string, data []byte) {
	files := token.NewFileSet()
	file, _ := parser.ParseFile(files, name, data, parser.SkipObjectResolution)
	if file == nil {
		return
	}
	failures := map[ast.Expr]bool{}
	add := func(e ast.Expr) bool {
		text, ok := literalText(e)
		if ok {
			x.addLiteral(literal{text: withoutVerbs(text), file: name, line: files.Position(e.Pos()).Line, failure: failures[e]})
		}
		return ok
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.Ident:
			x.words[n.Name] = true
		case *ast.CallExpr:
			if e := failureText(n); e != nil {
				failures[e] = true
			}
		case *ast.BinaryExpr:
			if n.Op == token.ADD && add(n) {
				addWords(x.words, n)
				return false
			}
		case *ast.BasicLit:
			add(n)
		}
		return true
	})
}

func addWords(words map[string]bool, e ast.Expr) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			words[id.Name] = true
		}
		return true
	})
}

// literalText returns the text of a string literal, or of joined literals. ok is false for other expressions.
func literalText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.ParenExpr:
		return literalText(e.X)
	case *ast.BinaryExpr:
		left, l := literalText(e.X)
		right, r := literalText(e.Y)
		if !l {
			left = anything
		}
		if !r {
			right = anything
		}
		return left + right, (l || r) && e.Op == token.ADD
	}
	return "", false
}

var failureCall = regexp.MustCompile(`^(Error|Fatal)(f|ln|S|w|Depth|Context)?$|^Wrapf?$`)

// failureText returns the argument of a call that is the text of an error log line or of a wrapped error. It returns
// nil for other calls.
func failureText(call *ast.CallExpr) ast.Expr {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !failureCall.MatchString(f.Sel.Name) {
		return nil
	}
	pkg, _ := f.X.(*ast.Ident)
	if pkg != nil && (pkg.Name == "http" || pkg.Name == "status") {
		return nil
	}
	for _, arg := range call.Args {
		if text, ok := literalText(arg); ok {
			if pkg != nil && pkg.Name == "fmt" && !strings.Contains(text, "%w") {
				return nil
			}
			return arg
		}
	}
	return nil
}
