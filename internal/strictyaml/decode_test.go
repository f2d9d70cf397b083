package strictyaml

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample has a field of each kind that the decoder supports.
type sample struct {
	Text     string            `yaml:"text"`
	Number   int               `yaml:"number"`
	Small    int8              `yaml:"small"`
	Positive uint16            `yaml:"positive"`
	Ratio    float64           `yaml:"ratio"`
	Flag     bool              `yaml:"flag"`
	Wait     time.Duration     `yaml:"wait"`
	List     []string          `yaml:"list"`
	Map      map[string]string `yaml:"map"`
	Either   Strings           `yaml:"either"`
	Inner    inner             `yaml:"inner"`
	Pointer  *inner            `yaml:"pointer"`
	Many     []inner           `yaml:"many"`
	Stamp    time.Time         `yaml:"stamp"`
	Level    level             `yaml:"level"`
	Free     any               `yaml:"-"`
	Raw      Raw               `yaml:"raw"`
	Loose    []string          `yaml:"loose" strict:"anchors"`
	shared   `yaml:",inline"`
	Keys     Keys `yaml:"-"`
}

type inner struct {
	Name string `yaml:"name" strict:"required"`
	Keys Keys   `yaml:"-"`
}

type shared struct {
	Lifted string `yaml:"lifted"`
}

// level decodes itself.
type level string

func (l *level) DecodeYAML(n *Node) {
	text, ok := n.Text()
	if ok && text != "high" && text != "low" {
		n.Error("level", n.Name()+" is "+text, "use high or low")
		return
	}
	*l = level(text)
}

func findings(ps Problems) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Check))
	}
	return strings.Join(out, ", ")
}

func TestDecode(t *testing.T) {
	var s sample
	ps := Decode("f.yaml", []byte(`
text: "5"
number: -7
small: 127
positive: 65535
ratio: 0.5
flag: true
wait: 1h30m
list: [a, "1", 2024-01-01]
map: {a: b, on: yes}
either: one
inner: {name: x}
pointer:
  name: y
many:
- name: z
stamp: "2024-01-02T03:04:05Z"
level: high
lifted: up
loose: [&a x, *a]
`), &s, Options{})
	require.Empty(t, ps, ps.Error())
	require.Equal(t, "5", s.Text)
	require.Equal(t, -7, s.Number)
	require.Equal(t, int8(127), s.Small)
	require.Equal(t, uint16(65535), s.Positive)
	require.InDelta(t, 0.5, s.Ratio, 0)
	require.True(t, s.Flag)
	require.Equal(t, 90*time.Minute, s.Wait)
	require.Equal(t, []string{"a", "1", "2024-01-01"}, s.List)
	require.Equal(t, map[string]string{"a": "b", "on": "yes"}, s.Map)
	require.Equal(t, Strings{"one"}, s.Either)
	require.Equal(t, "x", s.Inner.Name)
	require.Equal(t, "y", s.Pointer.Name)
	require.Equal(t, "z", s.Many[0].Name)
	require.Equal(t, 2024, s.Stamp.Year())
	require.Equal(t, level("high"), s.Level)
	require.Equal(t, "up", s.Lifted)
	require.Equal(t, []string{"x", "x"}, s.Loose)
}

