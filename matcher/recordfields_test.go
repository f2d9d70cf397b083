package matcher

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

func recordOf(text string, number uint64, fields ...string) Record {
	r := Record{Time: time.Unix(1, 0), Text: []byte(text), Number: number}
	for i := 0; i < len(fields); i += 2 {
		r.Fields = append(r.Fields, Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	return r
}

// Fields of a record precede those in its text, fulfil conditions on fields, are captured,
// and are no text of the line.
func TestRecordFields(t *testing.T) {
	field := func(name, value string) rules.Matcher {
		return rules.Matcher{Fields: []rules.Field{{Name: name, Value: value}}}
	}
	byField := ruleOf(t, "ByField", field("unit", "kubelet"), "pid")
	byText := ruleOf(t, "ByText", rules.Matcher{Contains: []string{"kubelet"}})
	both := ruleOf(t, "Both", rules.Matcher{Contains: []string{"lost"}, Fields: []rules.Field{{Name: "unit", Value: "kubelet"}}})
	without := ruleOf(t, "Without", rules.Matcher{Contains: []string{"lost"}, Not: &rules.Matcher{Fields: []rules.Field{{Name: "unit", Value: "kubelet"}}}})
	p := compile(t, byField, byText, both, without)
	f := func(rec Record, want ...string) []Hit {
		t.Helper()
		hits := p.Match(NewStream(manager, StreamOptions{}), rec)
		var got []string
		for _, h := range hits {
			got = append(got, h.Rule.Alert)
		}
		require.Equal(t, want, got)
		return hits
	}
	hits := f(recordOf("lost", 0, "unit", "kubelet", "pid", "7"), "ByField", "Both")
	require.Equal(t, []string{"7"}, hits[0].Values)
	f(recordOf("lost unit=kubelet", 0, "unit", "cron"), "ByText", "Without")
	f(recordOf("lost unit=kubelet", 0), "ByField", "ByText", "Both")
	f(recordOf("lost", 0, "other", "kubelet"), "Without")
	f(recordOf("", 0, "unit", "kubelet"), "ByField")
	f(recordOf("nothing", 0, "unit", "cron"))
}

// A field in the text names an object that the program works on, never the place of the program.
func TestFieldsAreNoPlace(t *testing.T) {
	const text = `"failed" namespace="shop" pod="web-0" container="app" node_name="n" image="i:1" node="worker"`
	names := []string{"namespace", "pod", "container", "node_name", "image", "node"}
	f := func(from string, labels Labels, fields []string, want ...string) {
		t.Helper()
		r := ruleOf(t, "R", rules.Matcher{Contains: []string{"failed"}}, names...).WithFrom(selectorOf(t, `{container="manager"}`), selectorOf(t, from))
		hits := compile(t, r).Match(NewStream(labels, StreamOptions{Lenient: true}), recordOf(text, 0, fields...))
		require.Len(t, hits, 1)
		require.Equal(t, want, hits[0].Values)
		for _, v := range Explain(r, labels, []byte(text)).Parts[0].Values {
			if len(fields) == 0 {
				require.Equal(t, want[slices.Index(names, v.Name)], v.Value, v.Name)
			}
		}
	}
	f(`{container=~".+"}`, nil, nil, "", "", "", "", "", "worker")
	f(`{pod=~"capi-.*"}`, Labels{"pod": "capi-0"}, nil, "", "capi-0", "", "", "", "worker")
	f(`{container="manager"}`, manager, nil, "ns", "p-0", "manager", "", "", "worker")
	f(`{container="manager"}`, nil, []string{"pod", "stated"}, "", "stated", "", "", "", "worker")
	f(`{namespace=~".+"}`, nil, nil, "", "web-0", "app", "n", "i:1", "worker")
	f(`{unit=~"kube.*|", component=""}`, nil, nil, "shop", "web-0", "app", "n", "i:1", "worker")
}

func TestRecordNumbers(t *testing.T) {
	p := compile(t, everything(t))
	id := func(number uint64) uint64 {
		return p.Match(NewStream(manager, StreamOptions{}), recordOf("a", number))[0].ID
	}
	require.Equal(t, id(5), id(5))
	require.NotEqual(t, id(5), id(6))
	require.NotEqual(t, id(0), id(1))
}

// A stream that anyone may write to is not trusted by infrastructure rules.
func TestForeignStreams(t *testing.T) {
	r := ruleOf(t, "Infrastructure", rules.Matcher{Contains: []string{"lost"}})
	r.Infrastructure = true
	trusted, err := namespaces.Parse([]string{"kube-system"})
	require.NoError(t, err)
	p, err := Compile(&rules.Set{Rules: []*rules.Rule{r, ruleOf(t, "Any", rules.Matcher{Contains: []string{"lost"}})}, Namespaces: trusted})
	require.NoError(t, err)
	labels := Labels{"container": "manager"}
	require.Len(t, p.Match(NewStream(labels, StreamOptions{}), recordOf("lost", 1)), 2)
	require.Len(t, p.Match(NewStream(labels, StreamOptions{Foreign: true}), recordOf("lost", 1)), 1)
}

// A collector that writes the records that it reads to its own log does not say them.
func TestCopiedRecords(t *testing.T) {
	p, err := Compile(&rules.Set{Rules: []*rules.Rule{ruleOf(t, "A", rules.Matcher{Contains: []string{"lease lost"}})}})
	require.NoError(t, err)
	for text, want := range map[string]int{
		`{"kubernetes":{"pod_name":"web","pod_namespace":"tenant"},"message":"lease lost","stream":"stderr"}`:          0,
		`{"message":"lease lost","kubernetes":{"pod_labels":{"a":"vector-0","pod_name":"vector-0"},"pod_name":"web"}}`: 0,
		`{"message":"lease lost","kubernetes":{"pod":{"name":"web"}}}`:                                                 0,
		`{"message":"lease lost","kubernetes":{"pod_name":"vector-0"}}`:                                                1,
		`{"message":"lease lost","kubernetes":"1.35"}`:                                                                 1,
		`{"message":"lease lost \"kubernetes\":{\"pod_name\":\"web\"}"}`:                                               1,
	} {
		require.Len(t, p.Match(NewStream(Labels{"pod": "vector-0", "container": "manager"}, StreamOptions{}), recordOf(text, 1)), want, text)
		require.Len(t, p.Match(NewStream(Labels{"container": "manager"}, StreamOptions{}), recordOf(text, 1)), 1, "a store without the label: %s", text)
	}
}
