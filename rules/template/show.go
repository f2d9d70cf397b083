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

// maxStrict is the maximum length in bytes of a value that a step shows unchanged. It is enough for a kind, a namespace
// and a name of Kubernetes.
const maxStrict = 600

// strictValue accepts texts made of the characters of names, namespace/name, addresses, ports and versions. None of
// these characters has a special meaning in any shell, with or without quotes.
var strictValue = lazyre.New(`^[A-Za-z0-9][A-Za-z0-9._:/+-]*$`)

// looseValue matches texts that programs turn into a link, and paths that lead outside their folder.
var looseValue = lazyre.New(`(?i)//|\.\.|www\.|\b(?:mailto|javascript|vbscript|tel|sms|xmpp|skype|callto|magnet):`)

// IsSafe reports whether a command or a link may contain the value unchanged.
func IsSafe(s string) bool {
	if len(s) > maxStrict || !strictValue.MatchString(s) {
		return false
	}
	return !strings.ContainsAny(s, ":/.") || !looseValue.MatchString(s) // avoids the slow search, because names seldom have these characters
}

// use is the purpose for which a template is rendered.
type use int

const (
	useRaw  use = iota // a label, in which values are unchanged
	useText            // a text for people
	useStep            // a command that people paste
	useMark            // a remediation step for the lint, in which each value is shell.Mark
)

// shownValues collects the values during one execution of a template. A call of Put is added to the end of every pipeline
// that depends on data.
type shownValues struct {
	use     use
	w       *boundedWriter
	neutral func(string) string
	unsafe  *[]unsafeValue
	hosts   bool     // whether a value is in the host of a URL
	end     int      // offset in the output of the end of the last value
	loose   bool     // whether the last value was unsafe
	missing []string // names of the missing values, in order
}

// Gap returns the output for an `if` without output.
func (s *shownValues) Gap() string {
	if s.use != useText {
		return ""
	}
	s.missing = append(s.missing, "")
	return missing
}

// unsafeValue is a value that a remediation step does not show, because it could change a command.
type unsafeValue struct{ name, text string }

// Put returns the output for a value. name is the first name that the pipeline reads.
func (s *shownValues) Put(name string, value any) string {
	text := fmt.Sprint(value)
	if s.use == useRaw {
		return text
	}
	if s.use == useMark {
		_, host := inURL(s.w.buf.Bytes())
		s.hosts = s.hosts || host
		return string(shell.Mark)
	}
	if inside, _ := inURL(s.w.buf.Bytes()); s.use == useText && text == "" && !inside {
		s.missing = append(s.missing, name)
		return missing
	}
	out := s.place(name, text)
	if adjacent := s.end > 0 && s.end == s.w.buf.Len(); adjacent && (s.loose || !IsSafe(text)) {
		out = " " + out // a space keeps two adjacent values from forming a link or a mention
	}
	s.end, s.loose = s.w.buf.Len()+len(out), !IsSafe(text)
	return out
}

func (s *shownValues) place(name, text string) string {
	inside, host := inURL(s.w.buf.Bytes())
	switch strict := IsSafe(text) && !host; {
	case text == "" && (s.use == useStep || inside):
		return placeholder(name)
	case strict && inside:
		return url.QueryEscape(text)
	case s.use == useStep && strict:
		return text
	case s.use == useStep:
		return s.hiddenPlaceholder(name, text)
	case inside:
		return placeholder(name)
	case s.neutral != nil:
		return s.neutral(text)
	}
	return text
}

// WithMarks returns a remediation step with shell.Mark in place of its values. `if` and comparisons of the template get
// value. hosts reports whether a value is in the host of a URL.
func (t *Template) WithMarks(value string) (text string, hosts bool) {
	d := Data{Labels: map[string]string{}, Vars: map[string]string{}, Line: value, Value: int64(len(value))}
	for _, name := range t.labels {
		d.Labels[name] = value
	}
	for _, name := range t.vars {
		d.Vars[name] = value
	}
	s := shownValues{use: useMark}
	text, _ = t.execute(d, &s)
	return text, s.hosts
}

