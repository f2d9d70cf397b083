package matcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

const (
	blockHead = `E1120 10:00:00.000000       1 controller.go:316] "Reconciler error" err=<`
	blockBody = "\tadmission webhook \"v.example.com\" denied the request: name=\"inner\""
	blockEnd  = ` > controller="machine" kind="Machine"`
)

// criLines returns CRI lines, a millisecond apart. A text may start with "err:" or with
// "P:" for a line of stderr or a partial one.
func criLines(texts ...string) (out []string) {
	for i, text := range texts {
		stream, tag := "stdout", "F"
		if rest, ok := strings.CutPrefix(text, "err:"); ok {
			stream, text = "stderr", rest
		}
		if rest, ok := strings.CutPrefix(text, "P:"); ok {
			tag, text = "P", rest
		}
		out = append(out, fmt.Sprintf("2025-11-20T10:00:00.%03d000000Z %s %s %s\n", i, stream, tag, text))
	}
	return out
}

func joining() *Stream { return NewStream(manager, StreamOptions{Join: JoinStream}) }

// hitTexts describes hits: rule, number of the line, values.
func hitTexts(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, fmt.Sprintf("%s %d %s", h.Rule.Alert, h.LineNumber, strings.Join(h.Values, " ")))
	}
	return out
}

func TestRecords(t *testing.T) {
	has := func(texts ...string) rules.Matcher { return rules.Matcher{In: rules.InAnywhere, Contains: texts} }
	p := compile(t,
		ruleOf(t, "Head", has("Reconciler error"), "controller"),
		ruleOf(t, "Both", has("Reconciler error", "denied the request"), "kind"),
		ruleOf(t, "Field", rules.Matcher{Fields: []rules.Field{{Name: "controller", Value: "machine"}}}),
		ruleOf(t, "Inner", rules.Matcher{In: rules.InAnywhere, Contains: []string{"denied"}, Not: &rules.Matcher{Contains: []string{"Reconciler"}}}, "name"),
		ruleOf(t, "Panic", has("panic: ", "(*Reconciler).Reconcile")),
		ruleOf(t, "Last", has("the last")),
	)
	f := func(texts []string, want ...string) {
		t.Helper()
		in := criLines(texts...)
		s := joining()
		hits := append(p.Scan(s, []byte(strings.Join(in, "")), arrival), p.Flush(s, arrival)...)
		require.Equal(t, want, hitTexts(hits))
		require.Zero(t, s.Unfinished())
		c := s.Counters()
		require.Equal(t, c.Lines, c.Evaluated+c.Dropped)
	}
	whole := []string{"Head 1 machine", "Both 1 Machine", "Field 1 ", "Inner 2 inner"}
	f([]string{blockHead, blockBody, blockEnd}, whole...)
	f([]string{blockHead, blockBody, "err:the last", blockEnd}, append([]string{"Last 3 "}, whole...)...)
	f([]string{blockHead, "P:\tadmission webhook ", "denied the request: name=\"inner\"", blockEnd}, whole...)
	// A block that nothing closes ends before the next line, which is not hidden.
	f([]string{blockHead, blockBody, "the last"}, "Head 1 ", "Both 1 ", "Inner 2 inner", "Last 3 ")
	f([]string{blockHead, "the last"}, "Head 1 ", "Last 2 ")
	f([]string{blockHead, blockHead, blockBody, blockEnd}, "Head 1 ", "Head 2 machine", "Both 2 Machine", "Field 2 ", "Inner 3 inner")
	// Two values of several lines.
	f([]string{blockHead, blockBody, " > stack=<", "\tx", blockEnd}, whole...)
	f([]string{blockEnd}, "Field 1 ")
	f([]string{blockBody}, "Inner 1 inner")
	panics := []string{
		"panic: runtime error: invalid memory address or nil pointer dereference [recovered]", "\tpanic: again", "[signal SIGSEGV: segmentation violation]", "",
		"goroutine 12 [running]:", "main.(*Reconciler).Reconcile(0xc0001, {0x1, 0x2})", "\t/src/a.go:12 +0x18", "created by main.main in goroutine 1", "\t/src/a.go:5", "exit status 2",
	}
	f(panics, "Panic 1 ")
	f(append(panics, "the last"), "Panic 1 ", "Last 11 ")
	f([]string{"panic: x", "the last", "main.(*Reconciler).Reconcile(0xc0001)"}, "Last 2 ")
	// A rule that a line of a panic fulfils has no hit of the whole panic.
	f([]string{"panic: main.(*Reconciler).Reconcile", "", "goroutine 1 [running]:", "main.(*Reconciler).Reconcile(0xc0001)"}, "Panic 1 ")
	f([]string{"fatal error: all goroutines are asleep", "", "goroutine 1 [select]:", "the last(it)"}, "Last 4 ")
	// A rule that captures more than its key has another hit of the whole, with the key of the
	// first hit.
	where := ruleOf(t, "Where", rules.Matcher{Regex: literals.MustExpression(`(?s)^panic: (?P<by>x\b(?:.*a\.go)?)(?:.*\nmain\.(?P<frame>\w+)\()?`)}, "by", "frame")
	where.By, where.Count = []string{"by"}, 1
	p = compile(t, where)
	f([]string{"panic: x", "", "goroutine 1 [running]:", "main.b(0x1)", "    /src/a.go:12 +0x18", "main.main()", "\t/src/b.go:5"}, "Where 1 x ", "Where 1 x main")
	old := ruleOf(t, "Old", rules.Matcher{Regex: literals.MustExpression(`(?s)Observed a panic: (?:.*\nmain\.(?P<frame>\w+)\()?`)}, "frame")
	old.Count = 1
	p = compile(t, old)
	f([]string{"E0318 07:44:12.413983       1 runtime.go:79] Observed a panic: x", "goroutine 1 [running]:", "main.b(0x1)", "/src/a.go:12 +0x18"}, "Old 1 ", "Old 1 b")
}

