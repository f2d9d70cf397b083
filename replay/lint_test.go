package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func TestUntested(t *testing.T) {
	f := func(key, tests string, want ...string) {
		t.Helper()
		doc, problems := rules.Parse(rules.File{Name: "a.yaml", Data: []byte(`pack: {name: a, version: 1.0.0}
rules:
- alert: A
  from: '{container="manager"}'
  match: "lost the lease"
  ` + key + `
  severity: warning
  annotations: {summary: "lost"}
  tests: [` + tests + "]\n")})
		require.Empty(t, problems.Errors())
		set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.NotNil(t, set, problems)
		found, err := Untested(set.Rules)
		require.NoError(t, err)
		var got []string
		for _, p := range found {
			require.Equal(t, []any{"a.yaml", 6, 3}, []any{p.File, p.Line, p.Column})
			got = append(got, p.Check)
		}
		require.Equal(t, want, got)
	}
	test := func(container, line string) string {
		return `{name: t, stream: {container: ` + container + `}, input: [{at: 0s, line: 'lost the lease'}, {at: 1m, line: '` + line + `', repeat: 2, every: 1s}], expect: [{at: 2m, firing: none}]}`
	}
	f(`clear: "took the lease"`, test("manager", "took the lease"))
	f(`clear: "took the lease"`, test("manager", "took a lease"), "untested-clear")
	f(`clear: "took the lease"`, test("other", "took the lease"), "untested-clear")
	f(`clear: "took the lease"`, "", "untested-clear")
	f(`clear: {contains: lease, field: {state: held}}`, test("manager", "lease state=held"))
	f(`clear: {contains: lease, field: {state: held}}`, test("manager", "lease state=free"), "untested-clear")
	f(`clear: {regex: 'lease (\d) taken'}`, test("manager", "lease {{ $value }} taken"))
	f(`clear: {contains: renewed, not: stolen}`, test("manager", "renewed, stolen"), "untested-clear")
	f(`unless: {contains: maintenance, within: 1h}`, test("manager", "maintenance begins"))
	f(`unless: {contains: maintenance, within: 1h}`, test("manager", "maintenence begins"), "untested-unless")
}
