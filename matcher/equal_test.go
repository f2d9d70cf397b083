package matcher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"
	"crowsnest/rules/selector"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var arrival = time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)

// selectorOf returns a parsed selector.
func selectorOf(t testing.TB, from string) rules.Selector {
	t.Helper()
	sel, err := selector.Parse(from)
	require.NoError(t, err)
	return sel
}

// ruleOf returns a rule of one step.
func ruleOf(t testing.TB, name string, m rules.Matcher, wants ...string) *rules.Rule {
	t.Helper()
	r := &rules.Rule{Alert: name, Mode: rules.ModeOn, Steps: []rules.Step{{Matcher: m}}, CapturedNames: wants}
	return r.WithFrom(rules.Selector{}, selectorOf(t, `{container="manager"}`))
}

func anchored(expr string) *literals.Expression { return literals.MustExpression(`^(?:` + expr + `)$`) }

func compile(t testing.TB, set ...*rules.Rule) *Program {
	t.Helper()
	p, err := Compile(&rules.Set{Rules: set})
	require.NoError(t, err)
	return p
}

var manager = Labels{"container": "manager", "pod": "p-0", "namespace": "ns", "empty": ""}

var (
	hostileTexts = []string{
		"leaderelection lost", "lost", "lo", "l", "ab", "abcab", "disk", "DISK", "\u212aelvin", "\u017f", "é", "\xff", `"quoted"`, `\"`,
		`"msg":"a b"`, "the object has been modified", "\t", "default/c1", "name=", "a=b",
	}
	hostileExprs = []string{
		`leaderelection lost`, `(?i)disk (?P<a>\w+)`, `(?i)kelvin`, `(?i)kiss(?P<b>s?)`, `\blost\b`, `^lost`, `lost$`, `^$`, `a.*b`, `(?P<a>a+)(?P<b>b*)`,
		`(?P<a>x?)(?:ab|cd)(?P<b>\d*)`, `lost.*(?P<b>lease|lock)`, `(?:|ab)c`, `[^a]b`, `\x{fffd}`, `(?s)a.b`, `a.b`, `(?m)^ab$`, `(?P<a>[\pL]+)z`, `.`,
		`failed to renew lease (?P<a>\S+): (?:timed out|refused)`, `found (?P<a>\d+) of (?P<b>\d+)`, `(?i:le)ASE`, `'s (?P<a>RollingOut|ScalingUp) conditions`,
		`502|503|504`, `x509: (?:a|b)`, `no(?:de)? lost`, `(a|b|)c`, `\\"(?P<a>[^"\\]+)\\"`,
	}
	hostileFields = []string{"msg", "err", "error", "Cluster", "Cluster.name", "a.b", "a", "reconciler group", "k", "é", `q"x`, "time", "a.b.c"}
	hostileValues = []string{
		"", "lost", "default/c1", "a b", "é", "K", `say "hi"`, `back\slash`, "<nil>", "12", "1.50", "true", "two\nlines", "a/b/c", "abc", "a,b", "x",
	}
	hostileValueExprs = []string{`.*`, `.+`, `(?P<a>.+)`, `default/(?P<b>\w+)`, `(?i)lo(?P<a>s)t`, `\d+`, `a|b`, `(?P<a>[^/]+)/(?P<b>.+)`, `<.*>`, ``}
)

// drawMatcher draws a matcher with hostile texts.
func drawMatcher(t *rapid.T, depth int) rules.Matcher {
	m := rules.Matcher{In: rapid.SampledFrom([]rules.In{"", "", rules.InMessage, rules.InError, rules.InAnywhere}).Draw(t, "in")}
	kinds := rapid.IntRange(0, 31).Draw(t, "kinds")
	if kinds&1 != 0 {
		m.Contains = rapid.SliceOfN(rapid.SampledFrom(hostileTexts), 1, 2).Draw(t, "contains")
	}
	if kinds&2 != 0 {
		m.Regex = literals.MustExpression(rapid.SampledFrom(hostileExprs).Draw(t, "regex"))
	}
	if kinds&4 != 0 {
		for range rapid.IntRange(1, 2).Draw(t, "fields") {
			f := rules.Field{Name: rapid.SampledFrom(hostileFields).Draw(t, "name")}
			if rapid.Bool().Draw(t, "exact") {
				f.Value = rapid.SampledFrom(hostileValues).Draw(t, "value")
			} else {
				f.Regex = anchored(rapid.SampledFrom(hostileValueExprs).Draw(t, "value expr"))
			}
			m.Fields = append(m.Fields, f)
		}
	}
	if depth > 0 && kinds&8 != 0 {
		for range rapid.IntRange(1, 3).Draw(t, "branches") {
			m.Any = append(m.Any, drawMatcher(t, depth-1))
		}
	}
	if depth > 0 && kinds&24 == 24 {
		not := drawMatcher(t, depth-1)
		m.Not = &not
	}
	return m
}

