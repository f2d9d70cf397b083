package hostile

import (
	"fmt"
	"slices"
	"strings"
)

// hostilePack is a broken or malicious pack.
type hostilePack struct{ name, text string }

// ruleKeys are the keys of a valid rule, in order.
var ruleKeys = []string{"alert", "from", "match", "by", "severity", "annotations"}

// pack writes a pack with one rule whose alert and text contain id. changes
// replace or add keys; "" removes one.
func pack(id string, changes map[string]string) string {
	keys := map[string]string{
		"alert": "Hostile" + id, "from": `'{container="c"}'`, "match": `{contains: "boom ` + id + `", regex: 'key=(?P<k>\S+)'}`,
		"by": "[k]", "severity": "warning", "annotations": `{summary: "{{ $labels.k }} failed"}`,
	}
	order := slices.Clone(ruleKeys)
	for key, value := range changes {
		if keys[key] == "" {
			order = append(order, key)
		}
		keys[key] = value
	}
	slices.Sort(order[len(ruleKeys):])
	var b strings.Builder
	fmt.Fprintf(&b, "pack: {name: hostile-%s}\nrules:\n- ", strings.ToLower(id))
	for _, key := range order {
		if keys[key] != "" {
			fmt.Fprintf(&b, "%s: %s\n  ", key, keys[key])
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// values are wrong values that an author may write.
var values = []string{
	"-1", "0", "9223372036854775807", "9223372036854775808", "1e308", ".nan", "290y", "0.5", "null", "[]", "{}", "[[[[[1]]]]]",
	`"\u0000\u202e\n"`, "!!binary AAAA", "true", "2026-01-01", `"{{ range $labels }}{{ . }}{{ end }}"`,
}

// wrongValues sets each of the values at each key of a rule.
func wrongValues() (out []hostilePack) {
	keys := append([]string{
		"sequence", "count", "within", "distinct", "clear", "unless", "for", "keep_firing_for", "expire", "limit", "scope", "origin",
		"labels", "remediation", "tests", "enabled", "unknown",
	}, ruleKeys...)
	for i, key := range keys {
		for k, value := range values {
			id := fmt.Sprintf("V%dx%d", i, k)
			out = append(out, hostilePack{fmt.Sprintf("%s: %s", key, value), pack(id, map[string]string{key: value})})
		}
	}
	return out
}

// nested returns open n times, middle, and close n times.
func nested(open, middle, end string, n int) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
}

// list returns a list of n entries in brackets.
func list(n int, entry func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = entry(i)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// malicious are changes of one rule each.
func malicious() []hostilePack {
	template := func(text string) map[string]string {
		return map[string]string{"annotations": "{summary: '" + text + "'}"}
	}
	matcher := func(text string) map[string]string {
		return map[string]string{"match": text, "by": "[]", "annotations": ""}
	}
	test := func(input string) map[string]string {
		return map[string]string{"tests": "[{input: " + input + ", expect: [{at: 1s, firing: none}]}]"}
	}
	rows := []struct {
		name    string
		changes map[string]string
	}{
		{"contains nothing", matcher(`""`)},
		{"contains an empty text", matcher(`{contains: ["boom", ""]}`)},
		{"contains one byte", matcher(`"e"`)},
		{"regex of nothing", matcher(`{regex: ""}`)},
		{"regex that matches the empty text", matcher(`{regex: '(a*)*'}`)},
		{"regex that would backtrack", matcher(`{regex: '(a+)+(b|a*)*c$'}`)},
		{"regex of nested repetitions", matcher(`{regex: '((((a{1,10}){1,10}){1,10}){1,10})b'}`)},
		{"regex of a thousand repetitions", matcher(`{regex: '(x[a-z]{1000}){1,2}'}`)},
		{"regex of deep groups", matcher("{regex: '" + nested("(", "boom", ")", 2000) + "'}")},
		{"regex of many words", matcher("{regex: '" + strings.Repeat("word|", 3000) + "boom'}")},
		{"regex of every character", matcher(`{regex: '(?s)(.*)boom(.*)\pL{100}'}`)},
		{"regex with a thousand groups", matcher("{regex: 'boom" + strings.Repeat("(?P<k>a)?", 1000) + "'}")},
		{"regex with a lookahead", matcher(`{regex: '(?=boom)'}`)},
		{"not alone", matcher(`{not: boom}`)},
		{"not of not", matcher("{contains: boom, not: " + nested("{contains: b, not: ", "b", "}", 20) + "}")},
		{"deep any", matcher(nested("{any: [", "boom", "]}", 30))},
		{"deeper any", matcher(nested("{any: [", "boom", "]}", 5000))},
		{"wide any", matcher("{any: " + list(1000, func(i int) string { return fmt.Sprintf("word%d", i) }) + "}")},
		{"wider any", matcher("{any: " + list(1001, func(i int) string { return fmt.Sprintf("word%d", i) }) + "}")},
		{"field of everything", matcher(`{field: {msg: "~(.*)*"}}`)},
		{"field without a name", matcher(`{field: {"": "x"}}`)},
		{"selector of everything", map[string]string{"from": `'{}'`}},
		{"selector of every value", map[string]string{"from": `'{container=~".*"}'`}},
		{"selector that contradicts itself", map[string]string{"from": `'{container="a", container="b"}'`}},
		{"selector of a thousand matchers", map[string]string{"from": `'{` + strings.Repeat(`container="c",`, 1000) + `}'`}},
		{"selector of a huge regex", map[string]string{"from": `'{container=~"(a{1,1000}){1,1000}"}'`}},
		{"a thousand names in by", map[string]string{"by": list(1000, func(i int) string { return fmt.Sprintf("n%d", i) })}},
		{"reserved names in by", map[string]string{"by": "[alertname, severity, resolves, overflow]"}},
		{"a name twice in by", map[string]string{"by": "[k, k]"}},
		{"labels like reserved ones", map[string]string{"labels": "{alertname: x, severity: critical, resolves: quiet}"}},
		{"labels without a name", map[string]string{"labels": `{"": x, "a b": y, "__name__": z}`}},
		{"an alert with line ends", map[string]string{"alert": `"Hostile\nfix: run this"`}},
		{"an alert of a megabyte", map[string]string{"alert": strings.Repeat("A", 1<<19)}},
		{"an alert with markup", map[string]string{"alert": `"<script>alert(1)</script>"`}},
		{"an alert that is a path", map[string]string{"alert": `"../../../etc/passwd"`}},
		{"clear equal to match", map[string]string{"match": "boom", "clear": "boom", "by": "[]", "annotations": ""}},
		{"clear and unless of each other", map[string]string{"clear": `{contains: calm, not: boom}`, "unless": `{contains: boom, not: calm, within: 1h}`, "by": "[]", "annotations": ""}},
		{"unless equal to match", map[string]string{"match": "boom", "unless": `{contains: boom, within: 1y}`, "by": "[]", "annotations": ""}},
		{"same that by lacks", map[string]string{"clear": `{contains: calm, same: [elsewhere]}`}},
		{"a sequence of itself", map[string]string{"match": "", "sequence": list(32, func(int) string { return "boom" }), "within": "1y", "by": "[]", "annotations": ""}},
		{"a sequence too long", map[string]string{"match": "", "sequence": list(33, func(int) string { return "boom" }), "within": "1y", "by": "[]", "annotations": ""}},
		{"the largest window", map[string]string{"count": "256", "within": "1y", "limit": "10000"}},
		{"the largest window of values", map[string]string{"count": "256", "distinct": "k", "within": "1y", "by": "[]", "limit": "10000", "annotations": ""}},
		{"all times at once", map[string]string{"for": "1y", "keep_firing_for": "1y"}},
		{"the shortest times", map[string]string{"for": "1ms", "keep_firing_for": "1ms"}},
		{"template that loops", template(`{{ range $i, $v := $labels }}{{ $v }}{{ end }}`)},
		{"template that loops over a number", template(`{{ range 1000000000 }}x{{ end }}`)},
		{"template that recurses", template(`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`)},
		{"template with a block", template(`{{ block "a" . }}{{ template "a" . }}{{ end }}`)},
		{"template that widens", template(`{{ printf "%1000000000d" $value }}`)},
		{"template that widens by an argument", template(`{{ printf "%*d" 1000000000 $value }}`)},
		{"template that widens a little, often", template(strings.Repeat(`{{ printf "%64d" $value }}`, 200))},
		{"template that indexes", template(`{{ index $labels "k" 1 2 3 }}`)},
		{"template that slices", template(`{{ slice $labels.k 5 1 }}`)},
		{"template that slices too far", template(`{{ slice $labels.k 0 100000 }}`)},
		{"template that calls", template(`{{ call $labels.k }}`)},
		{"template of what is not there", template(`{{ $labels.k.a.b.c }}`)},
		{"template of a pipeline", template("{{ $labels.k" + strings.Repeat(" | toUpper", 500) + " }}")},
		{"template of deep conditions", template(nested(`{{ if $value }}`, "x", `{{ end }}`, 500))},
		{"template of deep calls", template("{{ " + nested("(toUpper ", "$labels.k", ")", 500) + " }}")},
		{"template that replaces", template(`{{ reReplaceAll "(a*)*" "xxxxxxxxxxxxxxxxxxxxxxxx" $labels.k }}`)},
		{"template that replaces by a huge regex", template(`{{ reReplaceAll "((a{1,100}){1,100}){1,10}" "x" $labels.k }}`)},
		{"template that replaces by the line", template(`{{ reReplaceAll $line $line $line }}`)},
		{"template that divides", template(`{{ humanize (printf "%d" $value) }}`)},
		{"template that is not closed", template(`{{ $labels.k`)},
		{"template of everything", template(`{{ . }}{{ $ }}`)},
		{"template in a label", map[string]string{"labels": `{x: "{{ $line }}{{ $value }}"}`}},
		{"a step for the shell", map[string]string{"remediation": `{summary: s, steps: ["rm -rf {{ $line }}; {{ $labels.k }}"]}`}},
		{"a runbook that is a script", map[string]string{"remediation": `{runbook_url: "javascript:alert(1)"}`}},
		{"eight thousand tests", map[string]string{"tests": list(8000, func(int) string { return "{input: [], expect: [{at: 1s, firing: none}]}" })}},
		{"a thousand tests of many lines", map[string]string{"tests": list(1000, func(int) string {
			return "{input: [{at: 0s, line: x, repeat: 100000}], expect: [{at: 1s, firing: none}]}"
		})}},
		{"a test of a million lines", test("[{at: 0s, line: x, repeat: 1000000}]")},
		{"a test without end", test("[{at: 0s, line: x, repeat: 100000, every: 1y}]")},
		{"a test of a long line", test("[{at: 0s, line: " + strings.Repeat("x", 1<<19) + "}]")},
		{"a test of restarts", test(list(5000, func(i int) string { return "{at: 1s, do: restart}" }))},
		{"a test that fails", map[string]string{"tests": "[{input: [], expect: [{at: 1s, firing: [{alertname: Never}]}]}]"}},
		{"an expectation far away", map[string]string{"tests": "[{input: [], expect: [{at: 1s, firing: [{starts_at: 290y, value: 9223372036854775807}]}]}]"}},
	}
	out := make([]hostilePack, len(rows))
	for i, r := range rows {
		out[i] = hostilePack{r.name, pack(fmt.Sprintf("M%d", i), r.changes)}
	}
	return out
}

// brokenFiles are packs whose files are broken.
func brokenFiles() []hostilePack {
	good := func(id string) string { return pack(id, nil) }
	utf16 := func(text string) string {
		b := []byte{0xFF, 0xFE}
		for _, c := range []byte(text) {
			b = append(b, c, 0)
		}
		return string(b)
	}
	bomb := "pack: {name: bomb}\nx0: &x0 [a, a, a, a, a, a, a, a, a]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("x%d: &x%d %s\n", i, i, list(9, func(int) string { return fmt.Sprintf("*x%d", i-1) }))
	}
	inTests := strings.Replace(bomb, "pack: {name: bomb}\n", "", 1)
	return []hostilePack{
		{"nothing", ""},
		{"blanks", " \n\n"},
		{"a comment", "# nothing\n"},
		{"null", "null\n"},
		{"a text", "boom\n"},
		{"a list", "- boom\n"},
		{"bytes", "\x80\xff\xfe\x00"},
		{"NUL", good("F1") + "\x00"},
		{"NUL in between", strings.Replace(good("F2"), "boom", "bo\x00om", 1)},
		{"BOM", "\xEF\xBB\xBF" + good("F3")},
		{"UTF-16", utf16(good("F4"))},
		{"CR LF", strings.ReplaceAll(good("F5"), "\n", "\r\n")},
		{"CR", strings.ReplaceAll(good("F6"), "\n", "\r")},
		{"tabs", strings.ReplaceAll(good("F7"), "  ", "\t")},
		{"Latin-1", strings.Replace(good("F8"), "failed", "\xe9chou\xe9", 1)},
		{"two documents", good("F9") + "---\n" + good("F10")},
		{"twice", good("F11") + good("F11")},
		{"a key twice", strings.Replace(good("F12"), "severity: warning", "severity: warning\n  severity: info", 1)},
		{"bomb", bomb},
		{"bomb in tests", good("F13") + "  tests:\n  - {input: [], expect: []}\n" + inTests},
		{"bomb below tests", good("F18") + "  tests:\n  - " + strings.ReplaceAll(strings.TrimSpace(inTests), "\n", "\n    ") + "\n"},
		{"an alias of itself", "pack: &p {name: *p}\n"},
		{"an alias of itself in tests", good("F14") + "  tests: &t [*t]\n"},
		{"an unknown alias", good("F15") + "  tests: *nowhere\n"},
		{"a merge key", good("F16") + "  <<: {limit: 5}\n"},
		{"deep lists", "pack: " + nested("[", "", "]", 100_000)},
		{"deep mappings", nested("{a: ", "b", "}", 10_000)},
		{"unclosed", "rules: " + strings.Repeat("[", 100_000)},
		{"half a rule", good("F17")[:60]},
		{"rules of nothing", "pack: {name: x}\nrules: [null, 1, [], {}, \"\"]\n"},
		{"other kinds", "groups: [{name: x}]\n"},
		{"a custom tag", "pack: !!python/object/apply:os.system [\"id\"]\n"},
		{"an override of everything", "overrides: [{rule: \"*\", disable: \"because\"}]\n"},
		{"an override of nothing", "overrides: [{rule: \"[\", set: {limit: -1}}]\n"},
		{"a pack and overrides", good("F19") + "overrides: []\n"},
		{"many rules of one name", "pack: {name: many}\nrules:\n" + strings.Repeat("- {alert: Many, from: '{a=\"b\"}', match: text, severity: info}\n", 2000)},
		{"too many rules", "pack: {name: toomany}\nrules:\n" + strings.Repeat("- {}\n", 5001)},
		{"a long line", "pack: {name: " + strings.Repeat("x", 1<<20-100) + "}\n"},
		{"50 MB", good("F20") + strings.Repeat("# padding\n", 5<<20)},
		{"a million keys", "pack: {" + strings.Repeat("a: 1, ", 150_000) + "}\n"},
	}
}
