package cli

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
)

func TestGitHub(t *testing.T) {
	f := func(in strictyaml.Problem, want string) {
		t.Helper()
		var b bytes.Buffer
		require.NoError(t, writeGitHub(&b, strictyaml.Problems{in}))
		require.Equal(t, want+"\n", b.String())
	}
	f(strictyaml.Problem{File: "a.yaml", Line: 5, Column: 11, Check: "unknown-key", Message: "unknown key `x`", Fix: "remove it"},
		"::error file=a.yaml,line=5,col=11,title=unknown-key::unknown key `x`%0Afix: remove it")
	f(strictyaml.Problem{File: "a.yaml", Level: strictyaml.Warning, Check: "c", Message: "m"}, "::warning file=a.yaml,line=1,col=1,title=c::m")
	f(strictyaml.Problem{Message: "m"}, "::error title=crowsnest::m")
	// No text can end its command or start another one.
	f(strictyaml.Problem{File: "a,line=9::x\n.yaml", Line: 1, Check: "a:b,c", Message: "100%\r\n::error::x\n::add-mask::y\x1b[31m\u202e"},
		"::error file=a%2Cline=9%3A%3Ax%0A.yaml,line=1,col=1,title=a%3Ab%2Cc::100%25 %0A::error::x%0A::add-mask::y")
	f(strictyaml.Problem{Check: "c", Message: "%0A::error::x"}, "::error title=c::%250A::error::x")
}

func FuzzGitHub(f *testing.F) {
	f.Add("a.yaml", "m\n::error::x")
	f.Add("%0A", "%0D%0A::set-output name=x::y\r")
	f.Fuzz(func(t *testing.T, file, message string) {
		var b bytes.Buffer
		require.NoError(t, writeGitHub(&b, strictyaml.Problems{{File: file, Check: file, Message: message, Fix: file}}))
		require.Equal(t, 1, strings.Count(b.String(), "\n"))
		require.NotContains(t, b.String(), "\r")
	})
}

// Every check in the source has a help text, with the levels at which it is
// reported. Few functions take a check id; the test knows their names and which
// argument it is.
func TestHelpIsComplete(t *testing.T) {
	at := map[string]int{"addError": 1, "addWarning": 1, "Problem": 1, "report": 1, "reportMissing": 1, "newProblem": 2, "addInvalid": 2, "fileProblem": 0, "Error": 0, "Errorf": 0, "addProblem": -1, "add": -1}
	found := map[string]map[string]bool{}
	note := func(in ast.Node, e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			id, err := strconv.Unquote(l.Value)
			require.NoError(t, err)
			if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz-") == "" {
				if found[id] == nil {
					found[id] = map[string]bool{}
				}
				found[id][levelIn(in)] = true
			}
		}
	}
	for _, dir := range []string{"rules", "internal/strictyaml", "internal/httpconfig", "daemon/config", "daemon/loader", "replay", "cli"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.CompositeLit:
					for _, e := range x.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							if k, ok := kv.Key.(*ast.Ident); ok && k.Name == "Check" {
								note(x, kv.Value)
							}
						}
					}
				case *ast.CallExpr:
					name := ""
					switch f := x.Fun.(type) {
					case *ast.SelectorExpr:
						name = f.Sel.Name
					case *ast.Ident:
						name = f.Name
					}
					switch i, ok := at[name]; {
					case !ok || len(x.Args) < 3:
					case i >= 0 && i < len(x.Args):
						note(x, x.Args[i])
					case i < 0 && len(x.Args) < 5: // the id is first or second
						note(x, x.Args[0])
						note(x, x.Args[1])
					}
				}
				return true
			})
		}
	}
	delete(found, "logs") // a group of commands
	delete(found, "pack") // where a label comes from, as the next one
	delete(found, "defaults")
	require.Greater(t, len(found), 60)
	known := map[string]string{} // levels
	page, err := os.ReadFile("../docs/language.md")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(page), "\n## Findings\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)`(?: \\(([a-z ]+)\\))? \\| (.*) \\|$").FindAllStringSubmatch(list, -1) {
		id := row[1]
		require.NotContains(t, known, id, "twice")
		known[id] = cmp.Or(row[2], "error")
		require.True(t, strings.HasSuffix(row[3], "."), id)
		if !slices.Contains([]string{testFailed, unprotected}, id) {
			require.Contains(t, found, id, "nothing reports this check any more")
		}
	}
	for id, levels := range found {
		require.Contains(t, known, id, "describe this check in docs/language.md")
		assert.Equal(t, strings.Join(slices.Sorted(maps.Keys(levels)), " or "), known[id], id)
	}
}

// levelIn returns the level of a problem that a call or a literal creates.
func levelIn(n ast.Node) string {
	level := "error"
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && (id.Name == "addWarning" || id.Name == "Warning") {
			level = "warning"
		}
		return true
	})
	return level
}