// hiddenPlaceholder returns the placeholder that replaces an unsafe value in a command of a remediation step.
func (s *shownValues) hiddenPlaceholder(name, text string) string {
	v := unsafeValue{name, text}
	i := slices.Index(*s.unsafe, v)
	if i < 0 {
		i = len(*s.unsafe)
		*s.unsafe = append(*s.unsafe, v)
	}
	return "UNSAFE_VALUE_" + strconv.Itoa(i+1)
}

func inURL(text []byte) (inside, host bool) {
	word := string(text[max(0, len(text)-MaxOutput):])
	if at := strings.LastIndexAny(word, " \t\n\"'`<>"); at >= 0 {
		word = word[at+1:]
	}
	_, after, inside := strings.Cut(word, "://")
	return inside, inside && !strings.ContainsAny(after, "/?#")
}

// placeholder returns the text that people replace with the value of the name, such as NAMESPACE. None of its
// characters has a special meaning in a shell.
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

// wrapPipelines adds a call of shown.Put to the end of each pipeline in the list that depends on data.
func wrapPipelines(l *parse.ListNode) {
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
			wrapPipelines(n.List)
			if n.ElseList == nil {
				gap := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: []string{"$show", "Gap"}}
				pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: n.Pos, Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{gap}}}}
				n.ElseList = &parse.ListNode{NodeType: parse.NodeList, Pos: n.Pos, Nodes: []parse.Node{&parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Pipe: pipe}}}
				continue
			}
			wrapPipelines(n.ElseList)
		}
	}
}

// firstName returns the first name that an expression reads. This is the name of a label or variable, "value" or
// "line". It is "" if the expression reads none.
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

// maxQuoted is the maximum number of characters of an unsafe value that is quoted below the steps.
const maxQuoted = 160

// failedStep replaces a step that failed or is too long. A step is not truncated, because half of a command is a
// different command.
const failedStep = "This step is not shown: its template failed, or the step is too long."

// Text returns the summary, if it is not nil, and the numbered steps, one per line. People paste steps as commands.
// Therefore Text replaces a value that IsSafe rejects with UNSAFE_VALUE_1 and quotes the value below the steps. It
// replaces a missing value with its name in upper case. neutral must return a value as one harmless line. failed is the
// number of templates that failed.
func Text(summary *Template, steps []*Template, d Data, neutral func(string) string) (text string, failed int) {
	var lines []string
	var unsafe []unsafeValue
	render := func(t *Template) string {
		out, ok := t.execute(d, &shownValues{use: useStep, neutral: neutral, unsafe: &unsafe})
		if !ok {
			failed++
		}
		return out
	}
	if summary != nil {
		lines = append(lines, render(summary))
	}
	for i, s := range steps {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, render(s)))
	}
	for i, v := range unsafe {
		lines = append(lines, fmt.Sprintf("UNSAFE_VALUE_%d is the logged text of %s. Check it before use: %s", i+1, placeholder(v.name), asData(v.text, neutral)))
	}
	return strings.Join(lines, "\n"), failed
}

// asData returns text as one word in single quotes, which a shell does not interpret.
func asData(text string, neutral func(string) string) string {
	text = strings.ReplaceAll(neutral(text), "'", "’")
	if r := []rune(text); len(r) > maxQuoted {
		text = string(r[:maxQuoted]) + "…"
	}
	return "'" + text + "'"
}

// DocumentText returns the template as documents show it, with placeholders for values. For an `if`, it shows one
// branch. This is the first branch whose condition only tests that a name has a value, or the last branch if there is
// none. text changes the template's own text, for example to escape it.
func (t *Template) DocumentText(placeholder, text func(string) string) string {
	if !t.actions {
		return text(t.source)
	}
	_, tree, err := parseTemplate(t.source)
	if err != nil {
		panic(err) // Parse has accepted the same text, so this cannot happen
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

// isPresenceCheck reports whether a condition only tests that a name has a value.
func isPresenceCheck(p *parse.PipeNode) bool {
	return len(p.Cmds) == 1 && len(p.Cmds[0].Args) == 1 && p.Cmds[0].Args[0].Type() == parse.NodeVariable
}

// isComparison reports whether a condition compares a value with a constant.
func isComparison(p *parse.PipeNode) bool {
	id, ok := p.Cmds[len(p.Cmds)-1].Args[0].(*parse.IdentifierNode)
	return ok && id.Ident != "and" && id.Ident != "or"
}