func TestDecodeProblems(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var s sample
		require.Equal(t, want, findings(Decode("f.yaml", []byte(text), &s, Options{})), "%s", text)
	}
	f("text: 5\n", "1:7 wrong-type")
	f("text: 1.10\n", "1:7 wrong-type")
	f("text: true\n", "1:7 wrong-type")
	f("text: ~\n", "1:7 no-value")
	f("text:\n", "1:1 no-value")
	f("text:\n\n\nflag: true\n", "1:1 no-value")
	f("text: [a]\n", "1:7 wrong-type")
	f("text: {a: b}\n", "1:7 wrong-type")
	f("number: \"5\"\n", "1:9 wrong-type")
	f("number: 0x10\n", "1:9 wrong-type")
	f("number: 010\n", "1:9 wrong-type")
	f("number: 1_000\n", "1:9 wrong-type")
	f("number: 1.5\n", "1:9 wrong-type")
	f("number: 1e3\n", "1:9 wrong-type")
	f("small: 128\n", "1:8 wrong-type")
	f("positive: -1\n", "1:11 wrong-type")
	f("positive: 65536\n", "1:11 wrong-type")
	f("ratio: half\n", "1:8 wrong-type")
	f("ratio: \"0.5\"\n", "1:8 wrong-type")
	f("flag: yes\n", "1:7 wrong-type")
	f("flag: \"true\"\n", "1:7 wrong-type")
	f("wait: 90\n", "1:7 bad-duration")
	f("wait: 0\n", "")
	f("wait: 1m1h\n", "1:7 bad-duration")
	f("list: a\n", "1:7 wrong-type")
	f("list: {a: b}\n", "1:7 wrong-type")
	f("list: [a, 5, [b]]\n", "1:11 wrong-type, 1:14 wrong-type")
	f("list:\n- a\n-\n- b\n", "3:2 no-value")
	f("map: [a]\n", "1:6 wrong-type")
	f("map: {a: 5, a: 6}\n", "1:10 wrong-type, 1:13 duplicate-key")
	f("map: {5: a}\n", "1:7 wrong-type")
	f("map: {{a: b}: c}\n", "1:7 wrong-type")
	f("either: {a: b}\n", "1:9 wrong-type")
	f("inner: {}\n", "1:8 missing-key")
	f("inner: {nam: x}\n", "1:9 unknown-key")
	f("inner: {name: x, other: y}\n", "1:18 unknown-key")
	f("many:\n- name: x\n  size: 5\n- {}\n", "3:3 unknown-key, 4:3 missing-key")
	f("pointer: text\n", "1:10 wrong-type")
	f("stamp: soon\n", "1:8 bad-value")
	f("level: middle\n", "1:8 level")
	f("lifed: x\n", "1:1 unknown-key")
	f("Free: x\n", "1:1 unknown-key")
	f("keys: x\n", "1:1 unknown-key")
	f("text: &a x\n", "1:7 anchor")
	f("text: x\nlist: [*a]\n", "2:1 anchor")
	f("loose: [&a x]\ntext: *a\n", "2:7 anchor")
	f("loose: &a [x, *a]\n", "1:15 wrong-type")
	f("text: !!str 5\n", "1:7 tag")
	f("text: !x 5\n", "1:7 tag")
	f("<<: {text: a}\n", "1:1 merge-key")
	f("map: {<<: {a: b}}\n", "1:7 merge-key")
	f("? text\n", "1:3 no-value")
	f("*a : b\n", "1:1 anchor")
	f("&a text: b\n", "1:1 anchor")
	f("text: \"sömé\" \nlist: [ä, 5]\n", "2:12 wrong-type")
	f("map: {ö: 5}\n", "1:11 wrong-type")
	f("", "0:0 empty-file")
	f("# nothing\n", "0:0 empty-file")
	f("---\n---\ntext: x\n", "2:1 second-document")
	f("text: x\n---\ntext: y\n", "2:1 second-document")
	f("text: x\n...\n", "")
	f("text: x\n...\ntext: y\n", "3:1 second-document")
	f("- a\n", "1:1 wrong-type")
	f("5\n", "1:1 wrong-type")
	f("text: a\x00b\n", "1:8 encoding")
	f("text: \xff\n", "1:7 encoding")
	f("\xff\xfet\x00", "1:4 encoding")
	f("text: a\u2028flag: x\nnumber: y\n", "1:17 wrong-type, 2:9 wrong-type")
	f("text: \x1b[31m\n", "1:1 yaml-syntax")
}

// TestSyntaxLine pins the lines of syntax errors: YAML libraries report the start of the
// surrounding construct.
func TestSyntaxLine(t *testing.T) {
	f := func(text string, line int) {
		t.Helper()
		var s sample
		ps := Decode("f.yaml", []byte(text), &s, Options{})
		require.Len(t, ps, 1)
		require.Equal(t, line, ps[0].Line, "%s", ps.Error())
		require.Contains(t, []string{"yaml-syntax", "anchor"}, ps[0].Check)
	}
	head := "text: a\nmap:\n  a: b\n  c: d\n"
	f(head+"list: [a, b\n", 5)
	f(head+"list: [a, b\nflag: true\n", 5)
	f(head+"text: \"abc\nflag: true\n", 5)
	f(head+" list: [a]\n", 5)
	f(head+"    e: f\n", 5)
	f(head+"\tlist: [a]\n", 5)
	f(head+"inner: name: x\n", 5)
	f(head+"text: 'it's'\n", 5)
	f(head+"text: @x\n", 5)
	f(head+"text: %x\n", 5)
	f(head+"wrong\n", 5)
	f(head+"list: [\n  a,\n  b\n]\nlist: [a\n", 9)
	f(head+"list: [*x]\n"+head, 5)
	f("text: {{ x }\n", 1)
	f("{\n", 1)
}

