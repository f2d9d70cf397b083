package importer

import (
	"regexp/syntax"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComponents(t *testing.T) {
	for source, want := range map[string]string{
		"relay": "relay", "message-relay": "message-relay", "suite.message-relay": "message-relay", "suite.agent": "suite.agent",
		"message-relay-example-message-relay": "message-relay", "relay-example-relay-15-log-based-cre-candidates": "relay",
		"relay-on-kubernetes-by-some-operator": "relay", "relay-relay-relay": "relay", "one-two-three-four-five": "", `a"b`: "",
	} {
		require.Equal(t, want, componentName(source), source)
	}
}

func TestRequiredTexts(t *testing.T) {
	f := func(expr string, want ...[]string) {
		t.Helper()
		re, err := syntax.Parse(expr, syntax.Perl)
		require.NoError(t, err)
		require.Equal(t, want, patternTexts(re), expr)
	}
	f("abc", []string{"abc"})
	f("abc.*def", []string{"abc", "def"})
	f("(abc|de).+f", []string{"abc", "f"}, []string{"de", "f"})
	f("(abc)?d*", nil)
	f("(?:abc){2,}", []string{"abc"})
	f("(?i)a1b 22", []string{"1", " 22"})
}

func TestSteps(t *testing.T) {
	got, ok := splitSteps("1. Do this\n2) Then that,\n   and more\n- Last")
	require.True(t, ok)
	require.Equal(t, []string{"Do this", "Then that, and more", "Last"}, got)
	for _, text := range []string{"", "One sentence", "- Only one", "- It's quoted\n- b", "- a\nnot an item", "- run `x`\n- b"} {
		_, ok := splitSteps(text)
		require.False(t, ok, text)
	}
}
