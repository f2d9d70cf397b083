package matcher

import (
	"strings"
	"testing"

	"crowsnest/internal/literals"
	"crowsnest/rules"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExplain(t *testing.T) {
	r := ruleOf(t, "CAPIConditionAggregationFailing", rules.Matcher{
		Contains: []string{"Failed to aggregate"},
		Regex:    literals.MustExpression(`'s (?P<condition>RollingOut|ScalingUp) conditions`),
		Fields:   []rules.Field{{Name: "Cluster", Regex: anchored(`(?P<capi_cluster>.+)`)}},
		Any:      []rules.Matcher{{Contains: []string{"Machine"}}, {Contains: []string{"nothing"}}},
		Not:      &rules.Matcher{Contains: []string{"expected"}},
	}, "capi_cluster", "pod", "controller", "gone")
	r = r.WithFrom(r.From, selectorOf(t, `{container="manager", namespace="capi-system", pod!~"x.*"}`))
	r.Clear = &rules.ClearOrUnless{From: r.From, Matcher: rules.Matcher{Contains: []string{"failed to"}, Fields: []rules.Field{{Name: "cluster", Value: "a"}, {Name: "controller", Value: "machine"}}}}
	line := `2025-11-20T10:00:00Z stderr F E1120 1 x.go:1] "Failed to aggregate MachineSet's ScalingUp conditions" controller="cluster" Cluster="default/c1"` + "\r\n"
	got := Explain(r, Labels{"container": "manager", "pod": "p-0"}, []byte(line)).String()
	require.Equal(t, strings.TrimLeft(`
CAPIConditionAggregationFailing: the line matches
  text behind the cri envelope: "E1120 1 x.go:1] \"Failed to aggregate MachineSet's ScalingUp conditions\" controller=\"cluster\" Cluster=\"default/c1\""
  from
    ok  container="manager"
    ok  namespace="capi-system" (the label is not stated, which satisfies it)
    ok  pod!~"x.*"
  clear: does not hold
    no  contains "failed to" (the line has it, but upper and lower case differ)
    no  field cluster=a (the line does not have the field; it has Cluster)
    no  field controller=machine (it is "cluster")
  match: holds
    ok  contains "Failed to aggregate"
    ok  regex 's (?P<condition>RollingOut|ScalingUp) conditions
    ok  field Cluster=~^(?:(?P<capi_cluster>.+))$
    ok  any
      ok  branch
        ok  contains "Machine"
      no  branch
        no  contains "nothing"
    ok  not
      no  contains "expected"
  values of match
    capi_cluster = "default/c1" (capture)
    pod = "p-0" (label)
    controller = "cluster" (field)
    gone has no value
  fields of the line
    msg = "Failed to aggregate MachineSet's ScalingUp conditions"
    controller = "cluster"
    Cluster = "default/c1"
`, "\n"), got)

	other := Explain(r, Labels{"container": "other"}, []byte(line))
	require.False(t, other.Matches())
	require.Contains(t, other.String(), "the rule does not read this stream")
	require.Contains(t, other.String(), `no  container="manager" (it is "other")`)

	quoted := ruleOf(t, "R", rules.Matcher{Contains: []string{`Machine "m"`}, Regex: literals.MustExpression(`LOST`)})
	e := Explain(quoted, nil, []byte(`{"log":"err=\"Machine \\\"m\\\" lost\"\n","stream":"stdout","time":"2025-11-20T10:00:00Z"}`))
	require.Equal(t, "docker", e.Envelope)
	require.False(t, e.Matches())
	require.Contains(t, e.String(), `(the line has it with its quotes escaped: \")`)
	require.Contains(t, e.String(), `no  regex LOST (it matches if upper and lower case are ignored)`)
}

// TestExplainEqualsScan compares explanations with actual matches.
func TestExplainEqualsScan(t *testing.T) {
	from := []rules.Selector{selectorOf(t, `{container="manager"}`), selectorOf(t, `{container="other"}`)}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRule(t, from, 0)
		text := drawText(t)
		p, err := compileFor(&rules.Set{Rules: []*rules.Rule{r}}, newSample(1<<10))
		require.NoError(t, err)
		hits := p.Match(NewStream(manager, StreamOptions{}), Record{Time: arrival, Text: []byte(text)})
		e := Explain(r, manager, []byte(text))
		if e.Envelope != "" {
			return
		}
		require.Equal(t, len(hits) > 0, e.Matches())
		for _, part := range e.Parts {
			if !part.Matches() {
				continue
			}
			require.NotEmpty(t, hits)
			require.Equal(t, hits[0].Part, part.Part)
			for i, v := range part.Values {
				require.Equal(t, hits[0].Values[i], v.Value)
			}
			hits = hits[1:]
		}
		require.Empty(t, hits)
		require.NotEmpty(t, e.String())
	})
}

func TestTexts(t *testing.T) {
	f := func(m rules.Matcher, everyLine bool, want ...string) {
		t.Helper()
		info := Texts(ruleOf(t, "R", m))
		require.Len(t, info, 1)
		var got []string
		for _, text := range info[0].Texts {
			got = append(got, text.Text)
		}
		require.Equal(t, want, got)
		require.Equal(t, everyLine, info[0].EveryLine)
		require.Equal(t, len(m.Fields) > 0 && !everyLine, info[0].Escaped)
	}
	f(rules.Matcher{Contains: []string{"Reconciling", "leaderelection lost"}}, false, "leaderelection lost")
	f(rules.Matcher{Regex: literals.MustExpression(`^E.*(?:renew lease|update lock) \d+`)}, false, "renew lease ", "update lock ")
	f(rules.Matcher{Regex: literals.MustExpression(`(?i)etcd leader changed`)}, false, "etcd leader changed")
	f(rules.Matcher{Contains: []string{"ab"}}, true)
	f(rules.Matcher{Regex: literals.MustExpression(`\d+`)}, true)
	f(rules.Matcher{Not: &rules.Matcher{Contains: []string{"leaderelection lost"}}}, true)
	f(rules.Matcher{Any: []rules.Matcher{{Contains: []string{"leaderelection lost"}}, {Contains: []string{"lease expired"}}}}, false, "leaderelection lost", "lease expired")
	f(rules.Matcher{Any: []rules.Matcher{{Contains: []string{"leaderelection lost"}}, {Contains: []string{"x"}}}}, true)
	f(rules.Matcher{Any: []rules.Matcher{{Contains: []string{"leaderelection lost"}}, {Regex: literals.MustExpression(`.`)}}}, true)
	// The required text excludes letters that loggers may escape and text that JSON splits.
	f(rules.Matcher{Fields: []rules.Field{{Name: "Cluster", Value: `default/wild "quorum" é`}}}, false, "quorum")
	f(rules.Matcher{Fields: []rules.Field{{Name: "errVerboseStack", Regex: anchored(`.+`)}}}, false, "errVerboseStack")
	f(rules.Matcher{Fields: []rules.Field{{Name: "msg", Regex: anchored(`.+`)}}}, true)
	f(rules.Matcher{Fields: []rules.Field{{Name: "msg", Value: "leaderelection lost"}}}, false, "leaderelection lost")
	require.Nil(t, Texts(&rules.Rule{}))
}
