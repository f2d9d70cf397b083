package template

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"crowsnest/internal/lazyre"
	"crowsnest/rules/internal/shell"
)

// maxStrict bounds a value that a step shows unchanged, in bytes: enough for a
// kind, a namespace and a name of Kubernetes.
const maxStrict = 600

// strictValue accepts the characters of names, namespace/name, addresses, ports
// and versions. None of them has a meaning in any shell, with or without quotes.
var strictValue = lazyre.New(`^[A-Za-z0-9][A-Za-z0-9._:/+-]*$`)

// looseValue matches text that programs turn into a link, and text that leaves a
// path.
var looseValue = lazyre.New(`(?i)//|\.\.|www\.|\b(?:mailto|javascript|vbscript|tel|sms|xmpp|skype|callto|magnet):`)

// Strict reports whether a value is safe in a command or a link without changes.
func Strict(s string) bool {
	if len(s) > maxStrict || !strictValue.MatchString(s) {
		return false
	}
	return !strings.ContainsAny(s, ":/.") || !looseValue.MatchString(s) // names seldom contain any of them
}

// use is the purpose of a rendered text.
type use int

const (
	useRaw  use = iota // a label: values are not changed
	useText            // a text for people
	useStep            // a command that people paste
	useMark            // a step for the lint: each value is shell.Mark
)

// shown receives the values of one execution of a template. Put is the last
// function of every pipeline that depends on data.
type shown struct {
	use     use
	w       *boundedWriter
	neutral func(string) string
	unsafe  *[]unsafeValue
	hosts   bool     // a value is in the host of a URL
	end     int      // end of the last value in the output
	loose   bool     // the last value was not strict
	missing []string // names of the values that a text lacks, in order
}

// Gap returns what the output shows for a condition that adds nothing.
func (s *shown) Gap() string {
	if s.use != useText {
		return ""
	}
	s.missing = append(s.missing, "")
	return missing
}

// unsafeValue is a value that a step does not show.
type unsafeValue struct{ name, text string }

// Put returns the text that the output shows for a value. name is the first name
// that the pipeline reads.
func (s *shown) Put(name string, value any) string {
	text := fmt.Sprint(value)
	if s.use == useRaw {
		return text
	}
	if s.use == useMark {
		_, host := link(s.w.buf.Bytes())
		s.hosts = s.hosts || host
		return string(shell.Mark)
	}
	if inside, _ := link(s.w.buf.Bytes()); s.use == useText && text == "" && !inside {
		s.missing = append(s.missing, name)
		return missing
	}
	out := s.place(name, text)
	if adjacent := s.end > 0 && s.end == s.w.buf.Len(); adjacent && (s.loose || !Strict(text)) {
		out = " " + out // two values must not form a link or a mention together
	}
	s.end, s.loose = s.w.buf.Len()+len(out), !Strict(text)
	return out
}

func (s *shown) place(name, text string) string {
	inside, host := link(s.w.buf.Bytes())
	switch strict := Strict(text) && !host; {
	case text == "" && (s.use == useStep || inside):
		return placeholder(name)
	case strict && inside:
		return url.QueryEscape(text)
	case s.use == useStep && strict:
		return text
	case s.use == useStep:
		return s.hide(name, text)
	case inside:
		return placeholder(name)
	case s.neutral != nil:
		return s.neutral(text)
	}
	return text
}

// WithMarks renders a step with shell.Mark in place of its values. Conditions of the
// template read value. hosts reports whether a value is in the host of a URL.
func (t *Template) WithMarks(value string) (text string, hosts bool) {
	d := Data{Labels: map[string]string{}, Vars: map[string]string{}, Line: value, Value: int64(len(value))}
	for _, name := range t.labels {
		d.Labels[name] = value
	}
	for _, name := range t.vars {
		d.Vars[name] = value
	}
	s := shown{use: useMark}
	text, _ = t.execute(d, &s)
	return text, s.hosts
}

// hide returns the placeholder of a value that a step does not show.
func (s *shown) hide(name, text string) string {
	v := unsafeValue{name, text}
	i := slices.Index(*s.unsafe, v)
	if i < 0 {
		i = len(*s.unsafe)
		*s.unsafe = append(*s.unsafe, v)
	}
	return "UNSAFE_VALUE_" + strconv.Itoa(i+1)
}

// link reports whether text ends inside a URL, and whether inside its host.
func link(text []byte) (inside, host bool) {
	word := string(text[max(0, len(text)-MaxOutput):])
	if at := strings.LastIndexAny(word, " \t\n\"'`<>"); at >= 0 {
		word = word[at+1:]
	}
	_, after, inside := strings.Cut(word, "://")
	return inside, inside && !strings.ContainsAny(after, "/?#")
}

// placeholder returns the text that people replace with the value of the name,
// such as NAMESPACE. None of its characters has a meaning in a shell.
func placeholder(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// show appends shown.Put to every pipeline of the list that depends on data.
func show(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if name := firstName(n.Pipe); name != "" && len(n.Pipe.Decl) == 0 {
				put := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: []string{"$show", "Put"}}
				arg := &parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Quoted: strconv.Quote(name), Text: name}
				n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{put, arg}})
			}
		case *parse.IfNode:
			show(n.List)
			if n.ElseList == nil {
				gap := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: []string{"$show", "Gap"}}
				pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: n.Pos, Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{gap}}}}
				n.ElseList = &parse.ListNode{NodeType: parse.NodeList, Pos: n.Pos, Nodes: []parse.Node{&parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Pipe: pipe}}}
				continue
			}
			show(n.ElseList)
		}
	}
}

// firstName returns the first name that an expression reads: the name of a label
// or variable, "value" or "line", or "" if it reads none.
func firstName(n parse.Node) string {
	switch n := n.(type) {
	case *parse.VariableNode:
		return strings.TrimPrefix(n.Ident[len(n.Ident)-1], "$")
	case *parse.PipeNode:
		for _, cmd := range n.Cmds {
			for _, a := range cmd.Args {
				if name := firstName(a); name != "" {
					return name
				}
			}
		}
	}
	return ""
}
