package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/loader"
	"crowsnest/export"
	"crowsnest/importer"
	"crowsnest/rules"
)

// What is exported for Loki's ruler comes back as the same rule, if the query has no fields and
// captures. The ruler's range of a single line is the time for which the alert is kept.
func TestExportedRulesComeBack(t *testing.T) {
	docs, problems := loader.ParseFiles([]rules.File{{Name: "a.yaml", Data: []byte(`pack: {name: a, rules: 5}
rules:
- alert: Text
  from: '{container="web"}'
  match: "out of stock"
  keep_firing_for: 20m
  by: [namespace]
  severity: critical
  annotations: {summary: "{{ $labels.namespace }} is out of stock"}
- alert: Count
  from: '{container=~"web|shop", namespace!="test"}'
  match: {contains: [payment, refused], regex: 'code=\d+', not: "test card"}
  count: 7
  within: 10m
  keep_firing_for: 10m
  by: [namespace, container]
  severity: warning
- alert: Kinds
  from: '{container="web"}'
  match: {any: ["first text", "second text"], not: {any: ["third text", {regex: "fo+rth"}]}}
  count: 3
  within: 5m
  keep_firing_for: 5m
  distinct: pod
  by: [namespace]
  severity: info
- alert: Lasting
  from: '{container="web"}'
  match: {regex: 'slow for \d+s'}
  for: 5m
  keep_firing_for: 2m
  severity: warning
- alert: Quotes
  from: '{container="web"}'
  match: {contains: 'a "quoted" \ text', regex: 'with\s"\w+"'}
  severity: warning
`)}})
	set, found := loader.Build(docs, rules.Options{})
	require.Empty(t, append(problems, found...).Errors())
	exported := export.Loki(set, export.Options{})
	require.Empty(t, exported.Refused)
	var file bytes.Buffer
	require.NoError(t, exported.WriteGroups(&file, "a comment"))

	r, err := importer.Import(importer.Loki, []importer.File{{Name: "loki.yml", Data: file.Bytes()}}, importer.Options{Pack: "b", Try: tryRules})
	require.NoError(t, err)
	require.Zero(t, r.Count(importer.Refused), r.Outcomes)
	back := importedSet(t, r)
	for _, want := range set.Rules {
		got := back.Rule(want.Alert)
		require.NotNil(t, got, want.Alert)
		from := want.From.String()
		if want.Distinct != "" { // a line without a value does not count
			from = strings.TrimSuffix(from, "}") + ", " + want.Distinct + `!=""}`
		}
		require.Equal(t, from, got.From.String())
		require.Equal(t, want.Severity, got.Severity)
		require.Equal(t, []any{want.Count, want.Within, want.For, want.Distinct, want.KeepFiringFor}, []any{got.Count, got.Within, got.For, got.Distinct, got.KeepFiringFor}, want.Alert)
		require.Subset(t, got.By, want.By)
		for _, line := range []string{
			"out of stock", "payment refused code=5", "payment refused code=5 test card", "first text", "second text", "first text third text", "second text foorth",
			"slow for 5s", `a "quoted" \ text with "x"`, `a "quoted" \ text`,
		} {
			require.Equal(t, firesOn(t, want, line), firesOn(t, got, line), "%s: %s", want.Alert, line)
		}
	}
}

// firesOn reports whether the matcher of a rule accepts a line.
func firesOn(t *testing.T, r *rules.Rule, line string) bool {
	t.Helper()
	one := *r
	one.Count, one.Within, one.Distinct, one.For = 1, 0, "", 0
	return len(compiledRules{}.firing(t, []*rules.Rule{&one}, map[string]string{"container": "web", "namespace": "shop", "pod": "web-0"}, []byte(line+"\n"))) > 0
}
