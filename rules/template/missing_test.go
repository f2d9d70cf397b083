package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A text without some of its values reads as a sentence.
func TestMissingValues(t *testing.T) {
	for source, want := range map[string]string{
		"Controller {{ $labels.controller }} has failed":                           "A controller has failed",
		"MachineDeployment {{ $labels.name }} does not scale":                      "A MachineDeployment does not scale",
		"{{ $labels.controller }} has failed":                                      "A controller has failed",
		"{{ $labels.node_group }} has no nodes":                                    "A node group has no nodes",
		"{{ $labels.namespace }}/{{ $labels.pod }} lost its lease":                 "A pod lost its lease",
		"{{ $labels.have }}/{{ $labels.pod }} lost its lease":                      "v lost its lease",
		"{{ $labels.namespace }}/{{ $labels.have }} lost its lease":                "v lost its lease",
		"The pod {{ $labels.namespace }}/{{ $labels.pod }} waits":                  "The pod waits",
		"The autoscaler in {{ $labels.namespace }} of {{ $labels.cluster }} fails": "The autoscaler in a namespace of a cluster fails",
		"The plugin on node {{ $labels.node }} fails":                              "The plugin on a node fails",
		"The plugin on the {{ $labels.node }} node fails":                          "The plugin on the node fails",
		"Node group {{ $labels.node_group }} is full":                              "A node group is full",
		"Pods wait for {{ $vars.pool }}.":                                          "Pods wait for a pool.",
		"Pods wait (pool {{ $vars.pool }}, zone {{ $vars.have }}).":                "Pods wait (pool, zone v).",
		"Pods wait ({{ $vars.pool }}).":                                            "Pods wait.",
		"Pods wait (\"{{ $vars.pool }}\").":                                        "Pods wait.",
		"It cannot find \"{{ $vars.pool }}\" there":                                "It cannot find a pool there",
		"The cloud refuses the autoscaler in {{ $labels.have }}: {{ $vars.code }}": "The cloud refuses the autoscaler in v",
		"It fails. The newest error: {{ $vars.err }}. See {{ $labels.have }}.":     "It fails. The newest error: not known. See v.",
		"It stops because {{ $vars.why }}. It waits.":                              "It stops. It waits.",
		"It stops because of {{ $vars.why }}. It waits.":                           "It stops because of a reason. It waits.",
		"{{ $labels.namespace }}: the quota is used up":                            "The quota is used up",
		"{{ $vars.count }} pods wait":                                              "Some pods wait",
		"The API of {{ $labels.cluster }}'s control plane":                         "The API of a cluster's control plane",
		"A node {{ if $vars.node }}({{ $vars.node }}) {{ end }}ran out of memory":  "A node ran out of memory",
		"A node{{ if $vars.node }} {{ $vars.node }}{{ end }} ran out of memory":    "A node ran out of memory",
		"It fails {{ if $vars.node }}on {{ $vars.node }}{{ end }}.":                "It fails.",
		"From {{ $vars.from }} to {{ $vars.to }}":                                  "From a from to a to",
		"See https://x.example/{{ $labels.pod }}/logs":                             "See https://x.example/POD/logs",
		"{{ $labels.have }} {{ toUpper $labels.pod }} waits":                       "A v waits",
		"{{ $vars.err }}, {{ $vars.have }}":                                        ", v",
		"Unit {{ $vars.unit }} of user {{ $vars.user }}":                           "A unit of a user",
		"  indented   text stays":                                                  "  indented   text stays",
		"{{ $labels.have }}  {{ $labels.have }}":                                   "v  v",
	} {
		tmpl, err := Parse(source)
		require.NoError(t, err)
		got, ok := tmpl.ExecuteText(Data{Labels: map[string]string{"have": "v"}, Vars: map[string]string{"have": "v"}}, func(s string) string { return s })
		require.True(t, ok)
		assert.Equal(t, want, got, source)
	}
}

// Documents show a template with placeholders, and the text that it has where names have values.
func TestWords(t *testing.T) {
	for source, want := range map[string]string{
		"plain": "PLAIN",
		"a {{ $labels.pod }} of {{ toUpper $vars.node }}":                                       "A <pod> OF <node>",
		"a{{ if $vars.x }} in {{ $vars.x }}{{ end }} b":                                         "A IN <x> B",
		"{{ if $vars.x }}{{ $vars.x }}{{ else if $vars.y }}{{ $vars.y }}{{ else }}z{{ end }}":   "<x>",
		`{{ if eq $labels.kind "a" }}special{{ else }}usual{{ end }}`:                           "USUAL",
		`a{{ if match "x" $labels.kind }} special{{ end }} b`:                                   "A B",
		`a{{ if and $vars.x $vars.y }} both{{ end }} b`:                                         "A BOTH B",
		"{{ if $vars.x }}{{ if eq $vars.y \"1\" }}one{{ else }}{{ $vars.x }}{{ end }}{{ end }}": "<x>",
		"{{ \"constant\" }}x{{/* comment */}}":                                                  "CONSTANTX",
	} {
		tmpl, err := Parse(source)
		require.NoError(t, err, source)
		require.Equal(t, want, tmpl.DocumentText(func(name string) string { return "<" + name + ">" }, strings.ToUpper), source)
	}
}
