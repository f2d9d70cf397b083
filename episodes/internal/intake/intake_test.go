package intake

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

var redactor = redact.New([]*regexp.Regexp{regexp.MustCompile("password=[a-z0-9]+")})

func newIntake(identity ...string) *Intake {
	b := New(identity, NewCleaner(redactor), &render.Renderer{Redactor: redactor})
	return &b
}

func rule(by ...string) *rules.Rule {
	return &rules.Rule{Alert: "Demo", By: by, CapturedNames: append(by, "v")}
}

// accept prepares a hit as an engine does.
func accept(b *Intake, m *Memory, h *matcher.Hit) (by []redact.Text, missing bool) {
	b.SetOrigin(h.Labels)
	b.Hit = window.Hit{Values: b.CleanValues(m, h)}
	return b.KeyOf(m, b.Hit.Values)
}

// What is remembered of the hit before changes no value, key or origin.
func TestMemoryChangesNothing(t *testing.T) {
	r := rule("namespace", "name")
	streams := []matcher.Labels{nil, {"namespace": "a"}, {"namespace": "a", "cluster": "east"}}
	b, m := newIntake("cluster"), NewMemory(r)
	for i := range 200 {
		h := &matcher.Hit{Rule: r, Line: "the line", Labels: streams[i/3%len(streams)]}
		h.Values = []string{h.Labels["namespace"], []string{"x", "y\x00", ""}[i/7%3], "v"}
		h.Values = h.Values[:2+i/5%2]
		by, missing := accept(b, &m, h)
		fresh, none := newIntake("cluster"), NewMemory(r)
		wantBy, wantMissing := accept(fresh, &none, h)
		require.Equal(t, wantBy, by)
		require.Equal(t, wantMissing, missing)
		require.Equal(t, string(fresh.Key), string(b.Key))
		require.Equal(t, fresh.Hit.Values, b.Hit.Values)
		require.Equal(t, fresh.Tenant, b.Tenant)
	}
}

func TestKeys(t *testing.T) {
	b, r := newIntake("cluster"), rule("a", "b")
	seen := map[string]string{}
	for _, labels := range []matcher.Labels{nil, {"cluster": "x"}, {"cluster": "xy"}} {
		for _, values := range [][]string{{"x", ""}, {"", "x"}, {"xy", "z"}, {"x", "yz"}, {"x", "\xff"}} {
			m := NewMemory(r)
			by, missing := accept(b, &m, &matcher.Hit{Rule: r, Labels: labels, Values: values})
			what := fmt.Sprint(labels, values)
			require.NotContains(t, seen, string(b.Key), "%s and %s", what, seen[string(b.Key)])
			seen[string(b.Key)] = what
			require.Equal(t, values[0] == "" || values[1] == "", missing)
			require.Equal(t, string(b.Key), JoinKey(by, b.StreamIdentity))
			require.Equal(t, JoinKey(by, nil), b.KeyWithoutIdentity())
		}
	}
}

func TestValuesAreCleanedAndBounded(t *testing.T) {
	f := func(line, value, want string) {
		t.Helper()
		b, r := newIntake(), rule("v")
		m := NewMemory(r)
		for range 2 { // the second time from the cache
			by, _ := accept(b, &m, &matcher.Hit{Rule: r, Line: line, Values: []string{value}})
			require.Equal(t, []redact.Text{redact.Text(want)}, by)
		}
	}
	f("x", "x", "x")
	f("a\tb", "a\tb", "a b")
	f("password=hunter2", "hunter2", "<redacted>") // the line makes it a secret
	f("hunter2", "hunter2", "hunter2")
	f("x", "", "")
	long := strings.Repeat("é", MaxValue)
	f(long, long, long[:MaxValue])
}

// A label of the stream is not a secret, whatever the line says.
func TestLabelsAreNotRedacted(t *testing.T) {
	b, r := newIntake(), rule("pod")
	m := NewMemory(r)
	by, _ := accept(b, &m, &matcher.Hit{Rule: r, Line: "password=web", Labels: matcher.Labels{"pod": "web"}, Values: []string{"web"}})
	require.Equal(t, []redact.Text{"web"}, by)
}

func TestEndDropsTheCallersMemory(t *testing.T) {
	b, r := newIntake(), rule("a")
	m := NewMemory(r)
	accept(b, &m, &matcher.Hit{Rule: r, Values: []string{"value"}})
	b.DropReferences()
	require.Equal(t, window.Hit{}, b.Hit)
	require.Equal(t, []redact.Text{""}, b.keyValues[:1])
	require.True(t, b.IsReleased())
}

func TestIdentity(t *testing.T) {
	b := newIntake("cluster", "tenant")
	require.Nil(t, b.Identity(matcher.Labels{"namespace": "a"}))
	east := b.Identity(matcher.Labels{"cluster": "east"})
	require.Same(t, east, b.Identity(matcher.Labels{"cluster": "east", "pod": "x"}))
	require.NotEqual(t, east.KeySuffix(), b.Identity(matcher.Labels{"tenant": "east"}).KeySuffix())

	// A snapshot may have other labels.
	require.Same(t, east, b.SavedIdentity([]string{"site", "cluster"}, []string{"s", "east"}))
	require.Nil(t, b.SavedIdentity([]string{"site"}, []string{"s"}))
	require.Nil(t, b.SavedIdentity([]string{"cluster"}, nil), "damaged")

	labels := map[string]string{"cluster": "other"}
	east.AddTo(labels, []string{"cluster", "tenant"})
	require.Equal(t, map[string]string{"cluster": "other", "stream_cluster": "east"}, labels)
}

func TestParty(t *testing.T) {
	b := newIntake("cluster", "tenant")
	f := func(labels matcher.Labels, want string) {
		t.Helper()
		b.SetOrigin(labels)
		require.Equal(t, want, b.Tenant)
	}
	f(nil, "")
	f(matcher.Labels{"namespace": "ns"}, "ns")
	f(matcher.Labels{"namespace": "ns", "cluster": "c", "tenant": "t"}, "c/t/ns")
	f(matcher.Labels{"tenant": "t"}, "t/")
	f(matcher.Labels{"namespace": "\xff"}, "\uFFFD")
}

func TestLogsAreCounted(t *testing.T) {
	b, l := newIntake(), Logs{}
	note := func(pod string) {
		b.SetOrigin(matcher.Labels{"pod": pod})
		l.CountLog(&b.Origin)
	}
	note("a")
	note("a")
	require.Equal(t, "pod a", l.String())
	note("b")
	copied := l.Clone()
	note("c")
	note("b")
	require.Equal(t, "pod a and 1 other log", copied.String())
	require.Equal(t, "pod a and 2 other logs", l.String())
	for i := range 100 {
		note(fmt.Sprint(i))
	}
	require.Equal(t, "pod a and at least 15 other logs", l.String())
	require.Len(t, Logs{Hashes: make([]uint64, 1000)}.Clone().Hashes, maxLogs)
	b.SetOrigin(matcher.Labels{"pod": "z", "namespace": "shop"})
	l.CountLog(&b.Origin)
	require.Equal(t, "pod a and at least 15 other logs, also in namespace shop", l.String())
}