func TestSizeIsCheckedBeforeParsing(t *testing.T) {
	var s sample
	ps := Decode("f.yaml", []byte(strings.Repeat("[", DefaultMaxBytes+1)), &s, Options{})
	require.Equal(t, "0:0 too-large", findings(ps))
	ps = Decode("f.yaml", []byte("text: abc\n"), &s, Options{MaxBytes: 5})
	require.Equal(t, "0:0 too-large", findings(ps))
}

func TestAllowEmpty(t *testing.T) {
	var s sample
	require.Empty(t, Decode("f.yaml", []byte("# nothing\n"), &s, Options{AllowEmpty: true}))
}

// TestHostile: input designed to be expensive is refused.
func TestHostile(t *testing.T) {
	bomb := "loose:\n- &a x\n" + strings.Repeat("- *a\n", 150_000)
	nested := "loose: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	f := func(text, check string) {
		t.Helper()
		var s sample
		ps := Decode("f.yaml", []byte(text), &s, Options{})
		require.Len(t, ps.Errors(), 1, "%s", check)
		require.Equal(t, check, ps[0].Check)
	}
	f(bomb, "anchor")
	f(nested, "wrong-type")
	f("text: "+strings.Repeat("[", 150_000), "yaml-syntax")
	f("text: "+strings.Repeat("[", MaxValues), "too-large")
	f("list: ["+strings.Repeat("1,", MaxValues)+"]\n", "too-large")
	f("loose:\n"+strings.Repeat("-\n", MaxValues), "too-large")
	f("loose:\n- &a x\n"+strings.Repeat("- *a\n", MaxValues), "too-large")
	f(strings.Repeat("- ", 9000)+"a", "wrong-type")
	f("text: \""+strings.Repeat("\\u0041", 100_000), "yaml-syntax")
}

func TestManyProblems(t *testing.T) {
	var s sample
	ps := Decode("f.yaml", []byte("list: ["+strings.Repeat("5,", 50_000)+strings.Repeat("ö,", 50_000)+"]\n"), &s, Options{})
	require.Len(t, ps, maxProblems+1)
	require.Equal(t, "too-many-problems", ps[maxProblems].Check)
}

func TestDepth(t *testing.T) {
	type tree struct {
		Sub []*tree `yaml:"sub"`
	}
	var v tree
	ps := Decode("f.yaml", []byte(strings.Repeat("{sub: [", 100)+strings.Repeat("]}", 100)), &v, Options{})
	require.Len(t, ps, 1)
	require.Equal(t, "too-deep", ps[0].Check)
}

func TestCyclicAlias(t *testing.T) {
	type tree struct {
		Sub []*tree `yaml:"sub" strict:"anchors"`
	}
	var v tree
	ps := Decode("f.yaml", []byte("sub: &a [{sub: *a}]\n"), &v, Options{})
	require.NotEmpty(t, ps)
	require.Equal(t, "too-deep", ps[0].Check)
}

func TestPlaces(t *testing.T) {
	var s sample
	ps := Decode("f.yaml", []byte("text: x\nlist: [a,\n  b]\nmap:\n  k: v\ninner: {name: n}\n"), &s, Options{})
	require.Empty(t, ps)
	at := func(p Pos) string { return fmt.Sprintf("%s:%d", p, p.Column) }
	require.Equal(t, "f.yaml:1:1", at(s.Keys.Pos))
	require.Equal(t, "f.yaml:1:7", at(s.Keys.Value("text")))
	require.Equal(t, "f.yaml:2:1", at(s.Keys.Key("list")))
	require.Equal(t, "f.yaml:3:3", at(s.Keys.Item("list", 1)))
	require.Equal(t, "f.yaml:2:7", at(s.Keys.Item("list", 7)))
	require.Equal(t, "f.yaml:5:3", at(s.Keys.EntryKey("map", "k")))
	require.Equal(t, "f.yaml:5:6", at(s.Keys.EntryValue("map", "k")))
	require.Equal(t, "f.yaml:6:9", at(s.Inner.Keys.Key("name")))
	require.Equal(t, "f.yaml:1:1", at(s.Keys.Key("missing")))
	require.True(t, s.Keys.Lacks("number"))
	require.Equal(t, []string{"text", "list", "map", "inner"}, s.Keys.Names())
}

