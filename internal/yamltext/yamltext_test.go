package yamltext

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// Whatever a string is, a YAML library reads it as it was, in every place.
func TestStrings(t *testing.T) {
	for _, s := range []string{
		"", " ", "a", "a: b", "- a", "# a", "yes", "1", "it's", `say "hi" \o/`, "a\nb", "a\n\nb", "a\n  b\n c", " a\nb", "a \nb", "a\nb ", "a\n", "\na", "\ta\n\tb",
		"a\u0085b\n", "\u2028", "\ufeff", "\x1b[31m\nb", "é世界\nb", "\U0001f600", "{{ $x }}", "a\r\nb", "---", "...", "a\n---\nb",
	} {
		text := Map{{"k", s}, {"list", List{s, Map{{"in", s}, {"next", Map{{"deep", s}}}}, Map{{"items", List{s}}}}}}.String()
		var got struct {
			K    string
			List []any
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &got), text)
		require.Equal(t, s, got.K, text)
		require.Equal(t, []any{s, map[string]any{"in": s, "next": map[string]any{"deep": s}}, map[string]any{"items": []any{s}}}, got.List, text)
	}
}

func TestForm(t *testing.T) {
	var m Map
	m.Add("none", "")
	m.Add("number", Raw("3"))
	m.Add("text", "a: b")
	m.Add("several", "one\n\ntwo")
	m.Add("list", List{Raw("[a]"), Map{{"k", "v"}, {"in", List{"x"}}}})
	require.Equal(t, "number: 3\ntext: \"a: b\"\nseveral: |-\n  one\n\n  two\nlist:\n- [a]\n- k: \"v\"\n  in:\n  - \"x\"\n", m.String())
	for name, want := range map[string]string{"a_1": "a_1", "http.path": `"http.path"`, "Yes": `"Yes"`, "1a": `"1a"`, "": `""`} {
		require.Equal(t, want, QuoteName(name))
	}
}
