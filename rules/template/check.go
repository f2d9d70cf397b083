package template

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"crowsnest/internal/lazyre"
	"crowsnest/rules/internal/expr"
)

// preamble declares the same variables as Prometheus. It also declares $show, which receives the values of pipelines. A
// template cannot use the name $show itself.
const (
	preambleNodes = 6
	preamble      = "{{$labels := .Labels}}{{$vars := .Vars}}{{$value := .Value}}{{$line := .Line}}{{$error := .Error}}{{$show := .Show}}"
)

func parseTemplate(src string) (*checker, *parse.Tree, error) {
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(preamble+src, "", "", set); err != nil {
		return nil, nil, parseFailure(src, err)
	}
	if len(set) > 1 {
		return nil, nil, expr.Errorf(definitionAt(src), "write the text where it is needed", "a template cannot define or use other templates")
	}
	c := &checker{src: src, regexes: map[string]*regexp.Regexp{}, formats: map[string][]byte{}}
	if tree.Root != nil {
		if err := c.checkList(tree.Root, 0, preambleNodes); err != nil {
			return nil, nil, err
		}
	}
	return c, tree, nil
}

// compileTemplate compiles a text that Parse has accepted.
func compileTemplate(src string) *template.Template {
	c, tree, err := parseTemplate(src)
	if err != nil {
		panic(err) // Parse has accepted the same text, so this cannot happen
	}
	wrapPipelines(tree.Root)
	return template.Must(template.New("template").Option("missingkey=zero").Funcs(c.functionMap()).AddParseTree("template", tree))
}

var parseErrorLine = lazyre.New(`^template: [^:]*:(\d+): `)

// parseFailure returns an error of the parser with a position. The parser states only the line, so the position is the
// first action in that line.
func parseFailure(src string, err error) error {
	msg, offset := err.Error(), 0
	if m := parseErrorLine.FindStringSubmatch(msg); m != nil {
		msg = msg[len(m[0]):]
		n, _ := strconv.Atoi(m[1])
		offset = lineStart(src, n)
		if at := strings.Index(src[offset:], "{{"); at >= 0 {
			offset += at
		}
	}
	fix := "write {{ and }} only around an expression, such as {{ $labels.namespace }}"
	switch {
	case strings.Contains(msg, "undefined variable"):
		fix = "use $labels.NAME, $vars.NAME, $value, $line or $error"
	case strings.Contains(msg, "unexpected EOF"), strings.Contains(msg, "unclosed action"):
		fix = "close every {{ with }} and every {{ if }} with {{ end }}"
	case strings.Contains(msg, "bad character"), strings.Contains(msg, "unexpected bad"):
		fix = "use letters, digits, _ and dots in names; capture any other name with a named group"
	}
	return expr.Errorf(offset, fix, "%s", msg)
}

