package template

import (
	"strings"
	"text/template/parse"
)

// Words returns the template as text for documents: what it says where every name has a value,
// with placeholders instead of values. Of `if`, `else if` and `else` it takes the first branch
// whose condition is that a name has a value, else the last one, because the others are about
// particular values. text changes the template's own text, such as to escape it.
func (t *Template) Words(placeholder, text func(string) string) string {
	if !t.actions {
		return text(t.source)
	}
	_, tree, err := parseTemplate(t.source)
	if err != nil {
		panic(err) // the template was parsed before
	}
	var b strings.Builder
	write(&b, tree.Root, placeholder, text)
	return b.String()
}

func write(b *strings.Builder, l *parse.ListNode, placeholder, text func(string) string) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			b.WriteString(text(string(n.Text)))
		case *parse.ActionNode:
			if name := firstName(n.Pipe); name != "" {
				b.WriteString(placeholder(name))
			} else if constant, ok := n.Pipe.Cmds[0].Args[0].(*parse.StringNode); ok && len(n.Pipe.Cmds) == 1 {
				b.WriteString(text(constant.Text))
			}
		case *parse.IfNode:
			if stated(n.Pipe) || n.ElseList == nil && !compares(n.Pipe) {
				write(b, n.List, placeholder, text)
			} else {
				write(b, n.ElseList, placeholder, text)
			}
		}
	}
}

// stated reports whether a condition is that a name has a value.
func stated(p *parse.PipeNode) bool {
	return len(p.Cmds) == 1 && len(p.Cmds[0].Args) == 1 && p.Cmds[0].Args[0].Type() == parse.NodeVariable
}

// compares reports whether a condition compares a value with a particular one.
func compares(p *parse.PipeNode) bool {
	id, ok := p.Cmds[len(p.Cmds)-1].Args[0].(*parse.IdentifierNode)
	return ok && id.Ident != "and" && id.Ident != "or"
}
