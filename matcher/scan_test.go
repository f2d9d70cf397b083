package matcher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"crowsnest/rules"

	"github.com/stretchr/testify/require"
)

// texts returns the lines of hits.
func texts(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Line)
	}
	return out
}

// everything matches each line that has a letter.
func everything(t testing.TB) *rules.Rule {
	return ruleOf(t, "Everything", rules.Matcher{In: rules.InAnywhere, Any: []rules.Matcher{{Contains: []string{"a"}}, {Contains: []string{"l"}}, {Contains: []string{"x"}}}})
}

func TestEnvelopes(t *testing.T) {
	p := compile(t, everything(t))
	f := func(format Format, input string, want ...string) Counters {
		t.Helper()
		s := NewStream(manager, StreamOptions{Format: format})
		require.Equal(t, want, texts(scanAll(p, s, []string{input})))
		c := s.Counters()
		require.Equal(t, c.Lines, c.Evaluated+c.Dropped)
		require.EqualValues(t, len(input), c.Bytes)
		return c
	}
	const ns = "2025-11-20T10:00:00.123456789Z"
	f(FormatAuto, ns+" stderr F a b\n", "a b")
	f(FormatAuto, ns+" stderr F a b", "a b")
	f(FormatCRI, "2025-11-20T10:00:00Z stdout F ab\r\n", "ab")
	f(FormatCRI, "2025-11-20T10:00:00.1+01:00 stdout F ab\r\r\n", "ab\r")
	f(FormatCRI, ns+" stdout F:tag:tag ab\n", "ab")
	f(FormatCRI, ns+" stdout F:tag\n"+ns+" stdout F\n"+ns+" stdout F \n"+ns+" stdout F\r\n"+ns+" stdout F l\n", "l")
	f(FormatCRI, "2025-11-20T10:00:00.12Z stdout F  Z a\n", " Z a")
	c := f(FormatCRI, ns+" stdxxx F a\n\n"+ns+" stdout X a\n"+ns+" stdout Fa\n", ns+" stdxxx F a", ns+" stdout X a", ns+" stdout Fa")
	require.EqualValues(t, 4, c.Unparsed)

	// Parts are joined separately for each stream.
	f(FormatCRI, ns+" stdout P a1\n"+ns+" stderr P l1\n"+ns+" stdout P a2\n"+ns+" stderr F l2\n"+ns+" stdout F a3\n", "l1l2", "a1a2a3")
	f(FormatCRI, ns+" stdout P a1\n"+ns+" stderr P l1\n", "a1", "l1")
	f(FormatCRI, ns+" stderr P l1\r\n"+ns+" stderr F l2\r\n", "l1\rl2")

	docker := func(log string) string {
		return fmt.Sprintf(`{"log":"%s","stream":"stderr","time":"2025-11-20T10:00:00.1Z"}`, log) + "\n"
	}
	f(FormatAuto, docker(`a \"b\" \u003c\t\\n\n`), "a \"b\" <\t\\n")
	f(FormatDocker, docker(`a1`)+docker(`a2\n`)+docker(`a3\r\n`), "a1a2", "a3")
	f(FormatAuto, `{"log":"a\n","stream":"stdout","attrs":{"x":"y"},"time":"2025-11-20T10:00:00.1Z"}`, "a")
	f(FormatAuto, ` {"time":"2025-11-20T10:00:00.1Z","stream":"stdout","log":"a\n" }`, "a")
	c = f(FormatAuto, `{"log":"a","level":"info"}`+"\n", `{"log":"a","level":"info"}`)
	require.Zero(t, c.Unparsed)
	c = f(FormatAuto, docker(`a\n`)+"bare a\n"+ns+" stderr F al\n", "a", "bare a", "al")
	require.EqualValues(t, 1, c.Unparsed)

	// Plain text, and the remains of a power failure.
	f(FormatText, ns+" stderr F a b\n", ns+" stderr F a b")
	f(FormatAuto, "\x00\x00\x00"+ns+" std\x00out F a\x00b\n\x00\x00", "ab")
	f(FormatAuto, "\n\r\n a\r\n", " a")
	f(FormatAuto, "")
}

