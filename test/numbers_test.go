package test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// units are the units in which documents state values. Durations are in nanoseconds.
var units = map[string]int64{
	"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "60": 60, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 24 * 3600e9,
}

// numberWords are the words that documents write in place of digits.
var numberWords = map[string]string{"2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "10": "ten", "30": "thirty"}

// TestNumbersInDocs: limits, defaults and times in the documents are those of the program and the
// chart. A line of testdata/numbers.txt is a sentence of a document with references in braces: a
// constant of a package, a key of a literal or a field with a default there, or FILE#KEY of a YAML file, and the unit.
func TestNumbersInDocs(t *testing.T) {
	list, err := os.ReadFile("testdata/numbers.txt")
	require.NoError(t, err)
	reference := regexp.MustCompile(`\{([^} ]+) ?(\w*)\}`)
	packages := packageConstants{}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		doc, sentence, _ := strings.Cut(line, ": ")
		text, err := os.ReadFile(filepath.Join("..", doc))
		require.NoError(t, err)
		references := reference.FindAllStringSubmatchIndex(sentence, -1)
		require.NotEmpty(t, references, line)
		pattern, from := "", 0
		for _, m := range references {
			digits := ""
			if file, key, ok := strings.Cut(sentence[m[2]:m[3]], "#"); ok {
				digits = keyOfFile(t, file, strings.Split(key, "."))
			} else {
				digits = packages.number(t, sentence[m[2]:m[3]], sentence[m[4]:m[5]])
			}
			digits = regexp.QuoteMeta(digits)
			pattern += regexp.QuoteMeta(sentence[from:m[0]]) + "(?:" + digits + "|" + cmp.Or(numberWords[digits], digits) + ")"
			from = m[1]
		}
		assert.Regexp(t, pattern+regexp.QuoteMeta(sentence[from:]), strings.Join(strings.Fields(string(text)), " "), line)
	}
}

// keyOfFile returns the value of a key of a YAML file. Memory has no unit, and a list reads "1, 2 and 3".
func keyOfFile(t *testing.T, file string, keys []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	require.NoError(t, err)
	var value any
	require.NoError(t, yaml.Unmarshal(text, &value))
	for _, key := range keys {
		if i, err := strconv.Atoi(key); err == nil {
			value = value.([]any)[i]
		} else {
			value = value.(map[string]any)[key]
		}
	}
	require.NotNil(t, value, "%s has no %v", file, keys)
	all := strings.Fields(strings.Trim(strings.TrimSuffix(fmt.Sprint(value), "Mi"), "[]"))
	return regexp.MustCompile(", (\\w+)$").ReplaceAllString(strings.Join(all, ", "), " and $1")
}

// packageConstants are the constants of each package by name, and those that are values of literals by key or the
// defaults of fields, as in cmp.Or(c.Interval, time.Minute).
type packageConstants map[string]map[string]constant.Value

// number returns the value of a constant, which reads PACKAGE.NAME, as documents write it.
func (c packageConstants) number(t *testing.T, name, unit string) string {
	t.Helper()
	dot := strings.LastIndex(name, ".")
	dir := name[:dot]
	if c[dir] == nil {
		c[dir] = constantsOf(t, dir)
	}
	value := c[dir][name[dot+1:]]
	require.NotNil(t, value, name)
	require.Contains(t, units, unit, name)
	if value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	quotient, _ := constant.Float64Val(constant.BinaryOp(constant.ToFloat(value), token.QUO, constant.MakeInt64(units[unit])))
	digits := strconv.FormatFloat(quotient, 'f', -1, 64)
	return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(digits, "$1,$2")
}

func constantsOf(t *testing.T, dir string) map[string]constant.Value {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(fset, name, nil, 0)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	pkg, _ := (&types.Config{Importer: onlyDurations{}, Error: func(error) {}}).Check(dir, fset, files, &info)
	found := map[string]constant.Value{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok && info.Types[kv.Value].Value != nil {
				found[fmt.Sprint(kv.Key)] = info.Types[kv.Value].Value
			}
			if or, ok := n.(*ast.CallExpr); ok && types.ExprString(or.Fun) == "cmp.Or" && len(or.Args) == 2 && info.Types[or.Args[1]].Value != nil {
				_, field, _ := strings.Cut(types.ExprString(or.Args[0]), ".")
				found[field] = info.Types[or.Args[1]].Value
			}
			return true
		})
	}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
			found[name] = c.Val()
		}
	}
	return found
}

// onlyDurations imports a package time with the units of durations, and no other package.
type onlyDurations struct{}

func (onlyDurations) Import(path string) (*types.Package, error) {
	if path != "time" {
		return nil, fmt.Errorf("%s is not needed", path)
	}
	p := types.NewPackage(path, path)
	for unit, value := range map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9} {
		p.Scope().Insert(types.NewConst(token.NoPos, p, unit, types.Typ[types.UntypedInt], constant.MakeInt64(value)))
	}
	p.MarkComplete()
	return p, nil
}
