package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name that nothing of a rule has is a warning with the name that was probably meant.
func TestUnknownNames(t *testing.T) {
	const head = "pack: {name: p, version: 0.1.0}\nrules:\n- alert: A\n  from: '{container=\"x\", team=\"b\"}'\n  severity: info\n"
	tests := `
  tests:
  - stream: {container: x, tenant: acme}
    input: [{at: 0s, line: 'abcd controller="m" {"object":{"name":"n"}}', labels: {shard: s1}}]
    expect: [{at: 1m, firing: none}]
`
	for _, c := range []struct{ rule, want string }{
		{"  match: abcd\n  by: [tenent]", "by: [|tenent tenant"},
		{"  match: abcd\n  by: [controler]", "by: [|controler controller"},
		{"  match: abcd\n  by: [namspace]", "by: [|namspace namespace"},
		{"  match: abcd\n  by: [shrad]", "by: [|shrad shard"},
		{"  match: {regex: 'abcd (?P<volume>[a-z]+)'}\n  by: [volumes]", "by: [|volumes volume"},
		{"  match: {contains: abcd, field: {lease: x}}\n  by: [leese]", "by: [|leese lease"},
		{"  match: abcd\n  by: [zone]", "by: [|zone (?P<zone>"},
		{"  match: abcd\n  count: 2\n  within: 1m\n  distinct: controlller", "distinct: |controlller controller"},
		{"  sequence: [abcd, {contains: efgh, differs: [tennant]}]\n  within: 1m", "differs: [|tennant tenant"},
		{"  match: abcd\n  annotations: {summary: 'x {{ $vars.sharrd }}'}", "summary: |sharrd shard"},
		{"  match: abcd\n  remediation: {summary: 'x {{ $vars.sharrd }}'}", "summary: |sharrd shard"},
		{"  match: abcd\n  remediation: {summary: x, steps: [a, 'x {{ $vars.sharrd }}']}", "[a, |sharrd shard"},

		{"  match: abcd\n  by: [tenant, controller, shard, namespace, team, cluster]", ""},
		{"  match: {regex: 'abcd (?P<volume>[a-z]+)'}\n  by: [volume]", ""},
		{"  match: {any: [{regex: 'abcd (?P<a>[a-z]+)'}, {regex: 'efgh (?P<a>[a-z]+)'}]}\n  by: [a]", ""},
		{"  sequence: [{regex: 'abcd (?P<v>[a-z]+)'}, {regex: 'efgh (?P<v>[a-z]+)'}]\n  within: 1m\n  annotations: {summary: '{{ $vars.v_1 }} {{ $vars.v_2 }}'}", ""},
		{"  match: abcd\n  count: 2\n  within: 1h\n  distinct: minute", ""},
	} {
		text := head + c.rule + tests
		doc, problems := Parse(File{Name: "p.yaml", Data: []byte(text)})
		set, more := Build([]*Document{doc}, Options{})
		require.NotNil(t, set, "%s", append(problems, more...))
		var got Problems
		for _, p := range set.Warnings {
			if p.Check == "unknown-name" {
				got = append(got, p)
			}
		}
		if c.want == "" {
			require.Empty(t, got, text)
			continue
		}
		require.Len(t, got, 1, text)
		before, names, _ := strings.Cut(c.want, "|")
		name, fix, _ := strings.Cut(names, " ")
		require.Contains(t, got[0].Message, "`"+name+"`")
		require.Contains(t, got[0].Fix, fix, text)
		line := strings.Split(text, "\n")[got[0].Line-1]
		require.True(t, strings.HasSuffix(line[:got[0].Column-1], before), "%s column %d", line, got[0].Column)
	}
}

// What is missing stays missing until it returns: `expire` does not end it after a day.
func TestSilentExpire(t *testing.T) {
	for rule, want := range map[string]string{
		"silent: 24h": "30d", "silent: 24h\n  expire: 2d": "2d", "clear: efgh": "1d", "silent: 24h\n  expire: 23h": "23h silent-expire",
	} {
		doc, problems := Parse(File{Name: "p.yaml", Data: []byte("pack: {name: p, version: 0.1.0}\nrules:\n- alert: A\n  from: '{container=\"x\"}'\n  severity: info\n  match: abcd\n  " + rule + "\n")})
		set, more := Build([]*Document{doc}, Options{})
		require.NotNil(t, set, "%s", append(problems, more...))
		got := duration(set.Rules[0].Expire)
		for _, w := range set.Warnings {
			got += " " + w.Check
		}
		require.Equal(t, want, got, rule)
	}
}
