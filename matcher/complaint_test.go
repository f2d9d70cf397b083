package matcher

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

// complaintsOf returns the lines of a text that complain and that no rule matches.
func complaintsOf(t *testing.T, text string, join Join) (out []string) {
	t.Helper()
	p := compile(t, ruleOf(t, "Watched", rules.Matcher{In: rules.InAnywhere, Contains: []string{"a rule watches this"}}))
	s := NewStream(manager, StreamOptions{Join: join})
	buf := NewBuffer(-1)
	p.ScanInto(buf, s, []byte(text), arrival)
	for _, x := range buf.Complaints() {
		out = append(out, strings.Clone(x.Line))
	}
	p.FlushInto(buf, s, arrival)
	for _, x := range buf.Complaints() {
		out = append(out, strings.Clone(x.Line))
	}
	return out
}

func TestComplaints(t *testing.T) {
	for _, line := range []string{
		`E0302 10:00:00.000000       1 a.go:1] "Cannot write"`,
		`W0302 10:00:00.000000       1 a.go:1] "Slow"`,
		`{"level":"error","ts":1,"msg":"x"}`,
		`{"ts":1,"level":"warn","msg":"x"}`,
		`{"ts":"2026-03-02T10:00:00Z","caller":"a.go:1","msg":"verify","err":"x"}`,
		`{"time":"2026-03-02T10:00:00Z","severity":"CRITICAL","message":"x"}`,
		`{"lvl":50,"msg":"over there"}`,
		`time="2026-03-02T10:00:00Z" level=error msg="x"`,
		`time="2026-03-02T10:00:00Z" level=fatal msg="x"`,
		`2026-03-02T10:00:00Z	ERROR	setup	x`,
		`[ERROR] x is y`,
		`panic: runtime error: index out of range`,
		`the backup of the volume failed`,
		`I0302 10:00:00.000000       1 a.go:1] "Waiting for the infrastructure" machine="a"`,
	} {
		require.Equal(t, []string{line}, complaintsOf(t, line+"\n", JoinStream), line)
		require.Empty(t, complaintsOf(t, line+" a rule watches this\n", JoinStream), line)
	}
	for _, line := range []string{
		`I0302 10:00:00.000000       1 a.go:1] "Reconciled"`,
		`{"level":"info","ts":1,"msg":"reconciled"}`,
		`{"ts":1,"caller":"a.go:1","msg":"reconciled","v":0}`,
		`{"level":"debug","msg":"reconciled"}`,
		`time="2026-03-02T10:00:00Z" level=info msg="reconciled"`,
		`10.0.0.1 - - [02/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 12`,
		"\tat x.y(z.java:1) failed",
		"short",
		"",
	} {
		require.Empty(t, complaintsOf(t, line+"\n", JoinStream), line)
	}
}

// A record is one complaint, and none if a rule matches any of its lines.
func TestComplaintsOfRecords(t *testing.T) {
	block := "E0302 10:00:00.000000       1 a.go:1] \"Cannot write\" err=<\n\tthe disk is full\n > controller=\"a\"\n"
	panicked := "panic: the map is nil\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:1 +0x1\n"
	for _, text := range []string{block, panicked} {
		require.Equal(t, []string{strings.TrimSuffix(text, "\n")}, complaintsOf(t, text, JoinStream))
	}
	require.Empty(t, complaintsOf(t, strings.Replace(block, "the disk is full", "a rule watches this", 1), JoinStream))
	require.Empty(t, complaintsOf(t, strings.Replace(panicked, "the map is nil", "a rule watches this", 1), JoinStream))
}

// A complaint has the time of its envelope. Without complaints wanted there are none, and a
// line that is harmless costs no allocation.
// A line of a namespace that a rule does not trust is a complaint, also where the program
// finds what the rule would have matched.
func TestComplaintsOfUntrustedNamespaces(t *testing.T) {
	trusted, err := namespaces.Parse(nil)
	require.NoError(t, err)
	for _, infrastructure := range []bool{true, false} {
		r := ruleOf(t, "Watched", rules.Matcher{Contains: []string{"lost"}})
		r.Infrastructure = infrastructure
		set := &rules.Set{Rules: []*rules.Rule{r}, Namespaces: trusted}
		p, err := CompileOpen(set)
		require.NoError(t, err)
		for namespace, complains := range map[string]bool{"kube-system": false, "team-a": infrastructure} {
			buf := NewBuffer(-1)
			hits := p.ScanInto(buf, NewStream(Labels{"namespace": namespace, "container": "manager"}, StreamOptions{}), []byte("E0302 10:00:00.000000       1 a.go:1] lost\n"), arrival)
			require.Len(t, hits, 1, namespace)
			require.Equal(t, complains, len(buf.Complaints()) == 1, namespace)
		}
	}
}

func TestComplaintTimes(t *testing.T) {
	p := compile(t, ruleOf(t, "Watched", rules.Matcher{Contains: []string{"a rule watches this"}}))
	s := NewStream(manager, StreamOptions{Join: JoinStream})
	line := []byte("2026-03-02T10:00:07.5Z stderr F E0302 10:00:00.000000       1 a.go:1] \"Cannot write\"\n")
	buf := NewBuffer(10)
	p.ScanInto(buf, s, line, arrival)
	require.Len(t, buf.Complaints(), 1)
	require.Equal(t, time.Date(2026, 3, 2, 10, 0, 7, 5e8, time.UTC), buf.Complaints()[0].Time.UTC())
	require.False(t, buf.Complaints()[0].Untimed)

	plain := new(Buffer)
	p.ScanInto(plain, s, line, arrival)
	require.Empty(t, plain.Complaints())
	harmless := []byte(strings.Repeat("2026-03-02T10:00:07.5Z stderr F I0302 10:00:00.000000       1 a.go:1] \"Reconciled\" a=\"b\"\n", 50))
	require.Zero(t, testing.AllocsPerRun(20, func() { p.ScanInto(buf, s, harmless, arrival) }))
}

// Only so many lines of a call are searched for words.
func TestComplaintsSearched(t *testing.T) {
	p := compile(t, ruleOf(t, "Watched", rules.Matcher{Contains: []string{"a rule watches this"}}))
	s := NewStream(manager, StreamOptions{})
	buf := NewBuffer(10)
	text := strings.Repeat("the backup of the volume failed\n", 50) + "E0302 10:00:00.000000       1 a.go:1] \"Cannot write\"\n"
	for range 2 {
		p.ScanInto(buf, s, []byte(text), arrival)
		require.Len(t, buf.Complaints(), 11)
	}
}