// drawRule draws a rule whose parts read streams of one of the selectors.
func drawRule(t *rapid.T, from []rules.Selector, i int) *rules.Rule {
	sel := func() rules.Selector { return rapid.SampledFrom(from).Draw(t, "from") }
	r := &rules.Rule{Alert: fmt.Sprint("Rule", i), From: sel(), Mode: rules.ModeOn}
	for range rapid.IntRange(1, 2).Draw(t, "steps") {
		r.Steps = append(r.Steps, rules.Step{From: sel(), Matcher: drawMatcher(t, 2)})
	}
	if rapid.IntRange(0, 3).Draw(t, "clear") == 0 {
		r.Clear = &rules.ClearOrUnless{From: sel(), Matcher: drawMatcher(t, 1)}
	}
	if rapid.IntRange(0, 3).Draw(t, "unless") == 0 {
		r.Unless = &rules.ClearOrUnless{From: sel(), Matcher: drawMatcher(t, 1)}
	}
	r.CapturedNames = rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b", "pod"}, {"msg", "Cluster", "a.b", "empty", "b"}}).Draw(t, "wants")
	return r
}

// quotings write a value as loggers do.
var quotings = []func(string) string{
	func(s string) string { return s },
	func(s string) string { return fmt.Sprintf("%q", s) },
	func(s string) string { return `"` + s + `"` },
	func(s string) string { // every letter escaped
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		return `"` + b.String() + `"`
	},
	func(s string) string { return `"` + strings.ReplaceAll(s, "/", `\/`) + `"` },
	func(s string) string { return "<\n\t" + strings.ReplaceAll(s, "\n", "\n\t") + "\n >" },
	func(s string) string {
		ns, name, _ := strings.Cut(s, "/")
		return fmt.Sprintf(`{"name":%q,"namespace":%q}`, name, ns)
	},
	func(s string) string { return fmt.Sprintf(`{"b":%q,"c":[{"a":%q}]}`, s, s) },
}