// lineStart returns the offset of the n-th line, counted from 1.
func lineStart(src string, n int) int {
	at := 0
	for ; n > 1; n-- {
		next := strings.IndexByte(src[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return at
}

var definition = lazyre.New(`\{\{-?\s*(define|block|template)\b`)

func definitionAt(src string) int {
	if loc := definition.FindStringIndex(src); loc != nil {
		return loc[0]
	}
	return 0
}

// kind is the type of an expression. Types are checked when a template is loaded, so most errors are found before an
// alert depends on the template.
type kind string

const (
	kindText    kind = "text"
	kindInteger kind = "an integer"
	kindDecimal kind = "a number"
	kindBool    kind = "true or false"
	kindMixed   kind = "of more than one type" // the result of `and` or `or` with arguments of different types
)

func (k kind) isNumber() bool { return k == kindInteger || k == kindDecimal }

// checker walks the tree of a template and collects the names and functions that the template uses.
type checker struct {
	src          string
	labels, vars []string
	value, line  bool
	failure      bool // whether the template reads $error
	program      int  // sum of the instructions of all regular expressions
	regexes      map[string]*regexp.Regexp
	formats      map[string][]byte // verbs of each format string of printf; the key is the format string
}

// maxNesting is the maximum nesting of `if` and of parentheses.
const maxNesting = 50

func (c *checker) errorf(pos parse.Pos, fix, format string, args ...any) error {
	at := min(max(int(pos)-len(preamble), 0), len(c.src))
	return expr.Errorf(at, fix, format, args...)
}

// checkList checks the nodes of a list. skip is the number of nodes at the start that are not checked, because they
// belong to the preamble.
func (c *checker) checkList(l *parse.ListNode, depth, skip int) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes[min(skip, len(l.Nodes)):] {
		if err := c.checkNode(n, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkNode(n parse.Node, depth int) error {
	if depth > maxNesting {
		return c.errorf(n.Position(), "use less nesting", "the template is nested deeper than %d", maxNesting)
	}
	switch n := n.(type) {
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		_, err := c.checkPipe(n.Pipe, depth)
		return err
	case *parse.IfNode:
		if _, err := c.checkPipe(n.Pipe, depth); err != nil {
			return err
		}
		if err := c.checkList(n.List, depth+1, 0); err != nil {
			return err
		}
		return c.checkList(n.ElseList, depth+1, 0)
	}
	word, _, _ := strings.Cut(strings.Trim(n.String(), "{}- "), " ")
	return c.errorf(n.Position(), "use only if, else if and else", "%s is not available in rule templates", cmp.Or(word, "this action"))
}

func (c *checker) checkPipe(p *parse.PipeNode, depth int) (kind, error) {
	if depth > maxNesting {
		return "", c.errorf(p.Pos, "use less nesting", "the template is nested deeper than %d", maxNesting)
	}
	if len(p.Decl) > 0 {
		return "", c.errorf(p.Pos, "write the expression where it is needed", "variables cannot be set in rule templates")
	}
	var result kind
	for i, cmd := range p.Cmds {
		var piped []kind
		if i > 0 {
			piped = []kind{result}
		}
		var err error
		if result, err = c.checkCommand(cmd, piped, depth); err != nil {
			return "", err
		}
	}
	return result, nil
}

// checkCommand checks a call or a value. piped holds the type of the preceding value in the pipeline, if there is one.
func (c *checker) checkCommand(cmd *parse.CommandNode, piped []kind, depth int) (kind, error) {
	id, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		if len(cmd.Args) > 1 || len(piped) > 0 {
			return "", c.errorf(cmd.Args[0].Position(), "call a function, such as toUpper", "%s is not a function and takes no argument", cmd.Args[0])
		}
		return c.checkOperand(cmd.Args[0], depth)
	}
	kinds := make([]kind, 0, len(cmd.Args))
	for _, a := range cmd.Args[1:] {
		k, err := c.checkOperand(a, depth)
		if err != nil {
			return "", err
		}
		kinds = append(kinds, k)
	}
	return c.checkCall(id, call{name: id.Ident, args: cmd.Args[1:], kinds: append(kinds, piped...)})
}

func (c *checker) checkOperand(n parse.Node, depth int) (kind, error) {
	switch n := n.(type) {
	case *parse.VariableNode:
		return c.checkVariable(n)
	case *parse.StringNode:
		return kindText, nil
	case *parse.BoolNode:
		return kindBool, nil
	case *parse.NumberNode:
		switch {
		case strings.HasPrefix(n.Text, "'"):
			return "", c.errorf(n.Pos, "write text in double quotes", "%s is a character constant", n)
		case n.IsInt:
			return kindInteger, nil
		case n.IsFloat:
			return kindDecimal, nil
		}
	case *parse.PipeNode:
		return c.checkPipe(n, depth+1)
	case *parse.IdentifierNode:
		return c.checkCall(n, call{name: n.Ident})
	case *parse.FieldNode, *parse.DotNode, *parse.ChainNode:
		return "", c.errorf(n.Position(), "write $labels.NAME, $vars.NAME, $value, $line or $error", "%s has no meaning in rule templates", n)
	}
	return "", c.errorf(n.Position(), "use text, numbers, true or false", "%s is not available in rule templates", n)
}

// checkVariable checks the use of $labels.NAME, $vars.NAME, $value, $line and $error. A name may contain dots, like the
// names of fields of JSON lines.
func (c *checker) checkVariable(n *parse.VariableNode) (kind, error) {
	name := strings.Join(n.Ident[1:], ".")
	switch n.Ident[0] {
	case "$labels", "$vars":
		if name == "" {
			return "", c.errorf(n.Pos, "write "+n.Ident[0]+".NAME", "%s is not one value", n.Ident[0])
		}
		n.Ident = []string{n.Ident[0], name}
		if n.Ident[0] == "$labels" {
			c.labels = append(c.labels, name)
		} else {
			c.vars = append(c.vars, name)
		}
		return kindText, nil
	case "$value", "$line", "$error":
		if name != "" {
			return "", c.errorf(n.Pos, "write "+n.Ident[0], "%s has no fields", n.Ident[0])
		}
		if n.Ident[0] == "$value" {
			c.value = true
			return kindInteger, nil
		}
		c.line = c.line || n.Ident[0] == "$line"
		c.failure = c.failure || n.Ident[0] == "$error"
		return kindText, nil
	}
	return "", c.errorf(n.Pos, "write $labels.NAME, $vars.NAME, $value, $line or $error", "%s is not available in rule templates", n)
}

// call is a function call with the kinds of its arguments. A piped argument occurs only in kinds.
type call struct {
	name  string
	args  []parse.Node
	kinds []kind
}

// constantArg returns the i-th argument if it is a string constant.
func (c call) constantArg(i int) (string, bool) {
	if i < len(c.args) {
		if s, ok := c.args[i].(*parse.StringNode); ok {
			return s.Text, true
		}
	}
	return "", false
}

func (c *checker) checkCall(id *parse.IdentifierNode, f call) (kind, error) {
	check, ok := signatures()[f.name]
	if !ok {
		return "", c.errorf(id.Pos, "use one of "+strings.Join(Functions(), ", "), "rule templates have no function %q", f.name)
	}
	k, fix, err := check(c, f)
	if err != nil {
		return "", c.errorf(id.Pos, fix, "%s %v", f.name, err)
	}
	return k, nil
}