// Without a position before what is unfinished, a record ends with its block.
func TestRecordsOfBlocks(t *testing.T) {
	p := compile(t, ruleOf(t, "Head", rules.Matcher{Contains: []string{"Reconciler error"}}, "controller"))
	in := criLines(blockHead, blockBody, blockEnd)
	s := NewStream(manager, StreamOptions{Join: JoinBlock})
	require.Equal(t, []string{"Head 1 machine"}, hitTexts(p.Scan(s, []byte(strings.Join(in, "")), arrival)))
	require.Equal(t, []string{"Head 4 "}, hitTexts(p.Scan(s, []byte(in[0]+in[1]), arrival)))
	require.Zero(t, s.Unfinished())
	require.Empty(t, p.Scan(s, []byte(in[2]), arrival))
}

// A record has the time and the fingerprint of its first line, also if its end was not read.
func TestRecordHit(t *testing.T) {
	p := compile(t, ruleOf(t, "Head", rules.Matcher{Contains: []string{"Reconciler error"}}))
	in := criLines(blockHead, blockBody, blockEnd)
	s := joining()
	require.Empty(t, p.Scan(s, []byte(in[0]+in[1]), arrival))
	require.Equal(t, len(in[0]+in[1]), s.Unfinished())
	parts := p.Flush(s, arrival)
	whole := p.Scan(joining(), []byte(strings.Join(in, "")), arrival)
	alone := p.Scan(NewStream(manager, StreamOptions{}), []byte(in[0]), arrival)
	require.Equal(t, blockHead+"\n"+blockBody+"\n"+blockEnd, whole[0].Line)
	require.Equal(t, blockHead+"\n"+blockBody, parts[0].Line)
	for _, h := range [][]Hit{parts, alone} {
		require.Equal(t, whole[0].ID, h[0].ID)
		require.Equal(t, whole[0].Time, h[0].Time)
	}
}

// Whoever opens a block and does not close it hides nothing, and takes little memory.
func TestRecordsAreBounded(t *testing.T) {
	p := compile(t, ruleOf(t, "Boom", rules.Matcher{In: rules.InAnywhere, Contains: []string{"boom"}}), ruleOf(t, "Head", rules.Matcher{Contains: []string{"Reconciler error"}}, "controller"))
	f := func(lines, size int) {
		t.Helper()
		texts := []string{blockHead}
		for i := range lines {
			texts = append(texts, fmt.Sprintf("\t%d boom%s", i, strings.Repeat("x", size)))
		}
		in := strings.Join(criLines(append(texts, blockEnd)...), "")
		s := joining()
		boom, head := 0, ""
		for _, h := range append(p.Scan(s, []byte(in), arrival), p.Flush(s, arrival)...) {
			if h.Rule.Alert == "Boom" {
				boom++
			} else {
				head = h.Values[0]
			}
			require.LessOrEqual(t, len(h.Line), MaxLine)
		}
		kept := min(lines, maxRecordKept-1, (maxRecordBody-len(blockHead)-1)/(size+12)+1)
		require.GreaterOrEqual(t, boom, lines-kept)
		require.Positive(t, boom)
		require.Equal(t, "machine", head)
		require.Zero(t, s.records[0])
	}
	f(1, 10)
	f(99, 10)
	f(99, 1000)
	f(5, maxRecordBody)
	f(5, 2*MaxLine)

	// The times of lines bound a record, too.
	s := joining()
	in := criLines(blockHead, blockBody, blockEnd)
	late := strings.ReplaceAll(strings.Join(in[1:], ""), "10:00:00", "10:00:03")
	require.Equal(t, []string{"Head 1 "}, hitTexts(p.Scan(s, []byte(in[0]+late), arrival)))

	// Without an end: as many lines as the bound, then a record is over.
	s = joining()
	line := strings.Replace(criLines("\tboom")[0], "stdout", "stderr", 1)
	p.Scan(s, []byte(strings.Replace(in[0], "stdout", "stderr", 1)), arrival)
	n := 0
	for range 3 * maxRecordLines {
		n += len(p.Scan(s, []byte(line), arrival))
		if rec := s.records[1]; rec != nil {
			require.LessOrEqual(t, len(rec.text), MaxLine)
			require.LessOrEqual(t, len(rec.lines), maxRecordKept)
		}
	}
	require.Nil(t, s.records[1])
	require.GreaterOrEqual(t, n, 3*maxRecordLines-maxRecordKept)
}

