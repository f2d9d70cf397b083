// Package commands checks the commands in the steps of the shipped rules: a person runs them at
// night, in a hurry, on a cluster that is ill.
package commands

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"crowsnest/daemon/loader"
	"crowsnest/rules"
)

func shipped(t *testing.T) []*rules.Rule {
	t.Helper()
	files, err := loader.Shipped()
	require.NoError(t, err)
	docs, problems := loader.ParseFiles(files)
	require.Empty(t, problems.Errors())
	set, problems := loader.BuildSet(docs, rules.Options{})
	require.Empty(t, problems.Errors())
	return set.Rules
}

// value stands for values of lines and labels.
const value = "VALUE0"

var action = regexp.MustCompile(`\{\{[^}]*\}\}`)

// choice is a step that is one of two commands.
var choice = regexp.MustCompile(`^\{\{ if [^}]*\}\}(.*?)\{\{ else \}\}(.*?)\{\{ end \}\}$`)

// source returns a step, or both commands of a choice, with a harmless value for each of its
// templates.
func source(step *rules.Template) string {
	return action.ReplaceAllString(choice.ReplaceAllString(step.Source(), "$1\n$2"), value)
}

func parse(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangPOSIX), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
}

// commandsOf returns the simple commands of a script as words, also those in substitutions.
func commandsOf(f *syntax.File) (out [][]string) {
	syntax.Walk(f, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			var words []string
			for _, w := range call.Args {
				words = append(words, literal(w))
			}
			out = append(out, words)
		}
		return true
	})
	return out
}

// literal returns the text of a word; a substitution is a value.
func literal(w *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			default:
				b.WriteString(value)
			}
		}
	}
	add(w.Parts)
	return b.String()
}

// comments returns the comments of a script in one text.
func comments(f *syntax.File) string {
	var out []string
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			out = append(out, strings.TrimSpace(c.Text))
		}
		return true
	})
	return strings.Join(out, ". ")
}

// runners are programs whose arguments are a command.
var runners = []string{"time", "xargs", "sudo", "env", "nsenter", "watch", "timeout"}

// checkCommand checks a command, and the one that it runs.
func checkCommand(all map[string]*program, words []string) (found []parsedCommand, problems []string) {
	if slices.Contains(runners, words[0]) {
		k := 1
		for k < len(words) && strings.HasPrefix(words[k], "-") {
			k++
		}
		if k < len(words) {
			return checkCommand(all, words[k:])
		}
	}
	c, problems := read(all, words)
	found = append(found, c)
	if len(c.rest) > 0 {
		inner, more := checkCommand(all, c.rest)
		found, problems = append(found, inner...), append(problems, more...)
	}
	return found, problems
}

// Every step is a complete command of known programs with flags that they have.
func TestCommands(t *testing.T) {
	all := programs(t)
	n := 0
	for _, r := range shipped(t) {
		for i, step := range r.Remediation.Steps {
			f, err := parse(source(step))
			if err != nil {
				t.Errorf("%s, step %d: %v\n  %s", r.Alert, i+1, err, step.Source())
				continue
			}
			for _, words := range commandsOf(f) {
				n++
				_, problems := checkCommand(all, words)
				for _, p := range problems {
					t.Errorf("%s, step %d: %s\n  %s", r.Alert, i+1, p, step.Source())
				}
			}
		}
	}
	require.Greater(t, n, 300)
}

// placeholder is a word in capitals for a value that the reader must find.
var placeholder = regexp.MustCompile(`(?:^|[^A-Za-z0-9_$.-])([A-Z][A-Z0-9]+(?:-[A-Z0-9]+)*)(?:$|[^A-Za-z0-9_=.-])`)

// listed are the steps that show the value of a placeholder to who ran them before.
var listed = map[string]*regexp.Regexp{
	"POD":       regexp.MustCompile(`\bget pods?\b`),
	"NODE":      regexp.MustCompile(`\bget nodes?\b|-o wide|NODE:`),
	"NAMESPACE": regexp.MustCompile(`\bget \S+ .*(-A|--all-namespaces)\b`),
	"NAME":      regexp.MustCompile(`\bget \S+ .*(-A|--all-namespaces)\b`),
	"CLUSTER":   regexp.MustCompile(`\bget clusters\b.* -A\b`),
}

