package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTextIsRedacted: no package but redact makes a redact.Text of a string, so text of a log
// becomes one only through a Redactor. Ways around are closed, too: another name for the package
// or the type, and type arguments. The label of a stream is no text of a log.
func TestTextIsRedacted(t *testing.T) {
	const labels = "../episodes/internal/intake/intake.go" // the only file that may call redact.Label
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if way := makesText(n); way != "" && !(way == "redact.Label" && path == labels) {
				require.Fail(t, "a redact.Text is made of a string", "%s: %s", files.Position(n.Pos()), way)
			}
			return true
		})
		return nil
	}))
}

// makesText returns how a node can make a redact.Text of any string, or "".
func makesText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.ImportSpec:
		if n.Path.Value == `"crowsnest/redact"` && n.Name != nil {
			return "the package has another name here"
		}
	case *ast.TypeSpec:
		if isRedact(n.Type, "Text") {
			return "the type has another name here"
		}
	case *ast.CallExpr:
		fun := ast.Unparen(n.Fun)
		switch {
		case isRedact(fun, "Text"):
			return "a conversion"
		case isRedact(fun, "Label"):
			return "redact.Label"
		}
		f, ok := fun.(*ast.IndexExpr)
		if ok && isRedact(f.Index, "Text") {
			return "a type argument"
		}
		if f, ok := fun.(*ast.IndexListExpr); ok && slices.ContainsFunc(f.Indices, func(x ast.Expr) bool { return isRedact(x, "Text") }) {
			if of, _ := f.X.(*ast.SelectorExpr); of == nil || of.Sel.Name != "NewLRU" { // a cache keeps texts
				return "a type argument"
			}
		}
	}
	return ""
}

// isRedact reports whether an expression is a name of the package redact.
func isRedact(x ast.Expr, name string) bool {
	of, _ := x.(*ast.SelectorExpr)
	if of == nil || of.Sel.Name != name {
		return false
	}
	pkg, _ := of.X.(*ast.Ident)
	return pkg != nil && pkg.Name == "redact"
}

// TestWaysToMakeText: each way around a Redactor is seen.
func TestWaysToMakeText(t *testing.T) {
	for _, body := range []string{
		`import x "crowsnest/redact"`, `type Mine redact.Text`, `type Mine = redact.Text`,
		`var a = redact.Text(raw)`, `var a = (redact.Text)(raw)`, `var a = redact.Label(raw)`,
		`var a = convert[redact.Text](raw)`, `var a = convert[string, redact.Text](raw)`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+body, 0)
		require.NoError(t, err)
		found := ""
		ast.Inspect(f, func(n ast.Node) bool {
			found += makesText(n)
			return true
		})
		require.NotEmpty(t, found, body)
	}
}