// drawRecords draws CRI lines with records, of stdout and stderr, some in parts.
func drawRecords(t *rapid.T) []string {
	text := rapid.SampledFrom([]string{
		blockHead, blockHead, blockBody, blockBody, blockEnd, blockEnd, " > stack=<", " >", "\t", "", "plain", "x=<", "=<", "panic: x", "\tpanic: boom",
		"goroutine 1 [running]:", "main.main()", "\t/a.go:1 boom", "created by x", "fatal error: y", "exit status 2", "P:\tad", "P:E1 \"x\" err=", "<", "boom",
	})
	var texts []string
	for range rapid.IntRange(0, 30).Draw(t, "lines") {
		text := text.Draw(t, "text")
		if rapid.IntRange(0, 4).Draw(t, "stderr") == 0 {
			text = "err:" + text
		}
		texts = append(texts, text)
	}
	return criLines(texts...)
}

func recordRules(t testing.TB) []*rules.Rule {
	has := func(texts ...string) rules.Matcher { return rules.Matcher{Contains: texts} }
	return []*rules.Rule{
		ruleOf(t, "Head", has("Reconciler error"), "controller", "name"),
		ruleOf(t, "Body", has("denied"), "name"),
		ruleOf(t, "Boom", has("boom")),
		ruleOf(t, "Field", rules.Matcher{Fields: []rules.Field{{Name: "controller", Value: "machine"}}}),
		ruleOf(t, "Not", rules.Matcher{Contains: []string{"denied"}, Not: &rules.Matcher{Contains: []string{"Reconciler"}}}),
		ruleOf(t, "Anchored", rules.Matcher{Regex: anchored(`\t.*`)}),
		ruleOf(t, "Across", has("panic: ", "main.main")),
	}
}

// Records are the same however the lines arrive: at once, in blocks, scanned ahead, or read
// again from before what was unfinished.
func TestRecordsInParts(t *testing.T) {
	p := compile(t, recordRules(t)...)
	rapid.Check(t, func(t *rapid.T) {
		in := drawRecords(t)
		s := joining()
		s.SetOffset(0)
		want := append(p.Scan(s, []byte(strings.Join(in, "")), arrival), p.Flush(s, arrival)...)

		var got []Hit
		s = joining()
		s.SetOffset(0)
		at := 0 // byte
		for rest := strings.Join(in, ""); rest != ""; {
			n := rapid.IntRange(1, strings.Count(rest, "\n")).Draw(t, "block")
			block := strings.Join(strings.SplitAfter(rest, "\n")[:n], "")
			rest = rest[len(block):]
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				a := s.Speculate(0, 0)
				hits := p.Scan(a, []byte(block), arrival)
				if s.Commit(a) {
					got = append(got, hits...)
					break
				}
				got = append(got, p.Scan(s, []byte(block), arrival)...)
			case 1: // a restart
				got = append(got, p.Scan(s, []byte(block), arrival)...)
				from := at + len(block) - s.Unfinished()
				rest, at = strings.Join(in, "")[from:], from-len(block)
				if s.Unfinished() > 0 {
					s = joining()
					s.SetOffset(int64(from))
				}
			default:
				got = append(got, p.Scan(s, []byte(block), arrival)...)
			}
			at += len(block)
		}
		got = append(got, p.Flush(s, arrival)...)
		require.Equal(t, distinctHits(want), distinctHits(got))
	})
}

// distinctHits returns the different hits.
func distinctHits(hits []Hit) map[string]bool {
	out := map[string]bool{}
	for _, h := range hits {
		out[fmt.Sprint(h.Rule.Alert, h.Part, h.ID, h.Time.UnixNano(), h.Line, h.Values)] = true
	}
	return out
}

// A rule that matches a line alone matches its record, or the line in it. A panic behind a tab is the
// program's own unless it is in a block.
func TestRecordsHideNothing(t *testing.T) {
	p := compile(t, recordRules(t)...)
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(strings.Join(drawRecords(t), ""))
		s, alone := joining(), NewStream(manager, StreamOptions{})
		hits := append(p.Scan(s, in, arrival), p.Flush(s, arrival)...)
		for _, want := range append(p.Scan(alone, in, arrival), p.Flush(alone, arrival)...) {
			found := strings.HasPrefix(want.Line, "\tpanic: ")
			for _, h := range hits {
				whole := "\n" + h.Line + "\n"
				found = found || h.Rule == want.Rule && !h.Time.After(want.Time) && want.Time.Sub(h.Time) < time.Second && strings.Contains(whole, "\n"+want.Line+"\n")
			}
			require.True(t, found, "%s %q", want.Rule.Alert, want.Line)
		}
		require.Equal(t, alone.Counters(), s.Counters())
	})
}
