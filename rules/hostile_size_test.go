package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// work is how much memory a check allocates in total, and how many objects: it measures how
// long the check takes, independently of the machine.
type work struct{ bytes, objects float64 }

func workOf(text string) work {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, _ := Parse(File{Name: "big.yaml", Data: []byte(text)})
	Build([]*Document{d}, Options{})
	runtime.ReadMemStats(&after)
	return work{float64(after.TotalAlloc - before.TotalAlloc), float64(after.Mallocs - before.Mallocs)}
}

// The work for a file grows with its size and not with the square of it, whatever is in the
// file, and has a bound for the largest file.
func TestLargeFilesAreQuick(t *testing.T) {
	const size = 969_000 // bytes
	const most = 1 << 30 // bytes that a check allocates, in about a second
	const (
		start = "pack: {name: big, version: 0.1.0}\nrules:\n"
		head  = "{alert: Rule%[1]d, from: '{container=\"c\"}', origin: any, severity: warning, "
		first = start + "- alert: A\n  from: '{container=\"c\"}'\n  origin: any\n  severity: warning\n"
		rule  = "- alert: Rule%[1]d\n  from: '{container=\"c\"}'\n  origin: any\n  severity: warning\n  match: {contains: 'failure %[1]d'}\n"
		flow  = "pack: {name: big, version: 0.1.0}\nrules: ["
	)
	simple := head + "match: {contains: 'failure %[1]d'}}"
	regex := func(pattern string) string {
		return "- " + head + "match: {contains: foo, regex: '" + pattern + "c%[1]d'}}\n"
	}
	class := `[\pL\pN\pS]`
	rows := []struct{ name, before, repeated, after string }{
		{"errors on one line", flow, "{a: 1},", "]\n"},
		{"many errors on one line", flow, "{alert: a%[1]d, from: 5, match: [], severity: [x]},", "]\n"},
		{"characters beyond ASCII on one line", flow, "{é: 1, alert: ü%[1]d},", "]\n"},
		{"numbers on one line", flow, "1,", "]\n"},
		{"rules on one line", flow, simple + ", ", "]\n"},
		{"rules in brackets", flow + "\n", simple + ",\n", "]\n"},
		{"lines that end like those of old computers", strings.ReplaceAll(start, "\n", "\r"), strings.ReplaceAll(rule, "\n", "\r"), ""},
		{"rules", start, rule, ""},
		{"rules on one indentation level", start, strings.ReplaceAll(rule, "\n  ", "\n   "), ""},
		{"empty rules", start, "-\n", ""},
		{"blank lines at the end", start + strings.Repeat(strings.ReplaceAll(rule, "%[1]d", "x"), 100), "\n", ""},
		{"comments", start + strings.Repeat(strings.ReplaceAll(rule, "%[1]d", "x"), 100), "# c\n", ""},
		{"unknown keys", first + "  match: x\n", "  unknownkey%[1]d: x\n", ""},
		{"names like no other", first + "  match: x\n", "  qzxv%[1]dqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxv: x\n", ""},
		{"rules with names like no other", start, "- {qzxv%[1]dqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxvqzxv: x}\n", ""},
		{"one key many times", first, "  match: x\n", ""},
		{"merge keys", first + "  match: x\n", "  <<: {limit: 5}\n", ""},
		{"entries", first + "  match: x\n  labels:\n", "    l%[1]d: x\n", ""},
		{"values of by", first + "  match: x\n  by: [", "k%[1]d, ", "k]\n"},
		{"texts", first + "  match: {contains: [", "t%[1]d, ", "t]}\n"},
		{"anchors", first + "  match: x\n  tests:\n", "  - &a%[1]d {input: [], expect: []}\n", ""},
		{"aliases", first + "  match: x\n  tests:\n  - &a {input: [], expect: []}\n", "  - *a\n", ""},
		{"a long text", first + "  match: '", "x", "'\n"},
		{"a folded text", first + "  match: >\n", "    x\n", ""},
		{"a list that is not closed", "rules: [", "a, ", ""},
		{"a quotation that is not closed", start, rule, "  x: \"\n"},
		{"mappings in mappings", "pack: ", "{a: ", ""},
		{"repetitions", start, regex("(a{1,900}b{1,900})"), ""},
		{"repetitions in one rule", first + "  match: {any: [", "{contains: foo, regex: '(abcdefghijklmnopqrstuvwxyz){1000}'}, ", "]}\n"},
		{"repetitions in selectors", start, strings.Replace(rule, `="c"`, `=~"(a{1,900}|b%[1]d)"`, 1), ""},
		{"repetitions in templates", start, "- " + head + "match: {contains: x%[1]d}, annotations: {summary: '{{ reReplaceAll \"a{1,900}\" \"b\" $line }}'}}\n", ""},
		{"classes", start, regex("[a-z0-9A-Z_.-]+[^x]+"), ""},
		{"Unicode classes without case", start, regex("(?i)" + class), ""},
		{"ranges without case", start, regex(`(?i)[B-\x{1e000}]`), ""},
		{"ranges without case, hidden", start, "- " + head + "match: {contains: x%[1]d}, annotations: {summary: '{{ reReplaceAll \"(\\x3fi)[B\\x2d\\x5cx{1e000}]\" \"b\" $line }}'}}\n", ""},
		{"Unicode classes in selectors", start, strings.Replace(rule, `="c"`, `=~"(?i)`+strings.ReplaceAll(class, `\`, `\\`)+`%[1]d"`, 1), ""},
		{"Unicode classes in overrides", "overrides:\n", "- {rule: A%[1]d, add_unless: {contains: foo, within: 1m, regex: '(?i)" + class + "'}}\n", ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			text := func(size int) string {
				var b strings.Builder
				b.WriteString(r.before)
				for i := 0; b.Len() < size-len(r.after); i++ {
					b.WriteString(strings.ReplaceAll(r.repeated, "%[1]d", fmt.Sprint(i)))
				}
				return b.String() + r.after
			}
			workOf(text(size / 100)) // what is made once
			eighth, quarter, all := workOf(text(size/8)), workOf(text(size/4)), workOf(text(size))
			require.Less(t, all.bytes, float64(most))
			// A square would quadruple the work.
			require.Less(t, quarter.bytes/eighth.bytes, 3.0)
			require.Less(t, quarter.objects/eighth.objects, 3.0)
			t.Logf("%.0f, %.0f, %.0f MiB", eighth.bytes/(1<<20), quarter.bytes/(1<<20), all.bytes/(1<<20))
		})
	}
}