// Who reads a placeholder knows what to write instead: a step before it lists the values, or
// the summary, a comment of the same step or of one before it names it, or says of what the
// value is ("# of ...").
func TestPlaceholders(t *testing.T) {
	for _, r := range shipped(t) {
		known, earlier := "", ""
		if r.Remediation.Summary != nil {
			known = r.Remediation.Summary.Source()
		}
		for i, step := range r.Remediation.Steps {
			f, err := parse(source(step))
			if err != nil {
				continue // TestCommands reports it
			}
			known += "\n" + comments(f)
			for _, name := range placeholders(f) {
				shown := listed[name]
				if !named(known, name) && (shown == nil || !shown.MatchString(earlier)) {
					t.Errorf("%s, step %d: nothing says what %s is: name it in the summary, or in a comment of this step or of one before, or list the values in a step before\n  %s", r.Alert, i+1, name, step.Source())
				}
			}
			earlier += "\n" + source(step)
		}
	}
}

// placeholders returns the placeholders in the words of commands that are not quoted.
func placeholders(f *syntax.File) (out []string) {
	syntax.Walk(f, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for _, w := range call.Args {
			for _, p := range w.Parts {
				lit, ok := p.(*syntax.Lit)
				if !ok {
					continue
				}
				for _, m := range placeholder.FindAllStringSubmatch(lit.Value, -1) {
					if m[1] != value && !slices.Contains(out, m[1]) {
						out = append(out, m[1])
					}
				}
			}
		}
		return true
	})
	return out
}

// of says that a value belongs to something that a comment names.
var of = regexp.MustCompile(`(?m)(^|\. )(of|the one|printed|from) `)

func named(text, name string) bool {
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(text) || of.MatchString(text)
}

// hostile are values that somebody writes into a log on purpose.
var hostile = []string{"$(reboot)", "`reboot`", "a; reboot", "a | sh", "a && reboot", "a\nreboot", "x' reboot '", `x" reboot "`, "--kubeconfig=/tmp/x", "-A", "*", "~root", "a b", "#", "\\", "${IFS}", "<x", ">x", "a=b c", "!x"}

// A value from a log line never becomes more than one word, a flag, or a command: whatever it
// is, the rendered steps have the same commands with as many words.
func TestHostileValues(t *testing.T) {
	for _, r := range shipped(t) {
		plain := rendered(r, value)
		for _, v := range hostile {
			for i, step := range rendered(r, v) {
				a, err := parse(plain[i])
				if err != nil {
					continue // TestCommands reports it
				}
				b, err := parse(step)
				if err != nil {
					t.Errorf("%s, step %d: with the value %q it is no command: %v\n  %s", r.Alert, i+1, v, err, step)
					continue
				}
				if x, y := shape(a), shape(b); x != y {
					t.Errorf("%s, step %d: the value %q changes the command\n  %s\n  %s\n  %s", r.Alert, i+1, v, step, x, y)
				}
			}
		}
	}
}

// rendered returns the steps as an alert shows them, with one value for everything.
func rendered(r *rules.Rule, v string) []string {
	d := rules.TemplateData{Labels: map[string]string{}, Vars: map[string]string{}}
	for _, step := range r.Remediation.Steps {
		for _, name := range step.Labels() {
			d.Labels[name] = v
		}
		for _, name := range step.Vars() {
			d.Vars[name] = v
		}
	}
	steps := &rules.Remediation{Steps: r.Remediation.Steps}
	text, _ := steps.Text(d, func(s string) string { return strings.ReplaceAll(s, "\n", " ") })
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, fmt.Sprintf("%d. ", len(out)+1)); ok {
			out = append(out, rest)
		}
	}
	return out
}

// shape returns the programs of a script, and how many words and flags each has.
func shape(f *syntax.File) string {
	var b strings.Builder
	for _, words := range commandsOf(f) {
		flags := 0
		for _, w := range words {
			if strings.HasPrefix(w, "-") {
				flags++
			}
		}
		fmt.Fprintf(&b, "%s/%d/%d ", words[0], len(words), flags)
	}
	return b.String()
}
