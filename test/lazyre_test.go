package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every expression that is compiled at its first use can be compiled.
func TestLazyExpressions(t *testing.T) {
	checked := 0
	var computed []string
	seen := map[string]bool{}
	for _, i := range imports(t) {
		if i.path != module+"internal/lazyre" || seen[i.file] {
			continue
		}
		seen[i.file] = true
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", i.file), nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isNew(call) {
				return true
			}
			text, constant := call.Args[0].(*ast.BasicLit)
			if !constant {
				computed = append(computed, i.file)
				return true
			}
			expr, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			_, err = regexp.Compile(expr)
			require.NoError(t, err, i.file)
			checked++
			return true
		})
	}
	require.Greater(t, checked, 50)
	require.Empty(t, computed, "an expression that is computed is not checked here")
}

func isNew(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "New" {
		return false
	}
	in, ok := f.X.(*ast.Ident)
	return ok && in.Name == "lazyre"
}
