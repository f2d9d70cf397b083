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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// units are the units in which documents state values. Durations are in nanoseconds. A number is a unit too.
var units = map[string]float64{
	"": 1, "%": 0.01, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 24 * 3600e9,
}

// numberWords are the words that documents write in place of digits.
var numberWords = map[string]string{
	"1": "[Aa]n?|one", "2": "two|half", "3": "three", "4": "four|a quarter", "5": "five|A fifth", "6": "six", "7": "seven", "8": "eight", "10": "ten", "30": "thirty",
}

// TestNumbersInDocs: numbers in the documents are those of the program, its tests, the chart and the rules for
// Prometheus. A line of testdata/numbers.txt is a sentence of a document with references in braces: a constant of a
// package, a key of a literal or a field with a default there, or FILE#KEY, and the unit. KEY is a path in a YAML file,
// and the text before the number in another file. A line without a reference is a sentence whose digits are an example,
// or come from a protocol or another project. No other sentence of the documents has digits.
func TestNumbersInDocs(t *testing.T) {
	list, err := os.ReadFile("testdata/numbers.txt")
	require.NoError(t, err)
	reference := regexp.MustCompile(`\{([^}]+?)(?: ([KMG]iB|ms|[smhd%]|\d+))?\}`)
	packages := packageConstants{}
	docs, rest := map[string]string{}, map[string]string{}
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		doc := strings.TrimPrefix(path, "../")
		docs[doc] = strings.Join(strings.Fields(string(text)), " ")
		rest[doc] = docs[doc]
		if doc == "docs/language.md" { // TestLanguagePage compares the tables of keys
			rest[doc] = strings.Join(strings.Fields(keyRow.ReplaceAllString(string(text), "")), " ")
		}
	}
	for _, other := range []string{"docs/configuration.md", "docs/performance.md", "docs/comparison.md", "CHANGELOG.md", "UPGRADING.md", "RELEASING.md"} {
		delete(rest, other) // generated, measurements, or about releases
	}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		doc, sentence, _ := strings.Cut(line, ": ")
		pattern, from := "", 0
		for _, m := range reference.FindAllStringSubmatchIndex(sentence, -1) {
			name, unit := sentence[m[2]:m[3]], ""
			if m[4] >= 0 {
				unit = sentence[m[4]:m[5]]
			}
			digits := ""
			if file, key, ok := strings.Cut(name, "#"); ok {
				digits = keyOfFile(t, file, key, unit)
			} else {
				digits = packages.number(t, name, unit)
			}
			digits = regexp.QuoteMeta(digits)
			pattern += regexp.QuoteMeta(sentence[from:m[0]]) + "(?:" + digits + "|" + cmp.Or(numberWords[digits], digits) + ")"
			from = m[1]
		}
		pattern += regexp.QuoteMeta(sentence[from:])
		expected := regexp.MustCompile(pattern)
		assert.True(t, expected.MatchString(docs[doc]), "%s\nhas to read %s", line, pattern)
		rest[doc] = expected.ReplaceAllString(rest[doc], "")
	}
	for doc, text := range rest {
		for _, digits := range digitsInText.FindAllString(notText.ReplaceAllString(text, " "), -1) {
			t.Errorf("%s: %q is not in testdata/numbers.txt", doc, digits)
		}
	}
}

var (
	keyRow = regexp.MustCompile("(?m)^\\| `\\w+` \\| .*$")
	// notText matches code, targets of links, elements of HTML, numbers of steps and floors, statuses of HTTP, and names
	// with a digit.
	notText = regexp.MustCompile("```.*?```|`[^`]*`|\\]\\([^)]*\\)|<[^>]*>| \\d\\. |\\| \\d+ \\||\\b(?:200|4\\d\\d|503)\\b|UTF-8|OAuth 2|HTTP/[\\d.]+|OpenAPI [\\d.]+")
	// digitsInText matches digits with the words around them.
	digitsInText = regexp.MustCompile(`(?:\S+ ){0,4}\S*\b\d\S*(?: \S+){0,4}`)
)

// keyOfFile returns the value of a key of a file. Where an expression or a quantity has several numbers, the largest
// counts, and a list reads "1, 2 and 3".
func keyOfFile(t *testing.T, file, key, unit string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	require.NoError(t, err)
	if ext := filepath.Ext(file); ext != ".yaml" && ext != ".yml" || strings.Contains(file, "/templates/") {
		_, rest, found := strings.Cut(string(text), key)
		require.True(t, found, "%s has no %s", file, key)
		text = []byte(regexp.MustCompile(`\d[\d.]*`).FindString(rest))
		key = ""
	}
	var value any
	require.NoError(t, yaml.Unmarshal(text, &value))
	for _, k := range strings.FieldsFunc(key, func(r rune) bool { return r == '.' }) {
		value = member(value, k)
	}
	require.NotNil(t, value, "%s has no %s", file, key)
	if list, ok := value.([]any); ok {
		all := strings.Fields(strings.Trim(fmt.Sprint(list), "[]"))
		return regexp.MustCompile(`, (\w+)$`).ReplaceAllString(strings.Join(all, ", "), " and $1")
	}
	if d, err := time.ParseDuration(fmt.Sprint(value)); err == nil && unit != "" {
		return written(float64(d), unit)
	}
	largest := 0.0
	for _, digits := range regexp.MustCompile(`\d[\d.]*`).FindAllString(fmt.Sprint(value), -1) {
		n, err := strconv.ParseFloat(digits, 64)
		require.NoError(t, err)
		largest = max(largest, n)
	}
	return written(largest, unit)
}

// member returns an element of a map by its key, or of a list by its index or by the name of the element.
func member(of any, key string) any {
	list, ok := of.([]any)
	if !ok {
		m, _ := of.(map[string]any)
		return m[key]
	}
	for i, value := range list {
		m, _ := value.(map[string]any)
		if key == strconv.Itoa(i) || key == m["name"] || key == m["alert"] || key == m["record"] {
			return value
		}
	}
	return nil
}

// written returns the digits of a number in a unit.
func written(n float64, unit string) string {
	size := units[unit]
	if size == 0 {
		size, _ = strconv.ParseFloat(unit, 64)
	}
	return strconv.FormatFloat(n/size, 'f', -1, 64)
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
	if value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	n, _ := constant.Float64Val(constant.ToFloat(value))
	return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(written(n, unit), "$1,$2")
}

// constantsOf returns the constants of a folder, of its tests too. Literals and defaults of tests do not count.
func constantsOf(t *testing.T, dir string) map[string]constant.Value {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	files := map[string][]*ast.File{} // by the name of the package, which may be PACKAGE_test
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, 0)
		require.NoError(t, err)
		files[file.Name.Name] = append(files[file.Name.Name], file)
	}
	found := map[string]constant.Value{}
	for _, of := range files {
		info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		pkg, _ := (&types.Config{Importer: onlyDurations{}, Error: func(error) {}}).Check(dir, fset, of, &info)
		for _, file := range of {
			if !strings.HasSuffix(fset.File(file.Pos()).Name(), "_test.go") {
				addLiterals(found, file, info)
			}
		}
		for _, name := range pkg.Scope().Names() {
			if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
				found[name] = c.Val()
			}
		}
	}
	return found
}

// addLiterals adds the values of literals by key, and the defaults of fields.
func addLiterals(found map[string]constant.Value, file *ast.File, info types.Info) {
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