func TestLongLines(t *testing.T) {
	last := ruleOf(t, "Last", rules.Matcher{Contains: []string{"the end"}})
	p := compile(t, last, everything(t))
	s := NewStream(manager, StreamOptions{})
	long := strings.Repeat("a", MaxLine-7)
	hits := p.Scan(s, []byte(long+"the end\r\n"), arrival)
	require.Len(t, hits, 2)
	require.Len(t, hits[0].Line, MaxLine)
	require.Zero(t, s.Counters().Truncated)

	hits = p.Scan(s, []byte(long+"-the end\n"), arrival)
	require.Len(t, hits, 1, "what is beyond the bound is not matched")
	require.Len(t, hits[0].Line, MaxLine)
	require.EqualValues(t, 1, s.Counters().Truncated)
}

// TestPartsWithoutEnd matches a line that never ends when it reaches the maximum length,
// and drops the rest.
func TestPartsWithoutEnd(t *testing.T) {
	p := compile(t, everything(t))
	s := NewStream(manager, StreamOptions{})
	part := "2025-11-20T10:00:00.123456789Z stderr P " + strings.Repeat("a", MaxLine) + "\n"
	var hits []Hit
	for range 10 {
		hits = append(hits, p.Scan(s, []byte(part), arrival)...)
	}
	require.Len(t, hits, 1)
	require.EqualValues(t, 1, hits[0].LineNumber)
	require.Equal(t, Counters{Lines: 10, Evaluated: 4, Dropped: 6, Truncated: 1, Bytes: int64(10 * len(part))}, s.Counters())
	require.Zero(t, s.Unfinished(), "what is dropped is not waited for")

	hits = p.Scan(s, []byte(strings.Replace(part, " P ", " F ", 1)+"2025-11-20T10:00:00.123456789Z stderr F al\n"), arrival)
	require.Equal(t, []string{"al"}, texts(hits))
}

func TestUnfinished(t *testing.T) {
	p := compile(t, everything(t))
	s := NewStream(manager, StreamOptions{})
	const stamp = "2025-11-20T10:00:00.123456789Z"
	f := func(block string, want int, lines ...string) {
		t.Helper()
		require.Equal(t, lines, texts(p.Scan(s, []byte(block), arrival)))
		require.Equal(t, want, s.Unfinished())
	}
	a, b := stamp+" stdout P a1\n", stamp+" stderr P l1\n"
	f(stamp+" stdout F a0\n"+a, len(a), "a0")
	f(b, len(a)+len(b))
	f(stamp+" stdout F a2\n", len(a)+len(b)+len(a), "a1a2") // read from b on, a2 would be a line of its own
	f(stamp+" stderr F l2\n", 0, "l1l2")
	f(a, len(a))
	require.Equal(t, []string{"a1"}, texts(p.Flush(s, arrival)))
	require.Zero(t, s.Unfinished())
	require.Empty(t, p.Flush(s, arrival))
	f(stamp+" stdout F a3\n", 0, "a3")
}

func TestTimes(t *testing.T) {
	p := compile(t, everything(t))
	f := func(opt StreamOptions, input string, want ...string) {
		t.Helper()
		var got []string
		for _, h := range scanAll(p, NewStream(manager, opt), []string{input}) {
			at := h.Time.Format(time.RFC3339Nano)
			if h.TextTime {
				at += " text"
			}
			got = append(got, at)
		}
		require.Equal(t, want, got)
	}
	const now = "2025-11-20T12:00:00Z"
	f(StreamOptions{}, "2025-11-20T10:00:00.123456789Z stdout F a\n", "2025-11-20T10:00:00.123456789Z")
	f(StreamOptions{}, "2025-11-20T10:00:00.5+01:30 stdout F a\n", "2025-11-20T08:30:00.5Z")
	f(StreamOptions{}, "2025-02-29T10:00:00Z stdout F a\n", now)
	f(StreamOptions{}, "2025-11-20T10:00:01Z stdout P a\n2025-11-20T10:00:02Z stdout F l\n", "2025-11-20T10:00:01Z")
	f(StreamOptions{}, "I1120 10:00:00.000000 1 a.go:1] a\n", now)
	text := StreamOptions{TextTime: true}
	f(text, "I1120 10:00:00.123456 1 a.go:1] a\nal\n", "2025-11-20T10:00:00.123456Z text", "2025-11-20T10:00:00.123456Z text")
	f(text, "a\n", now)
	// The time of an envelope also serves the lines that have none.
	f(text, "2025-11-20T10:00:01Z stdout F x\n\ta\n", "2025-11-20T10:00:01Z", "2025-11-20T10:00:01Z text")
	f(text, "2025-11-20T10:00:01Z stdout F I1119 09:00:00.0 1 a.go:1] a\n", "2025-11-20T10:00:01Z")

	s := NewStream(manager, text)
	require.Len(t, p.Scan(s, []byte("2025-11-20T10:00:01Z stdout F x\n"), arrival), 1)
	hits := p.Scan(s, []byte("\ta\n"), arrival)
	require.Equal(t, "2025-11-20T10:00:01Z", hits[0].Time.Format(time.RFC3339), "over blocks too")
}

