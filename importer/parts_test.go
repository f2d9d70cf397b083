package importer

import (
	"regexp/syntax"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/strictyaml"
)

func TestJQ(t *testing.T) {
	f := func(program, line string, want bool) {
		t.Helper()
		m, err := jqMatcher(strictyaml.Pos{}, program)
		require.NoError(t, err)
		require.Equal(t, want, m.compile()(line), "%s of %s", program, line)
	}
	f(`.a == "x"`, `{"a":"x"}`, true)
	f(`.a == "x"`, `a=x`, false)
	f(`.a == "x"`, `{"b":"x"}`, false)
	f(`.a != "x"`, `{"b":"x"}`, true)
	f(`.a.b == 5`, `{"a":{"b":5}}`, true)
	f(`.a == true and (.b == "y" or .b == "z")`, `{"a":true,"b":"z"}`, true)
	f(`(.a == "x" | not) and .b == "y"`, `{"a":"w","b":"y"}`, true)
	f(`.a == "x" and .b == "y" | not`, `{"a":"x","b":"y"}`, false)
	f(`.a == "x" and .b == "y" | not`, `{"a":"x","b":"w"}`, true)
	f(`(.a | test("^x+$"))`, `{"a":"xxx"}`, true)
	f(`(.a | test("x+$"))`, `{"a":"oxxxo"}`, false)
	f(`.a | contains("n.o")`, `{"a":"an.other"}`, true)
	f(`.a | contains("n.o")`, `{"a":"another"}`, false)
	f(`(.a | startswith("x")) and (.a | endswith("z"))`, `{"a":"xyz"}`, true)
	f(`select(.a == "x")`, `{"a":"x"}`, true)
	f(`.a == "~x"`, `{"a":"~x"}`, true)

	for _, program := range []string{"", ".", ".a", ".[]", ".a == .b", `.a > 3`, `.a == null`, `.a and .b`, `.a == "x" and .b | test("y")`, `.a | test("(")`, `.a == "\(.b)"`, `(.a == "x"`, `.a == "x") `, `length`, `.a == "x" | length`} {
		_, err := jqMatcher(strictyaml.Pos{}, program)
		require.Error(t, err, program)
	}
}

func TestComponents(t *testing.T) {
	for source, want := range map[string]string{
		"relay": "relay", "message-relay": "message-relay", "suite.message-relay": "message-relay", "suite.agent": "suite.agent",
		"message-relay-example-message-relay": "message-relay", "relay-example-relay-15-log-based-cre-candidates": "relay",
		"relay-on-kubernetes-by-some-operator": "relay", "relay-relay-relay": "relay", "one-two-three-four-five": "", `a"b`: "",
	} {
		require.Equal(t, want, componentOf(source), source)
	}
}

func TestRequiredTexts(t *testing.T) {
	f := func(expr string, want ...[]string) {
		t.Helper()
		re, err := syntax.Parse(expr, syntax.Perl)
		require.NoError(t, err)
		require.Equal(t, want, required(re), expr)
	}
	f("abc", []string{"abc"})
	f("abc.*def", []string{"abc", "def"})
	f("(abc|de).+f", []string{"abc", "f"}, []string{"de", "f"})
	f("(abc)?d*", nil)
	f("(?:abc){2,}", []string{"abc"})
	f("(?i)a1b 22", []string{"1", " 22"})
}

// Conditions that do not fit into one mapping are nested, and all of them hold.
func TestAll(t *testing.T) {
	m := all([]pattern{
		{contains: []string{"a"}},
		{regex: "b"},
		{regex: "c"},
		{any: []pattern{{regex: "d"}, {regex: "e"}}},
		{any: []pattern{{regex: "f"}}},
		negation(pattern{regex: "g"}), negation(pattern{contains: []string{"h"}}),
	})
	is := m.compile()
	require.True(t, is("abcdf"))
	require.True(t, is("abcef"))
	for _, line := range []string{"bcdf", "acdf", "abdf", "abcf", "abcd", "abcdfg", "abcdfh"} {
		require.False(t, is(line), line)
	}
}

func TestSteps(t *testing.T) {
	got, ok := steps("1. Do this\n2) Then that,\n   and more\n- Last")
	require.True(t, ok)
	require.Equal(t, []string{"Do this", "Then that, and more", "Last"}, got)
	for _, text := range []string{"", "One sentence", "- Only one", "- It's quoted\n- b", "- a\nnot an item", "- run `x`\n- b"} {
		_, ok := steps(text)
		require.False(t, ok, text)
	}
}