func drawText(t *rapid.T) string {
	value := func() string {
		v := rapid.SampledFrom(append(append([]string{}, hostileValues...), hostileTexts...)).Draw(t, "value")
		return rapid.SampledFrom(quotings).Draw(t, "quoting")(v)
	}
	name := func() string { return rapid.SampledFrom(hostileFields).Draw(t, "field") }
	var b strings.Builder
	shape := rapid.IntRange(0, 4).Draw(t, "shape")
	n := rapid.IntRange(0, 5).Draw(t, "pieces")
	switch shape {
	case 0:
		b.WriteString(`{`)
		for i := range n {
			if i > 0 {
				b.WriteString(rapid.SampledFrom([]string{",", ", ", ",", " "}).Draw(t, "comma"))
			}
			fmt.Fprintf(&b, "%s:%s", quotings[rapid.IntRange(1, 3).Draw(t, "key quoting")](name()), value())
		}
		b.WriteString(rapid.SampledFrom([]string{"}", "}", "", "} x=y", "}}"}).Draw(t, "end"))
	case 1:
		b.WriteString(rapid.SampledFrom([]string{"E1120 10:00:00.123456       1 a.go:12] ", "E0101 b.go:1] ", "", "x: "}).Draw(t, "header"))
		b.WriteString(value())
		for range n {
			fmt.Fprintf(&b, " %s=%s", rapid.SampledFrom([]string{name(), fmt.Sprintf("%q", name())}).Draw(t, "key"), value())
		}
	default:
		for range n {
			p := rapid.SampledFrom(hostileTexts).Draw(t, "piece")
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				p = strings.ToUpper(p)
			case 1:
				p = p[:len(p)/2]
			case 2:
				p = " " + p + " "
			case 3:
				p = rapid.SampledFrom(hostileExprs).Draw(t, "expr")
			}
			b.WriteString(p)
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// drawInput draws physical lines in an envelope, sometimes split into parts.
func drawInput(t *rapid.T, format Format) string {
	var b strings.Builder
	for i := range rapid.IntRange(1, 12).Draw(t, "lines") {
		text := drawText(t)
		if rapid.IntRange(0, 9).Draw(t, "CR") == 0 {
			text += "\r"
		}
		stream := rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "stream")
		kind := format
		if format == FormatAuto {
			kind = rapid.SampledFrom([]Format{FormatCRI, FormatDocker, FormatText}).Draw(t, "envelope")
		}
		if rapid.IntRange(0, 9).Draw(t, "bare") == 0 {
			kind = FormatText
		}
		stamp := rapid.SampledFrom([]string{
			fmt.Sprintf("2025-11-20T10:00:00.%09dZ", i), "2025-11-20T10:00:00Z", "2025-11-20T10:00:00.5+01:30", "2025-02-30T10:00:00Z", "2025-11-20T10:00:00.000000000-07:00",
		}).Draw(t, "stamp")
		for text != "" || i%5 == 0 {
			part := text
			if k := rapid.IntRange(0, 3*len(text)+1).Draw(t, "split"); k > 0 && k < len(text) {
				part = text[:k]
			}
			text = text[len(part):]
			b.WriteString(physical(kind, stamp, stream, part, text != "" || rapid.IntRange(0, 19).Draw(t, "open") == 0))
			if text == "" {
				break
			}
		}
	}
	s := b.String()
	if rapid.IntRange(0, 3).Draw(t, "no newline") == 0 {
		s = strings.TrimSuffix(s, "\n")
	}
	if rapid.IntRange(0, 9).Draw(t, "nul") == 0 && len(s) > 0 {
		k := rapid.IntRange(0, len(s)-1).Draw(t, "where")
		s = s[:k] + "\x00\x00\x00" + s[k:]
	}
	return s
}

func physical(kind Format, stamp, stream, text string, partial bool) string {
	switch kind {
	case FormatCRI:
		tag := "F"
		if partial {
			tag = "P"
		}
		return stamp + " " + stream + " " + tag + " " + text + "\n"
	case FormatDocker:
		if !partial {
			text += "\n"
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "<", `\u003c`).Replace(text)
		return fmt.Sprintf(`{"log":"%s","stream":"%s","time":"%s"}`, quoted, stream, stamp) + "\n"
	}
	return text + "\n"
}

// scanAll scans the input in the given blocks, and flushes.
func scanAll(p *Program, s *Stream, blocks []string) []Hit {
	var hits []Hit
	for _, b := range blocks {
		hits = append(hits, p.Scan(s, []byte(b), arrival)...)
	}
	return append(hits, p.Flush(s, arrival)...)
}

// split cuts the input into blocks of whole lines.
func split(input string, r *rand.Rand) []string {
	var blocks []string
	block := ""
	for _, line := range strings.SplitAfter(input, "\n") {
		if block += line; r.IntN(3) == 0 {
			blocks, block = append(blocks, block), ""
		}
	}
	return append(blocks, block)
}

// requireEqual compares the package with the reference.
func requireEqual(t require.TestingT, set []*rules.Rule, format Format, input string, seed uint64) {
	p, err := compileFor(&rules.Set{Rules: set}, newSample(1<<10)) // small: much is compiled here
	require.NoError(t, err)
	ref := newReference(set, NewStream(manager, StreamOptions{}).Labels(), StreamOptions{Format: format})
	ref.scan(input, arrival)
	unfinished := ref.unfinished()
	ref.flush()

	s := NewStream(manager, StreamOptions{Format: format})
	hits := p.Scan(s, []byte(input), arrival)
	require.Equal(t, unfinished, s.Unfinished())
	hits = append(hits, p.Flush(s, arrival)...)
	require.Zero(t, s.Unfinished())
	requireHits(t, ref.hits, hits)
	require.Equal(t, ref.counters, s.Counters())

	tuneFor(p, s, input) // other texts are rare in it
	inBlocks := NewStream(manager, StreamOptions{Format: format})
	again := scanAll(p, inBlocks, split(input, rand.New(rand.NewPCG(seed, 1))))
	require.Equal(t, hits, again, "in blocks, with another sieve")
	require.Equal(t, s.Counters(), inBlocks.Counters())
}

func requireHits(t require.TestingT, want, got []Hit) {
	shape := func(hits []Hit) (out []string) {
		for _, h := range hits {
			out = append(out, fmt.Sprintf("%s %s line %d at %s %q %q", h.Rule.Alert, h.Part.Name(h.Rule), h.LineNumber, h.Time.Format(time.RFC3339Nano), h.Line, h.Values))
		}
		return out
	}
	require.Equal(t, shape(want), shape(got))
}

func TestScanEqualsReference(t *testing.T) {
	sel := selectorOf(t, `{container="manager"}`)
	other := selectorOf(t, `{container="other"}`)
	rapid.Check(t, func(t *rapid.T) {
		var set []*rules.Rule
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			set = append(set, drawRule(t, []rules.Selector{sel, sel, sel, other}, i))
		}
		format := rapid.SampledFrom([]Format{FormatAuto, FormatCRI, FormatDocker, FormatText}).Draw(t, "format")
		input := drawInput(t, format)
		selected := 0
		for _, r := range set {
			if r.Applies(manager, false) {
				selected++
			}
		}
		if selected > 0 { // without rules nothing is joined
			requireEqual(t, set, format, input, rapid.Uint64().Draw(t, "blocks"))
		}
	})
}

