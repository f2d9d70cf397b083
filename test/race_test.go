package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Makefile runs the packages of SERIAL without the race detector, but for tests with
// Concurrent in their names. That misses nothing as long as these packages start no
// goroutines, and their tests do so only under such names. Scans of package replay call
// their inputs from goroutines, so that a package whose tests scan needs such a test too.
func TestSerialPackagesStartNoGoroutines(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^SERIAL := (.*)$`).FindSubmatch(makefile)
	require.NotNil(t, line)
	serial := regexp.MustCompile(strings.ReplaceAll(string(line[1]), "$$", "$"))
	files, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	for _, depth := range []string{"*/*", "*/*/*", "*/*/*/*"} {
		more, err := filepath.Glob("../" + depth + "/*.go")
		require.NoError(t, err)
		files = append(files, more...)
	}
	scans, concurrent := map[string]bool{}, map[string]bool{} // folders
	seen := 0
	for _, file := range files {
		if !serial.MatchString("./" + filepath.Dir(strings.TrimPrefix(file, "../"))) {
			continue
		}
		seen++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			if strings.HasSuffix(spec.Path.Value, `/replay"`) {
				scans[filepath.Dir(file)] = true
			}
			if regexp.MustCompile(`"(net/http/httptest|testing/synctest)"`).MatchString(spec.Path.Value) {
				require.Fail(t, "concurrent", "%s imports %s, which starts goroutines: remove its package from SERIAL in the Makefile", file, spec.Path.Value)
			}
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			named := ok && strings.HasSuffix(file, "_test.go") && strings.HasPrefix(f.Name.Name, "Test") && strings.Contains(f.Name.Name, "Concurrent")
			if named {
				concurrent[filepath.Dir(file)] = true
			}
			if ok && startsGoroutine(f) && !named {
				require.Fail(t, "concurrent", "%s starts a goroutine in %s: call a test Test...Concurrent..., or remove the package from SERIAL in the Makefile", file, f.Name.Name)
			}
		}
	}
	require.Greater(t, seen, 100)
	for folder := range scans {
		require.Contains(t, concurrent, folder, "%s scans logs in goroutines: call a test Test...Concurrent..., or remove the package from SERIAL in the Makefile", folder)
	}
}

// startsGoroutine reports whether a function has a go statement, or calls a method Go.
func startsGoroutine(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
				found = true
			}
		}
		return true
	})
	return found
}