func TestMatchRecord(t *testing.T) {
	p := compile(t, everything(t))
	s := NewStream(manager, StreamOptions{})
	at := time.Date(2025, 11, 20, 9, 0, 0, 5, time.UTC)
	hits := p.Match(s, Record{Time: at, Text: []byte("2025-11-20T10:00:00Z stdout F a\r")})
	require.Len(t, hits, 1)
	require.Equal(t, "2025-11-20T10:00:00Z stdout F a", hits[0].Line, "a record has no envelope")
	require.Equal(t, at, hits[0].Time)
	require.False(t, hits[0].TextTime)
	require.Equal(t, Counters{Lines: 1, Evaluated: 1, Bytes: 32}, s.Counters())
}

func TestFingerprint(t *testing.T) {
	p := compile(t, everything(t))
	id := func(labels Labels, block string) uint64 {
		t.Helper()
		hits := p.Scan(NewStream(labels, StreamOptions{}), []byte(block), arrival)
		require.NotEmpty(t, hits)
		return hits[len(hits)-1].ID
	}
	with := func(name, value string) Labels { return Labels{"container": "manager", name: value} }
	const a = "2025-11-20T10:00:00.000000001Z stdout F a\n"
	first := id(with("pod", "p"), a)
	require.EqualValues(t, uint64(0x2ef753f4884b1206), first, "snapshots keep fingerprints: they must not change")
	require.Equal(t, first, id(with("pod", "p"), a))
	require.Equal(t, first, id(with("pod", "p"), "2025-11-20T11:00:00.000000001+01:00 stderr F x\n"+a), "place does not count")
	require.NotEqual(t, first, id(with("pod", "q"), a))
	require.NotEqual(t, first, id(with("pod", "p"), "2025-11-20T10:00:00.000000002Z stdout F a\n"))
	require.NotEqual(t, first, id(with("pod", "p"), "2025-11-20T10:00:00.000000001Z stdout F aa\n"))
	require.Equal(t, id(Labels{"container": "manager"}, a), id(with("filename", "x"), a), "labels that differ between sources do not count")
	require.Equal(t, id(Labels{"container": "manager"}, a), id(with("pod", ""), a))

	// Lines without a time are distinct.
	hits := p.Scan(NewStream(manager, StreamOptions{}), []byte("a\na\n"), arrival)
	require.NotEqual(t, hits[0].ID, hits[1].ID)
}

func TestHit(t *testing.T) {
	m := rules.Matcher{Contains: []string{"lost"}}
	r := &rules.Rule{
		Alert: "R", Sequence: true,
		Steps:  []rules.Step{{Matcher: m}, {Matcher: rules.Matcher{Contains: []string{"nothing"}}}, {Matcher: m}},
		Clear:  &rules.ClearOrUnless{Matcher: m},
		Unless: &rules.ClearOrUnless{Matcher: m},
	}
	off := ruleOf(t, "Off", m)
	off.Mode = rules.ModeOff
	silent := ruleOf(t, "Silent", m)
	silent.Mode = rules.ModeSilent
	p := compile(t, off, r, silent)
	s := NewStream(manager, StreamOptions{})
	block := []byte("x\nlost\n")
	hits := p.Scan(s, block, arrival)
	clear(block)
	var got []string
	for _, h := range hits {
		require.Equal(t, "lost", h.Line, "it owns its memory")
		require.EqualValues(t, 2, h.LineNumber)
		require.Equal(t, Labels{"container": "manager", "pod": "p-0", "namespace": "ns"}, h.Labels)
		got = append(got, h.Rule.Alert+" "+h.Part.Name(h.Rule))
	}
	require.Equal(t, []string{"R clear", "R unless", "R sequence_1", "R sequence_3", "Silent match"}, got)
	require.Equal(t, []*rules.Rule{r, silent}, p.Rules(s))
}

