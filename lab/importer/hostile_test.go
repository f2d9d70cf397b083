package importer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// Broken and hostile files end in a refusal with a position, soon.
func TestHostileFiles(t *testing.T) {
	cre := func(match string) string {
		return "rules:\n- cre: {id: X-1, severity: 1, title: x}\n  rule: {set: {window: 1m, event: {source: cre.log.relay}, match: [" + match + "]}}\n"
	}
	bomb := "rules:\n- &a [x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("- &%c [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", i-1), 9), ", "))
	}
	for name, test := range map[string]struct {
		data string
		want string // in the reason
		line int
	}{
		"nul":          {"rules:\n- \x00", "NUL", 2},
		"not utf-8":    {"rules:\n- \xff\n", "not UTF-8", 2},
		"empty":        {"", "no content", 0},
		"cut off":      {"rules:\n- cre: {id: 1,\n", "not YAML", 2},
		"huge":         {"rules: [" + strings.Repeat("x", MaxFileBytes), "bytes, more than", 0},
		"bomb":         {bomb, "", 0},
		"deep":         {"rules: " + strings.Repeat("[", 500) + strings.Repeat("]", 500), "", 0},
		"other":        {"groups: []\n", "no `rules`", 1},
		"list":         {"- a\n", "must be a mapping", 1},
		"alternatives": {cre("{regex: '(" + strings.Repeat("a|b.|", 2000) + "c)" + strings.Repeat(".(x|y.)", 500) + "'}, z"), "", 2},
		"pieces":       {cre("{regex: '(" + strings.Repeat("a|b.|", 100) + "c)" + strings.Repeat(".x", 4000) + "'}, z"), "", 2},
		"many terms":   {cre(strings.Repeat("{regex: 'a.*b|c.*d'},", 500) + "z"), "more than 64", 2},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			r, err := Import([]File{{Name: "f", Data: []byte(test.data), Sample: []byte(strings.Repeat("aXb z\n", 1000))}}, Options{Pack: "p"})
			require.NoError(t, err)
			require.Less(t, time.Since(began), 20*time.Second) // far more than any of them takes
			require.NotEmpty(t, r.Outcomes)
			o := r.Outcomes[0]
			if test.want != "" {
				require.Equal(t, Refused, o.Status)
				require.Contains(t, o.Reasons[0], test.want)
			}
			if test.line > 0 && o.Line != test.line {
				require.Contains(t, strings.Join(o.Reasons, " "), fmt.Sprintf("line %d", test.line), "it is on line %d", o.Line)
			}
		})
	}
}

func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range MaxRules + 1 {
		fmt.Fprintf(&b, "- cre: {id: X-%d, severity: 1, title: x}\n  rule: {set: {event: {source: cre.log.relay}, match: [broken]}}\n", i)
	}
	_, err := Import([]File{{Name: "f", Data: []byte(b.String())}}, Options{Pack: "p"})
	require.ErrorContains(t, err, "more than 5000 rules up to f")
}

// Thousands of rules become several packs, each small enough to be read. All names differ.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "- cre: {id: X-%d, severity: 1, title: The same title, description: %q}\n  rule: {set: {event: {source: cre.log.relay}, match: [\"broken %d\"]}}\n", i%1000, strings.Repeat("long ", 100), i)
	}
	r, err := Import([]File{{Name: "f", Data: []byte(b.String())}}, Options{Pack: "p"})
	require.NoError(t, err)
	require.Greater(t, len(r.Packs), 1)
	var docs []*rules.Document
	for _, p := range r.Packs {
		require.LessOrEqual(t, len(p.Data), rules.MaxFileBytes)
		doc, problems := rules.Parse(rules.File{Name: p.Name, Data: p.Data})
		require.Empty(t, problems)
		docs = append(docs, doc)
	}
	set, problems := rules.Build(docs, rules.Options{})
	require.Empty(t, problems.Errors())
	require.Len(t, set.Rules, 3000)
}

// Texts of a file cannot leave their place in the pack.
func TestTextsStayTexts(t *testing.T) {
	nasty := "x\\\"\n- alert: Evil\n  from: '{}' # {{ $line }}\t\u202e\u0085\x1b[31m'"
	var b bytes.Buffer
	fmt.Fprintf(&b, "rules:\n- cre: {id: %q, severity: 1, title: %q, description: %q, mitigation: %q, tags: [%q], references: [%q], applications: [{name: %q, version: %q}]}\n"+
		"  rule: {set: {event: {source: cre.log.relay}, match: [%q]}}\n", nasty, nasty, nasty, nasty, nasty, nasty, nasty, nasty, nasty)
	data := bytes.ReplaceAll(b.Bytes(), []byte(`\x1b`), []byte(`\e`))
	r, err := Import([]File{{Name: "f", Data: data}}, Options{Pack: "p"})
	require.NoError(t, err)
	require.Len(t, r.Packs, 1, r.Outcomes)
	doc, problems := rules.Parse(rules.File{Name: "p", Data: r.Packs[0].Data})
	require.Empty(t, problems.Errors(), string(r.Packs[0].Data))
	set, _ := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.NotNil(t, set)
	require.Len(t, set.Rules, 1)
	require.Equal(t, []string{nasty}, set.Rules[0].Steps[0].Matcher.Contains)
}
