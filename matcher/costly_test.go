//go:build unix

package matcher

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// costlyRules returns rules that are slow on some lines and are still accepted: the
// expressions of testdata/rules/costly.txt in every position of a rule, and many other
// conditions.
func costlyRules(tb testing.TB) []*rules.Rule {
	tb.Helper()
	var out []*rules.Rule
	add := func(matcher string) {
		text := "pack: {name: p}\nrules:\n- alert: A\n  from: '{container=\"manager\"}'\n  severity: info\n" + matcher
		d, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
		set, more := rules.Build([]*rules.Document{d}, rules.Options{})
		if set == nil {
			for _, p := range append(problems, more...).Errors() {
				require.Equal(tb, "too-costly", p.Check, p)
			}
			return
		}
		set.Rules[0].Source = matcher
		out = append(out, set.Rules[0])
	}
	text, err := os.ReadFile("../testdata/rules/costly.txt")
	require.NoError(tb, err)
	for row := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(row), " ", 3); len(f) == 3 && row[0] != '#' {
			plain, named := quotedYAML(f[2]), quotedYAML("(?P<x>"+f[2]+")")
			for _, m := range []string{"regex: " + plain, "not: {regex: " + plain + "}", "field: {msg: " + quotedYAML("~"+f[2]) + "}", "field: {msg: " + quotedYAML("~.*"+f[2]+".*") + "}"} {
				add("  match: {contains: guard, " + m + "}\n")
			}
			add("  match: {regex: " + plain + "}\n")
			add("  by: [x]\n  match: {contains: guard, regex: " + named + "}\n")
			add("  by: [x]\n  match: {contains: guard, field: {msg: " + quotedYAML("~(?P<x>.*"+f[2]+".*)") + "}}\n")
		}
	}
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+", ", i)
		}
		return b.String()
	}
	add("  match: {any: [" + many(600, "text-%d") + "]}\n")
	add("  match: {any: [" + many(600, strings.Repeat("a", 70)+"-%d") + "]}\n")
	add("  match: {any: [" + many(600, strings.Repeat("a", 60)+"-%d") + "]}\n")
	add("  match: {contains: guard, any: [" + many(95, "{regex: '(?i)[ab][ab][ab][ab][ab]-%d'}") + "]}\n")
	add("  match: {contains: guard, any: [" + many(50, "{regex: '(?i)aaaaaaaaaaaaaaaaaaaa-%d'}") + "]}\n")
	add("  match: {contains: guard, field: {" + many(600, "f%d: v") + "}}\n")
	add("  match: {contains: guard, any: [" + many(600, "{field: {f%d: v}}") + "]}\n")
	add("  match: {contains: guard, any: [" + many(600, "{field: {a.b.c%d: v}}") + "]}\n")
	return out
}

func quotedYAML(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// costlyLines returns lines of the maximum length.
func costlyLines() map[string][]byte {
	out := map[string][]byte{}
	add := func(name, text string) {
		out[name] = []byte(text[:MaxLine-6] + " guard")
		out[name+" in JSON"] = []byte(`{"guard":1,"msg":"` + text[:MaxLine-30] + `"}`)
		out[name+" in klog"] = []byte(`I1120 10:00:00.002415       1 a.go:59] "` + text[:MaxLine-60] + `" guard=1`)
	}
	for _, s := range []string{"a", "A", "e", "ab", "aA", "é", "aé", "世", "abcdefghij", "ABab", "0", " ", "k", "error ", "k=v ", "a.", "1.", "zz1", "aaaaaaab", `\\`} {
		add(fmt.Sprintf("%q", s), strings.Repeat(s, MaxLine))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, alphabet := range []string{"ab", "abcdefgh", "abcdefghijklmnopqrstuvwxyz", "aéжא世0 ", "azbcdefghi", "aA0 .:="} {
		letters, b := []rune(alphabet), strings.Builder{}
		for b.Len() < MaxLine {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		add("of "+alphabet, b.String())
	}
	var obj, logfmt strings.Builder
	for i := 0; obj.Len() < MaxLine; i++ {
		fmt.Fprintf(&obj, `"f%d":{"a":{"b":{"c":%d}}},`, i, i)
		fmt.Fprintf(&logfmt, "f%d=%d ", i, i)
	}
	for logfmt.Len() < MaxLine {
		logfmt.WriteString("f1=1 ")
	}
	out["JSON with many members"] = []byte(`{"guard":1,` + obj.String()[:MaxLine-30] + `":1}`)
	out["JSON that is deep"] = []byte(`{"guard":` + strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 1300))
	out["many fields"] = []byte("guard=1 " + logfmt.String()[:MaxLine-8])
	return out
}

// cpuTime is how long this process has used a CPU: other processes do not count.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWorstLine reports how long the slowest line of 16 KiB takes with the
// slowest rule that is loaded, in ms: 100 are promised. The time per operation
// means nothing.
func BenchmarkWorstLine(b *testing.B) {
	type result struct {
		took       time.Duration
		rule, line string
		share      float64
	}
	lines := costlyLines()
	var all []result
	for b.Loop() {
		all = nil
		for _, r := range costlyRules(b) {
			p, s := compile(b, r), NewStream(manager, StreamOptions{})
			worst := result{}
			for name, line := range lines {
				if strings.Contains(name, " in ") && !strings.Contains(r.Source, "field") {
					continue // the same once more
				}
				took := time.Hour // the minimum of a few: work of the runtime does not count
				for range 3 {
					began := cpuTime(b)
					p.Match(s, Record{Time: arrival, Text: line})
					if took = min(took, cpuTime(b)-began); took < worst.took {
						break
					}
				}
				if took > worst.took {
					worst = result{took, strings.TrimSpace(r.Source), name, float64(took) / float64(r.MaxLineTime())}
				}
			}
			all = append(all, worst)
		}
	}
	slices.SortFunc(all, func(x, y result) int { return int(y.took - x.took) })
	for _, x := range all[:6] {
		b.Logf("%6.1f ms, %.2f of the bound: %.90s on %s", x.took.Seconds()*1000, x.share, x.rule, x.line)
	}
	b.ReportMetric(all[0].took.Seconds()*1000, "worst-ms")
	worstShare := slices.MaxFunc(all, func(x, y result) int { return int(1e6 * (x.share - y.share)) })
	b.Logf("nearest to its bound, %.2f: %.90s on %s", worstShare.share, worstShare.rule, worstShare.line)
	b.ReportMetric(worstShare.share, "worst-share")
}