func TestSelection(t *testing.T) {
	m := rules.Matcher{Contains: []string{"lost"}}
	a, b := ruleOf(t, "A", m), ruleOf(t, "B", m)
	b = b.WithFrom(b.From, selectorOf(t, `{pod="p-1"}`))
	p := compile(t, a, b)
	f := func(labels Labels, opt StreamOptions, want ...*rules.Rule) {
		t.Helper()
		require.Equal(t, want, p.Rules(NewStream(labels, opt)))
	}
	f(Labels{"container": "manager", "pod": "p-1"}, StreamOptions{}, a, b)
	f(Labels{"container": "manager"}, StreamOptions{}, a)
	f(Labels{"container": "manager"}, StreamOptions{Lenient: true}, a, b)
	f(Labels{"container": "other"}, StreamOptions{})
	f(Labels{"container": "", "pod": "p-1"}, StreamOptions{}, b)

	// Another program selects again, and streams with the same rules share.
	s, other := NewStream(manager, StreamOptions{}), NewStream(Labels{"container": "manager", "x": "y"}, StreamOptions{})
	require.Len(t, p.Scan(s, []byte("lost\n"), arrival), 1)
	p.Rules(other)
	require.Same(t, s.sel, other.sel)
	require.Empty(t, compile(t, b).Scan(s, []byte("lost\n"), arrival))
	require.Len(t, p.Scan(s, []byte("lost\n"), arrival), 1)

	// Without rules lines are only counted.
	none := NewStream(Labels{}, StreamOptions{})
	require.Empty(t, p.Scan(none, []byte("2025-11-20T10:00:00Z stdout P lost\nx"), arrival))
	require.Empty(t, p.Match(none, Record{Text: []byte("lost")}))
	require.Equal(t, Counters{Lines: 3, Evaluated: 3, Bytes: 40}, none.Counters())
}

// TestReloadWithinLine passes the end of a line to another program.
func TestReloadWithinLine(t *testing.T) {
	p, q, none := compile(t, everything(t)), compile(t, everything(t)), compile(t)
	s := NewStream(manager, StreamOptions{})
	require.Empty(t, p.Scan(s, []byte("2025-11-20T10:00:00Z stdout P a\n"), arrival))
	require.Equal(t, []string{"al"}, texts(q.Scan(s, []byte("2025-11-20T10:00:00Z stdout F l\n"), arrival)))
	require.Empty(t, p.Scan(s, []byte("2025-11-20T10:00:00Z stdout P a\n"), arrival))
	require.Empty(t, none.Scan(s, []byte("2025-11-20T10:00:00Z stdout P l\n"), arrival))
	require.Zero(t, s.Unfinished())
	c := s.Counters()
	require.Equal(t, c.Lines, c.Evaluated)
}

func TestCompile(t *testing.T) {
	_, err := Compile(nil)
	require.EqualError(t, err, "compile rules: there is no rule set")
	_, err = Compile(&rules.Set{Rules: []*rules.Rule{{Alert: "R"}}})
	require.EqualError(t, err, "compile rule R: it has neither match nor sequence")
	require.Empty(t, compile(t).Rules(NewStream(manager, StreamOptions{})))
}

// TestConcurrentStreams reads many streams at once with one program.
func TestConcurrentStreams(t *testing.T) {
	var set []*rules.Rule
	for i := range 20 {
		r := ruleOf(t, fmt.Sprint(i), rules.Matcher{Contains: []string{fmt.Sprintf("failure %d;", i)}}, "pod")
		set = append(set, r.WithFrom(r.From, selectorOf(t, fmt.Sprintf(`{pod=~"p-%d|q-.*"}`, i%5))))
	}
	p := compile(t, set...)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range 50 {
				pod, k := r.IntN(6), r.IntN(20)
				labels, want := Labels{"pod": fmt.Sprintf("p-%d", pod)}, 0
				if k%5 == pod {
					want = 1
				}
				s := NewStream(labels, StreamOptions{})
				hits := p.Scan(s, fmt.Appendf(nil, "xx\nfailure %d;\n{\"a\":1}\n", k), arrival)
				if len(hits) != want || want == 1 && hits[0].Values[0] != labels["pod"] {
					t.Errorf("pod %d, failure %d: %v", pod, k, hits)
				}
			}
		})
	}
	wg.Wait()
}
