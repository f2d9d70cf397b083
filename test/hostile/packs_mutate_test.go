package hostile

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// mutants returns n packs with one changed shipped rule each: either bytes of
// the text are changed, or a value is replaced.
func mutants(t *testing.T, n int) (out []hostilePack) {
	t.Helper()
	files, err := rulefiles.ReadFS(rules.Shipped())
	require.NoError(t, err)
	dice := rand.New(rand.NewPCG(12, 2026))
	for i := range n {
		name, text := oneRule(t, files[dice.IntN(len(files))].Data, i, dice)
		var how string
		if i%2 == 0 {
			how, text = damaged(text, dice)
		} else {
			how, text = exchanged(t, text, dice)
		}
		out = append(out, hostilePack{fmt.Sprintf("mutant %d of %s: %s", i, name, how), text})
	}
	return out
}

// oneRule returns one rule as a separate pack with its own name.
func oneRule(t *testing.T, data []byte, number int, dice *rand.Rand) (name, text string) {
	t.Helper()
	var file struct {
		Defaults yaml.Node   `yaml:"defaults"`
		Rules    []yaml.Node `yaml:"rules"`
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	rule := &file.Rules[dice.IntN(len(file.Rules))]
	plain(rule)
	name = rule.Content[1].Value
	b, err := yaml.Marshal(map[string]any{"pack": map[string]string{"name": fmt.Sprint("mutant-", number)}, "defaults": &file.Defaults, "rules": []*yaml.Node{rule}})
	require.NoError(t, err)
	return name, regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(string(b), fmt.Sprint(name, "X", number))
}

// plain expands aliases.
func plain(n *yaml.Node) {
	n.Anchor = ""
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			alias := *c.Alias
			n.Content[i] = &alias
		}
		plain(n.Content[i])
	}
}

// damaged truncates a text, or inserts bytes.
func damaged(text string, dice *rand.Rand) (how, out string) {
	at := dice.IntN(len(text))
	if dice.IntN(3) == 0 {
		return fmt.Sprintf("cut off at byte %d", at), text[:at]
	}
	bytes := []string{"\x00", "\t", "\r", "\xff", "\"", "'", "{{", "}}", "[", "]", ": ", "\n", "- ", "&a ", "*a ", "\u202e", "%", strings.Repeat("(", 300)}
	what := bytes[dice.IntN(len(bytes))]
	return fmt.Sprintf("%.10q at byte %d", what, at), text[:at] + what + text[at:]
}

// exchanged replaces one random value by one of values.
func exchanged(t *testing.T, text string, dice *rand.Rand) (how, out string) {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &root))
	var all []*yaml.Node
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		all = append(all, n)
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(root.Content[0])
	at := all[1+dice.IntN(len(all)-1)]
	was, value := at.Value, values[dice.IntN(len(values))]
	var other yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(value), &other))
	*at = *other.Content[0]
	b, err := yaml.Marshal(&root)
	require.NoError(t, err)
	return fmt.Sprintf("%.30q is %s", was, value), string(b)
}
