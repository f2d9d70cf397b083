package strictyaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The problem of a file that is not YAML says where it goes wrong and what to write, whether the
// mistake is in a value, a list, brackets, the first or the last line.
func TestSyntaxMistakes(t *testing.T) {
	for _, c := range []struct{ value, at, msg, fix string }{
		{"a: b", "a", "needs quotes", "'a: b'"},
		{"error: it's broken", "error", "needs quotes", "'error: it''s broken'"},
		{"failed to list *v1.Pod: x # note", "failed", "needs quotes", "'failed to list *v1.Pod: x'"},
		{`"port \d+"`, `\d`, `\d is not an escape`, `single quotes: 'port \d+'`},
		{`"a \"b\" C:\Windows\\x"`, `\W`, `\W is not an escape`, `'a "b" C:\Windows\x'`},
		{`{regex: "port \d+"}`, `\d`, `\d is not an escape`, `'port \d+'`},
		{`[a, "\s"]`, `\s`, `\s is not an escape`, `'\s'`},
		{`"say "hi" now"`, `"say`, "needs quotes", `'say "hi" now'`},
		{`'it's broken'`, "'it", "needs quotes", "'it''s broken'"},
		{"{{ $labels.namespace }} is down", "{{", "needs quotes", "'{{ $labels.namespace }} is down'"},
		{"[etcd] failed", "[etcd]", "needs quotes", "'[etcd] failed'"},
		{"@type", "@", "needs quotes", "'@type'"},
		{"`x`", "`", "needs quotes", "'`x`'"},
		{"%d items", "%", "needs quotes", "'%d items'"},
		{"*", "*", "needs quotes", "'*'"},
		{"| text", "|", "needs quotes", "'| text'"},
		{"> text", ">", "needs quotes", "'> text'"},
		{"- text", "-", "needs quotes", "'- text'"},
		{"? text", "?", "needs quotes", "'? text'"},
		{`"never closed`, `"`, "not closed", `close it with "`},
		{"{a: b", "{", "not closed", "close it with }"},
		{"[a, b}", "[", "not closed", "close it with ]"},
	} {
		for _, form := range []string{"key: %s\n", "first: x\nkey: %s\nlast: y\n", "list:\n- x\n- key: %s\n  other: y\n", "a:\n  b:\n    key: %s\n"} {
			text := fmt.Sprintf(form, c.value)
			_, ps := Parse("f", []byte(text), Options{})
			require.Len(t, ps, 1, text)
			p := ps[0]
			require.Contains(t, p.Message, c.msg, text)
			require.Contains(t, p.Fix, c.fix, text)
			line := strings.Split(text, "\n")[p.Line-1]
			require.True(t, strings.HasPrefix(line[p.Column-1:], c.at), "%s: column %d", text, p.Column)
		}
	}
	for text, want := range map[string]string{
		"a: b\n  c: d\n":                  "2:3: the indentation of 2 spaces matches no earlier line; indent it by 0 spaces, as a: on line 1",
		"a:\n  b: c\n d: e\n":             "3:2: the indentation of 1 space matches no earlier line; indent it by 2 spaces, as b: on line 2",
		"a:\n- b: c\n   d: e\n":           "3:4: the indentation of 3 spaces matches no earlier line; indent it by 2 spaces, as b: on line 2",
		"a:\n- b: c\n\n # x\n d: e\n":     "5:2: the indentation of 1 space matches no earlier line; indent it by 2 spaces, as b: on line 2",
		"a: b\nc:d\n":                     "2:3: there is no space after the colon of a key; write c: d",
		"a: {b: 'c' d: e}\nf: g\n":        "1:1: did not find expected ',' or '}'; check indentation, quotes and brackets here and on the line before",
		"a: {b: @c}\nf: g\n":              "1:1: found character that cannot start any token; check indentation, quotes and brackets here and on the line before",
		"a:\n\tb: c\n":                    "2:1: a tab indents this line; indent with spaces",
		"a:\n  b: c\n  \td: e\n":          "3:3: a tab indents this line; indent with spaces",
		"a: [b,\n  'c: d', \"\\q\",\n]\n": "2:12: \\q is not an escape in double quotes; use single quotes: '\\q'",
	} {
		_, ps := Parse("f", []byte(text), Options{})
		require.Len(t, ps, 1, text)
		p := ps[0]
		require.Equal(t, want, fmt.Sprintf("%d:%d: %s; %s", p.Line, p.Column, strings.TrimPrefix(p.Message, "this is not YAML: "), p.Fix), text)
	}
}

// A log in place of a YAML file is called so: how to quote its first line helps nobody.
func TestLogIsNoYAML(t *testing.T) {
	for _, line := range []string{
		"E1118 11:02:19.551200       1 leaderelection.go:332] lost: x\n",
		"2026-11-18T09:14:02.118Z stderr F lost: x: y\n",
		"Nov 27 08:00:06 worker-7 kubelet[1843]: lost: x\n",
		`time="2026-11-27T09:00:17Z" level=info msg="lost: x"` + "\n",
		`{"level":"error","msg":"lost"}` + "\n",
	} {
		_, ps := Parse("f", []byte(line+line), Options{})
		require.Len(t, ps, 1, line)
		require.Equal(t, "this is a log and not YAML", ps[0].Message, line)
		require.Equal(t, 1, ps[0].Line)
	}
}