func FuzzScanEqualsReference(f *testing.F) {
	f.Add("leaderelection lost", `(?P<a>lost)`, "err", "default/c1", 1, "2025-11-20T10:00:00.123456789Z stderr P leaderele\n2025-11-20T10:00:00.123456789Z stderr F ction lost\n")
	f.Add("x", `(?i)kiss`, "Cluster", "default/c1", 2, `{"log":"{\"Cluster\":{\"name\":\"c1\",\"namespace\":\"default\"}}\n","stream":"stdout","time":"2025-11-20T10:00:00Z"}`)
	f.Add("a", `^a\b`, "msg", "a b", 0, "E0101 a.go:1] \"a b\" err=\"x \\\"y\\\"\" err=<\n\tfoo\n >\n\"\\u0061\"=1")
	f.Add("", `.`, "a.b", "1", 3, `{"a":{"b":1},"a.b":null,"c":[1,{"]":2}],"\u0061":"x"`)
	f.Fuzz(func(t *testing.T, contains, expr, name, value string, format int, input string) {
		re, err := literals.NewExpression(expr)
		if err != nil || len(expr) > 60 || strings.Contains(expr, "{") || len(input) > 4096 {
			return
		}
		matchers := []rules.Matcher{
			{Regex: re},
			{Fields: []rules.Field{{Name: name, Value: value}}},
			{Fields: []rules.Field{{Name: name, Regex: anchored(`(?P<a>.+)`)}}},
			{Any: []rules.Matcher{{Regex: re}, {Fields: []rules.Field{{Name: "msg", Value: value}}}}},
		}
		if contains != "" && !strings.Contains(contains, "\x00") {
			matchers = append(matchers, rules.Matcher{Contains: []string{contains}}, rules.Matcher{Contains: []string{contains}, Not: &rules.Matcher{Regex: re}})
		}
		if name == "" {
			matchers = append(matchers[:1], matchers[4:]...)
		}
		var set []*rules.Rule
		for i, m := range matchers {
			set = append(set, ruleOf(t, fmt.Sprint(i), m, "a", name, "msg"))
		}
		requireEqual(t, set, Format(uint(format)%4), input, uint64(len(input)))
	})
}