func TestWithin(t *testing.T) {
	f := func(text, value string, offset, want int) {
		t.Helper()
		var s sample
		require.Empty(t, Decode("f.yaml", []byte(text), &s, Options{}))
		require.Equal(t, want, s.Keys.Value("text").Within(value, offset).Column)
	}
	f("text: abcd\n", "abcd", 2, 9)
	f("text: 'abcd'\n", "abcd", 2, 10)
	f("text: \"abcd\"\n", "abcd", 4, 12)
	f("text: \"a\\tcd\"\n", "a\tcd", 3, 7) // escaped: no way to tell
	f("text: |\n  abcd\n", "abcd\n", 2, 7)
}

func TestRaw(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var s sample
		ps := Decode("f.yaml", []byte(text), &s, Options{})
		require.Empty(t, ps, ps.Error())
		require.YAMLEq(t, want, string(s.Raw.Text))
		require.True(t, s.Raw.Present)
	}
	f("raw:\n  a: b\n  c:\n    d: e\nflag: true\n", "{a: b, c: {d: e}}")
	f("raw:\n- a\n- b: c\nflag: true\n", "[a, b: c]")
	f("raw: {a: b, c: [d]}\nflag: true\n", "{a: b, c: [d]}")
	f("flag: true\nraw:\n  # comment\n  a: '1'\n\n  c: 1\n", "{a: '1', c: 1}")

	for text, want := range map[string]string{
		"raw: {a: &x b}\n":       "1:10 anchor",
		"raw:\n  a: !!str b\n":   "2:6 tag",
		"raw:\n  <<: {a: b}\n":   "2:3 merge-key",
		"raw: {a: b, a: c}\n":    "1:13 duplicate-key",
		"raw:\n  a: &x b\n":      "2:6 anchor",
		"raw: [[{a: [&x b]}]]\n": "1:13 anchor",
	} {
		var s sample
		require.Equal(t, want, findings(Decode("f.yaml", []byte(text), &s, Options{})), text)
	}
}

func TestProblemString(t *testing.T) {
	var s sample
	ps := Decode("f.yaml", []byte("text: x\n# y\nnumbr: 5\n"), &s, Options{})
	require.Equal(t, "f.yaml:3:1: error: unknown key `numbr` [unknown-key]\n  numbr: 5\n  ^\n  fix: did you mean `number`?", ps.Error())
}

// TestSnippetIsHarmless: file content cannot control the terminal.
func TestSnippetIsHarmless(t *testing.T) {
	require.Equal(t, "a?b??????c\td", safeSnippet([]byte("a\x1bb\u009b\u202e\x00c\td"), 1))
	require.Empty(t, safeSnippet([]byte(strings.Repeat("x", 1000)), 900))
	require.Len(t, safeSnippet([]byte(strings.Repeat("x", 1000)), 1), maxSnippet)
}

func TestClosest(t *testing.T) {
	f := func(word, want string) {
		t.Helper()
		require.Equal(t, want, Closest(word, []string{"by", "clear", "contains", "count", "keep_firing_for", "not", "same", "within"}))
	}
	f("contians", "contains")
	f("cont", "count")
	f("keepFiringFor", "keep_firing_for")
	f("keep-firing-for", "keep_firing_for")
	f("Clear", "clear")
	f("whitin", "within")
	f("for", "")
	f("on", "")
	f("x", "")
	f(strings.Repeat("x", 100), "")
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("text: x\nlist: [a, 5]\nmap: {a: b}\n"))
	f.Add([]byte("loose: [&a x, *a]\n---\n"))
	f.Add([]byte("many:\n- name: x\n- {}\nraw: {a: [b]}\n"))
	f.Add([]byte("<<: *a\ntext: !!str \"\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		var s sample
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range Decode("f.yaml", data, &s, Options{}) {
			require.NotEmpty(t, p.Check)
			require.NotEmpty(t, p.Message)
			require.LessOrEqual(t, p.Line, lines)
			require.NotContains(t, p.Snippet, "\x1b")
			_ = p.String()
		}
	})
}
