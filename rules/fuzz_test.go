package rules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func buildOne(data []byte) *Set {
	d, problems := Parse(File{Name: "p.yaml", Data: data})
	if len(problems.Errors()) > 0 {
		return nil // refused already: what Build finds besides is not asked
	}
	set, _ := Build([]*Document{d}, Options{})
	return set
}

// TestPrefixesOfPacks cuts packs off that state their numbers of rules and tests:
// what is left is refused.
func TestPrefixesOfPacks(t *testing.T) {
	f := func(name string, data []byte) {
		t.Helper()
		set := buildOne(data)
		require.NotNil(t, set, name)
		data = withTests(data, set)
		require.NotNil(t, buildOne(data), name)
		whole := strings.TrimSpace(string(data))
		for n := range cuts(data) {
			if buildOne(data[:n]) != nil {
				require.Equal(t, whole, strings.TrimSpace(string(data[:n])), "%s cut at byte %d is accepted", name, n)
			}
		}
	}
	f("own", []byte(`pack: {name: p, rules: 2, tests: 2}
rules:
- alert: A
  from: '{a="b"}'
  match: some text
  severity: info
  tests:
  - {input: [{at: 0s, line: some text}], expect: [{at: 1s, firing: [{alertname: A}]}]}
- alert: B
  from: '{a="b"}'
  match: other text
  severity: info
  annotations: {summary: x}
  tests:
  - input:
    - {at: 0s, line: other text}
    expect: [{at: 1s, firing: [{alertname: B}]}]
`))
	packs, err := fs.Glob(Shipped(), "*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	for _, name := range packs {
		data, err := fs.ReadFile(Shipped(), name)
		require.NoError(t, err)
		f(name, data)
	}
}

// withTests states the number of tests in a header that does not.
func withTests(data []byte, set *Set) []byte {
	tests := 0
	for _, r := range set.Rules {
		tests += len(r.Tests)
	}
	header := regexp.MustCompile(`(?m)^(pack: \{.*rules: \d+)\}`)
	return header.ReplaceAll(data, fmt.Appendf(nil, "${1}, tests: %d}", tests))
}

// cuts yields offsets at which a file is cut: each in its header and at its end,
// and some line breaks and other places in between.
func cuts(data []byte) func(func(int) bool) {
	return func(yield func(int) bool) {
		// Reading a large pack takes a while: of its end and its middle there are a
		// few cuts only.
		few := max(1, len(data)/3000)
		for n := range data {
			chosen := n < 80 || n > len(data)-60 && n%few == 0 || data[n] == '\n' && n%(23*few) == 0 || n%(1999*few) == 0
			if chosen && !yield(n) {
				return
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(basePack))
	f.Add([]byte("overrides:\n- rule: 'A*'\n  set: {count: 5}\n- {rule: pack:p, disable: why}\n"))
	for _, dir := range []string{"../testdata/rules/ok", "../testdata/rules/err"} {
		files, _ := filepath.Glob(dir + "/*.yaml")
		for _, name := range files {
			if data, err := os.ReadFile(name); err == nil && len(data) < 4096 {
				f.Add(data)
			}
		}
	}
	base, _ := Parse(File{Name: "base.yaml", Data: []byte(basePack)})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		d, problems := Parse(File{Name: "p.yaml", Data: data})
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range problems {
			require.LessOrEqual(t, p.Line, lines)
			require.Equal(t, "p.yaml", p.File)
			_ = p.String()
		}
		set, more := Build([]*Document{base, d}, Options{Shipped: true, Version: "0.1.0"})
		require.Equal(t, set == nil, len(problems.Errors())+len(more.Errors()) > 0)
		if set == nil {
			return
		}
		for _, r := range set.Rules {
			require.NotEmpty(t, r.Alert)
			require.NotEmpty(t, r.Hash)
			require.NotEmpty(t, r.Source)
			require.NotEmpty(t, r.Steps)
			require.NotEmpty(t, r.Severity)
		}
	})
}
