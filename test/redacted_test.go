package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTextIsRedacted: no package but redact converts to redact.Text, so text of a log becomes one
// only through a Redactor.
func TestTextIsRedacted(t *testing.T) {
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
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				return true
			}
			if to, _ := call.Fun.(*ast.SelectorExpr); to != nil && to.Sel.Name == "Text" {
				if of, _ := to.X.(*ast.Ident); of != nil && of.Name == "redact" {
					require.Fail(t, "redact.Text is converted to", "%s", files.Position(call.Pos()))
				}
			}
			return true
		})
		return nil
	}))
}
