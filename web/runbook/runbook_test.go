package runbook

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func build(t *testing.T, text string) *rules.Set {
	t.Helper()
	d, problems := rules.Parse(rules.File{Name: "test.yaml", Data: []byte("pack: {name: test, version: 0.1.0}\nrules:\n" + text)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{d}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}

func TestWhen(t *testing.T) {
	f := func(rest, want string) {
		t.Helper()
		set := build(t, `- {alert: A, from: '{container="x"}', severity: info, `+rest+"}")
		require.Equal(t, want, describeTrigger(set.Rules[0]))
	}
	f(`match: "valve stuck"`, "It fires once for all lines when such a line appears. It resolves 15m after the last line.")
	f(`match: "valve stuck", by: [pod], keep_firing_for: 5m`, "It fires per *pod* when such a line appears. It resolves 5m after the last line.")
	f(`match: "valve stuck", by: [a, b, c], count: 3, within: 10m`, "It fires per *a*, *b* and *c* when 3 such lines appear within 10m. It resolves 15m after the last line.")
	f(`match: "valve stuck", by: [pod], silent: 10m, expire: 1h`, "It fires per *pod* when such lines stop: one was seen, and then none for 10m. It resolves when the next line of this kind is logged, or after 1h.")
	f(`match: "valve stuck", count: 3, within: 10m, distinct: pod`, "It fires once for all lines when such lines have 3 different values of *pod* within 10m. It resolves 15m after the last line.")
	f(`sequence: ["valve stuck", "pump stuck"], within: 10m`, "It fires once for all lines when 2 lines follow each other within 10m. It resolves 15m after the last line.")
	f(`match: "valve stuck", by: [a, b], for: 2m, clear: {contains: "valve free", same: [a]}`, "It fires per *a* and *b* when such a line appears and no line clears it for 2m. It resolves when a line of the same *a* clears it, or 1d after the last line.")
	f(`match: "valve stuck", for: 20m, by: [a], unless: {contains: "upgrade", within: 1h}`, "It fires per *a* when such a line appears and such lines keep appearing for 20m, with gaps below 15m, unless a line mutes it, from 1h before until it fires. It resolves 15m after the last line.")
}

func TestDiagnosis(t *testing.T) {
	set := build(t, `
- alert: A
  from: '{container="x"}'
  severity: info
  match: {contains: [valve, "a`+"`"+`b"], field: {x: "1", y: "~z.*"}, any: [one, {regex: "tw.o"}], not: {any: [three, four]}}
  clear: valve free`)
	require.Equal(t, "The rule reads the streams `{container=\"x\"}` and looks for\n\n"+
		"- a line that\n  - contains `valve`\n  - contains ``a`b``\n  - has the field `x` with the value `1`\n  - has a field `y` that matches `z.*`\n"+
		"  - satisfies one of these:\n    - it contains `one`\n    - it matches `tw.o`\n  - but not one that\n    - satisfies one of these:\n      - it contains `three`\n      - it contains `four`\n"+
		"- to clear: a line that contains `valve free`\n\nWhy a line matches or not: `crowsnest explain A --line '...'`.", diagnosisSection(set.Rules[0]))
}

// Text in a rule cannot act as markup.
func TestHostile(t *testing.T) {
	set := build(t, `
- alert: A
  from: '{container="x"}'
  severity: info
  match: valve
  by: [pod]
  annotations: {summary: "<script>*{{ $labels.pod }}* [x](y) | z"}
  remediation: {summary: "<b>", steps: ["echo '`+"```"+`' {{ $labels.pod }}"], affects: [{component: "a|b", versions: "<1.0", fixed_in: "1.0", ref: "javascript:x"}]}
  tests:
  - {name: "<i>", stream: {container: x}, input: [{at: 0s, line: "valve `+"```"+` <b>"}], expect: [{at: 1m, firing: [{alertname: A}]}]}`)
	page := Page(set, set.Rules[0])
	require.NotRegexp(t, regexp.MustCompile(`(?m)^[^`+"`"+`]*(^|[^\\])<(script|b|i)>`), strings.ReplaceAll(page, "  valve", "`"))
	require.Contains(t, page, `\<script>\**pod*\* \[x](y) | z`)
	require.Contains(t, page, "1. ````echo '```' POD````")
	require.Contains(t, page, `| a\|b | `+"`<1.0`"+` | 1.0 | javascript:x |`)
	require.Contains(t, Pages(set)["test/README.md"], `\<script>\**pod*\* \[x](y) \| z |`)
}

// The pages in docs/rules are those of the shipped packs; `make docs` writes them.
func TestPagesOfShippedPacks(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	want := Pages(set)
	require.Equal(t, want, Pages(set))
	root := filepath.Join("..", "..", "docs", "rules")
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		page, ok := want[filepath.ToSlash(name)]
		require.True(t, ok, "docs/rules/%s belongs to no rule; run make docs", name)
		require.Equal(t, page, string(text), "docs/rules/%s is out of date; run make docs", name)
		found++
		return nil
	})
	require.NoError(t, err)
	require.Len(t, want, found, "pages are missing in docs/rules; run make docs")
}

// Every page has its sections, and every link between pages is valid.
func TestPages(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	pages := Pages(set)
	link := regexp.MustCompile(`\]\(([^)#:]+\.md)\)`)
	for name, page := range pages {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			require.Contains(t, pages, filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1])), name)
		}
		require.NotContains(t, page, "\n\n\n", name)
		require.NotContains(t, page, "{{", name)
	}
	for _, r := range set.Rules {
		for _, part := range []string{"## Meaning\n", "## Impact\n", "## Diagnosis\n", "## Mitigation\n", "Lines that raise it", "It stays silent"} {
			require.Contains(t, Page(set, r), part, r.Alert)
		}
	}
}
