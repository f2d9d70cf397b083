package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneTest is a test to insert.
var oneTest = []string{"- name: new", "  input:", `  - {at: 0s, line: "x # y"}`, "  expect: [{at: 1m, firing: none}]"}

const twoRules = `# top
pack: {name: p, version: 0.1.0, rules: 2, tests: 2}   # kept
rules:
# first
- alert: First
  from: '{a="b"}'
  match: some text
  severity: warning
  tests:
  - name: old
    input: [{at: 0s, line: some text}]
    expect: [{at: 1m, firing: [{alertname: First}]}]
    # about the old test

# second

- alert: Second
  tests:
    - name: old
      input:
        - at: 0s
          line: |
            other text
            # no comment
      expect: [{at: 1m, firing: [{alertname: Second}]}]
  from: '{a="b"}'
  match: other text
  severity: warning
# end
`

func TestInsertTest(t *testing.T) {
	insert := func(text, alert string) string {
		t.Helper()
		out, err := InsertTest(File{Name: "p.yaml", Data: []byte(text)}, alert, oneTest)
		require.NoError(t, err)
		return string(out)
	}
	counted := strings.Replace(twoRules, "tests: 2}", "tests: 3}", 1)
	require.Equal(t, strings.Replace(counted, "    # about the old test\n", `    # about the old test
  - name: new
    input:
    - {at: 0s, line: "x # y"}
    expect: [{at: 1m, firing: none}]
`, 1), insert(twoRules, "First"))
	require.Equal(t, strings.Replace(counted, "[{alertname: Second}]}]\n", `[{alertname: Second}]}]
    - name: new
      input:
      - {at: 0s, line: "x # y"}
      expect: [{at: 1m, firing: none}]
`, 1), insert(twoRules, "Second"))
	windows := strings.ReplaceAll(twoRules, "\n", "\r\n")
	require.Equal(t, strings.ReplaceAll(insert(twoRules, "Second"), "\n", "\r\n"), insert(windows, "Second"))
	// A rule without tests, at the end of a file without a line break.
	const bare = "pack: {name: p}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  match: some text\n  severity: warning"
	require.Equal(t, bare+"\n  tests:\n  - name: new\n    input:\n    - {at: 0s, line: \"x # y\"}\n    expect: [{at: 1m, firing: none}]\n", insert(bare, "A"))
	// The header may be the last part of the file.
	const behind = "rules:\n- alert: A\n  from: '{a=\"b\"}'\n  match: some text\n  severity: warning\n  tests:\n  - {input: [{at: 0s, line: x}], expect: [{at: 1m, firing: none}]}\npack:\n  name: p\n  tests: 1\n"
	require.Contains(t, insert(behind, "A"), "\n  tests: 2\n")
}

func TestInsertTestRefuses(t *testing.T) {
	refused := func(text, alert, want string) {
		t.Helper()
		_, err := InsertTest(File{Name: "p.yaml", Data: []byte(text)}, alert, oneTest)
		require.ErrorContains(t, err, want)
	}
	refused(twoRules, "Third", "p.yaml has no rule Third")
	refused("pack: {name: p}\nrules:\n- {alert: A, from: '{a=\"b\"}', match: some text, severity: warning}\n", "A", "p.yaml:3: rule A is written in braces (YAML flow style); insert the test by hand")
	refused("pack: {name: p}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  match: some text\n  severity: warning\n  tests: [{input: [{at: 0s, line: x}], expect: [{at: 1m, firing: none}]}]\n", "A",
		"not written as a list with dashes")
	refused("overrides:\n- rule: A\n  set: {severity: none}\n", "A", "p.yaml has overrides, not rules")
	refused("pack: {name: p}\nrules:\n- alert: A\n", "A", "lacks")
}

func FuzzInsertTest(f *testing.F) {
	f.Add(twoRules)
	f.Fuzz(func(t *testing.T, text string) {
		for _, alert := range []string{"First", "Second"} {
			out, err := InsertTest(File{Name: "p.yaml", Data: []byte(text)}, alert, oneTest)
			if err == nil {
				d, problems := Parse(File{Name: "p.yaml", Data: out})
				require.Empty(t, problems.Errors())
				require.NotNil(t, d)
			}
		}
	})
}
