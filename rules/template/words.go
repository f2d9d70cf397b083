package template

import (
	"strings"
	"text/template/parse"
)

// DocumentText returns the template as it reads in documents, with placeholders for values and
// on the assumption that every name has a value. Of `if`, `else if` and `else` it takes the
// first branch whose condition is that a name has a value, or else the last branch. Other
// conditions concern particular values. text changes the template's own text, for example to
// escape it.
func (t *Template) DocumentText(placeholder, text func(string) string) string {
	if !t.actions {
		return text(t.source)
	}
	_, tree, err := parseTemplate(t.source)
	if err != nil {
		panic(err) // Parse has accepted the same text
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
			if isPresenceCheck(n.Pipe) || n.ElseList == nil && !isComparison(n.Pipe) {
				write(b, n.List, placeholder, text)
			} else {
				write(b, n.ElseList, placeholder, text)
			}
		}
	}
}

// isPresenceCheck reports whether a condition only checks that a name has a value.
func isPresenceCheck(p *parse.PipeNode) bool {
	return len(p.Cmds) == 1 && len(p.Cmds[0].Args) == 1 && p.Cmds[0].Args[0].Type() == parse.NodeVariable
}

// isComparison reports whether a condition compares a value with a particular constant.
func isComparison(p *parse.PipeNode) bool {
	id, ok := p.Cmds[len(p.Cmds)-1].Args[0].(*parse.IdentifierNode)
	return ok && id.Ident != "and" && id.Ident != "or"
}
