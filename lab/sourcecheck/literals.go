package sourcecheck

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// anything is the placeholder in a literal for a value that the program inserts: that of a verb
// such as %s, or of a variable between joined texts.
const anything = "\x00"

// literal is a string literal in a source.
type literal struct {
	text string // text with a placeholder for each value
	file string
	line int
	// failure reports whether the text is that of a log call of level error, or wraps an error.
	failure bool
}

var (
	verb        = regexp.MustCompile(`%[-+#0]*(\*|\d+)?(\.(\*|\d+)?)?(\[\d+\])?(l|ll|h|z)?[a-zA-Z]`)
	placeholder = regexp.MustCompile(`\$\{[^}]*\}|\$\([^)]*\)|\$\w+|\{\{.*?\}\}|\{[^{} ]*\}`)
	quoted      = regexp.MustCompile(`"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.){3,})'`)
	word        = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9_-]*`)
)

// withoutVerbs replaces format verbs by placeholders.
func withoutVerbs(text string) string {
	text = strings.ReplaceAll(text, "%%", "\x02")
	return strings.ReplaceAll(verb.ReplaceAllString(text, anything), "\x02", "%")
}

// addFile adds the literals of a file. The extension of name determines the language.
func (x *index) addFile(name string, data []byte) {
	x.addLiteral(literal{text: path.Base(name), file: name, line: 1}) // klog writes the name of the file
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

// addLines adds the lines of a script or YAML file, in which texts need no quotes.
func (x *index) addLines(name, data string) {
	for i, line := range strings.Split(data, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			line = strings.NewReplacer(`\"`, `"`, `"`, "", `'`, "").Replace(line)
			x.addLiteral(literal{text: placeholder.ReplaceAllString(withoutVerbs(line), anything), file: name, line: i + 1})
		}
	}
}

// addQuoted adds texts in quotes. It joins two texts with only white space or the name of a
// macro between them.
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

// addGo adds the string literals of a Go file. It joins literals with + between them.
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

// literalText returns the text of a literal or of joined literals. The second result is false
// if e is neither.
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

// failureText returns the argument of a call that is the text of a log line of level error or
// of a wrapped error; nil for other calls.
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
