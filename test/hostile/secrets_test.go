package hostile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"crowsnest/redact"
	"crowsnest/test/plant"
)

// secretRules use the content of lines in every possible place: in labels,
// texts and links, in windows that are saved, and in pending episodes.
const secretRules = `pack: {name: secrets, version: "1.0.0", rules: 7}
defaults: {severity: warning}
rules:
- alert: LineInTexts
  from: '{container="secrets"}'
  match: {in: anywhere, regex: 'planted n=(?P<n>\d+) (?P<rest>[^\n]*)'}
  by: [n]
  limit: 3000
  keep_firing_for: 1h
  annotations:
    summary: "{{ $line }}"
    description: 'all of it: {{ $vars.rest | reReplaceAll " " "-" }} {{ $vars.rest | title }} {{ printf "%q" $vars.rest }}'
    half: '{{ $vars.rest | reReplaceAll "^(.{20}).*" "$1" }}'
  remediation: {summary: "see {{ $vars.rest }}", steps: ["kubectl get {{ $vars.rest }}"]}
- alert: WordsInLabels
  from: '{container="secrets"}'
  match: {in: anywhere, regex: 'planted n=\d+ .*?(?P<word>[^\s"=:]+)[\s"]*(?P<last>[^\s"=:]{4,})\W*$'}
  by: [word, last]
  limit: 3000
  keep_firing_for: 1h
  labels: {copy: "x-{{ $labels.word }}"}
- alert: FieldsInLabels
  from: '{container="secrets"}'
  match: {in: anywhere, contains: "planted n="}
  by: [password, token, secret, err, msg]
  limit: 3000
  keep_firing_for: 1h
  annotations: {user: "{{ $vars.password }}{{ $vars.authorization }}{{ $vars.err }}"}
- alert: RestCounted
  from: '{container="secrets"}'
  match: {in: anywhere, regex: 'planted n=\d+ (?P<part>\S+ ?\S* ?\S*)'}
  count: 50
  within: 1h
  by: [part]
- alert: RestDistinct
  from: '{container="secrets"}'
  match: {in: anywhere, regex: 'planted n=\d+ (?P<rest>.*)'}
  count: 200
  within: 1h
  distinct: rest
  annotations: {text: "{{ $vars.rest }}"}
- alert: RestInSequence
  from: '{container="secrets"}'
  sequence:
  - {regex: 'planted n=(?P<n>\d*)0 (?P<rest>.*)'}
  - {regex: 'planted n=(?P<n>\d*)1 (?P<rest>.*)'}
  within: 1h
  by: [container]
  annotations: {text: "{{ $vars.rest_1 }} and {{ $vars.rest_2 }}"}
- alert: LinePending
  from: '{container="secrets"}'
  match: {in: anywhere, regex: 'planted n=\d+ (?P<part>\S+ ?\S* ?\S*)'}
  clear: {contains: "never said", same: []}
  for: 2h
  by: [part]
  limit: 3000
  annotations: {text: "{{ $line }}"}
`

// planted is a line with secrets in it.
type planted struct {
	line    string
	secrets []string
}

// wraps are the ways in which controllers embed a text in a line.
var wraps = []func(s string) string{
	func(s string) string { return s },
	func(s string) string { return asJSON(map[string]string{"level": "error", "msg": s, "z": "w"}) },
	func(s string) string { return `E0101 12:00:00.000000 1 a.go:1] "Failed" err=` + strconv.Quote(s) },
	func(s string) string { return asJSON(map[string]string{"msg": asJSON(map[string]string{"inner": s})}) },
	func(s string) string { return strings.Repeat("p", 1010-len(s)/2) + " " + s }, // truncated as a sample, within the secret
	func(s string) string { // a capture truncated as a label, within the secret
		i := len("planted ") + strings.IndexByte(s[len("planted "):], ' ') + 1
		return s[:i] + strings.Repeat("p", max(1, 256-(len(s)-i)/2)) + " " + s[i:]
	},
	func(s string) string { return s + " " + strings.Repeat("q", 20<<10) },
}

// plantAll returns lines with more than a thousand secrets of every kind.
func plantAll(t *testing.T, rnd *rand.Rand) []planted {
	t.Helper()
	kinds, err := plant.Kinds()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(kinds), 40)
	var all []planted
	secrets := 0
	for i, k := range kinds {
		if k.Class == plant.Prose || k.Class == plant.None {
			continue
		}
		text, s := k.Fill(rnd)
		// A logger never writes a line break within a line.
		text = strings.ReplaceAll(text, "\n", `\n`)
		text = fmt.Sprintf("planted n=%d %s", len(all), text)
		all = append(all, planted{wraps[i%len(wraps)](text), s})
		secrets += len(s)
	}
	require.GreaterOrEqual(t, secrets, 1000)
	t.Logf("%d secrets of %d kinds in %d lines", secrets, len(kinds), len(all))
	return append(all, plantFresh(rnd, func(i int, text string) string {
		return wraps[i%len(wraps)](fmt.Sprintf("planted n=%d %s", len(all)+i, text))
	})...)
}

// plantFresh returns the lines with kinds of [plant.FreshLists], each in one encoding, from which
// the redactor hides the secret.
func plantFresh(rnd *rand.Rand, wrap func(i int, text string) string) (all []planted) {
	r := redact.New(nil)
	for _, list := range plant.FreshLists {
		for i, k := range list.Kinds(rnd) {
			if i%3 != 0 {
				continue
			}
			text := plant.FreshEncodings[i%len(plant.FreshEncodings)].Encode(k)
			line := wrap(len(all), strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(text))
			if !k.Leaks(line, r.String(line)) {
				all = append(all, planted{line, []string{k.Secret}})
			}
		}
	}
	return all
}

// needles finds parts of secrets in large amounts of text.
type needles struct {
	parts  map[string]string // a part of a secret, and its line
	starts [1 << 20]bool     // by the hash of the first bytes of a part
}

// size is the number of consecutive characters that reveal a secret. Fewer
// would occur by chance in megabytes of hashes. A short secret is searched as a
// whole.
const (
	size  = 10
	least = 6
)

func newNeedles(all []planted) *needles {
	n := &needles{parts: map[string]string{}}
	digits := regexp.MustCompile(`^[0-9a-f]+$`)
	var rules strings.Builder // as in the state; a document in base64 may mention passwords, too
	for _, pad := range []string{"", " ", "  "} {
		rules.WriteString(base64.StdEncoding.EncodeToString([]byte(pad + secretRules)))
	}
	for _, p := range all {
		for _, s := range p.secrets {
			if len(s) < least || len(s) < size && digits.MatchString(s) {
				continue // too short to be distinguished from other text; package redact tests these
			}
			for i := 0; i+min(size, len(s)) <= len(s); i++ {
				part := s[i : i+min(size, len(s))]
				if strings.Contains(rules.String(), part) {
					continue
				}
				n.parts[part] = p.line
				n.starts[start(part)] = true
			}
		}
	}
	return n
}

func start(s string) uint32 {
	h := uint32(0)
	for i := range least {
		h = h*251 + uint32(s[i])
	}
	return h & (1<<20 - 1)
}

// find returns a part of a secret in the text and its line, or "".
func (n *needles) find(text string) (part, line string) {
	for i := 0; i+least <= len(text); i++ {
		if !n.starts[start(text[i:])] {
			continue
		}
		for length := least; length <= size && i+length <= len(text); length++ {
			if line, ok := n.parts[text[i:i+length]]; ok {
				return text[i : i+length], line
			}
		}
	}
	return "", ""
}

var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)

// requireNone looks for secrets in the text, and in its decoded forms.
func (n *needles) requireNone(t *testing.T, where, text string) {
	t.Helper()
	forms := []string{text}
	if strings.Contains(text, "&#") {
		forms = append(forms, html.UnescapeString(text))
	}
	if s, err := url.QueryUnescape(strings.ReplaceAll(text, "+", "%2B")); err == nil && s != text {
		forms = append(forms, s)
	}
	if strings.Contains(text, `\u00`) {
		forms = append(forms, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u002b`, "+").Replace(text))
	}
	if strings.HasPrefix(where, "file ") {
		forms = append(forms, decoded(text))
	}
	for i, form := range forms {
		part, line := n.find(form)
		if part == "" {
			continue
		}
		at := strings.Index(form, part)
		require.Fail(t, "a secret got through", "%s, form %d: %q of %.300q\nis in %.400q", where, i, part, line, form[max(0, at-200):])
	}
}

// decoded returns the base64 content of the text, at any offset.
func decoded(text string) string {
	var out strings.Builder
	for _, run := range encoded.FindAllString(text, -1) {
		for from := range 4 {
			s := run[from:]
			s = s[:len(s)/4*4]
			for _, coding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				if b, err := coding.DecodeString(s); err == nil {
					out.Write(b)
					out.WriteByte('\n')
				}
			}
		}
	}
	return out.String()
}

// TestSecretsDoNotLeave: of a thousand secrets in lines that rules match, none
// appears in an alert, on a page, in a metric, in the log, in the state, in a case
// file, in what a language model gets, or in the output of the other commands. Nor does one
// of lines that no rule matches.
func TestSecretsDoNotLeave(t *testing.T) {
	d := newVictim(t, true, map[string]string{"secrets.yaml": secretRules})
	rnd := rand.New(rand.NewPCG(7, 20))
	all := plantAll(t, rnd)
	lines := 0
	c := d.container("tenant-a", "app-0", "secrets", time.Minute)
	for i, p := range all {
		line := p.line
		for i%3 == 1 && len(line) > 200 { // in partial lines, split anywhere
			n := 1 + rnd.IntN(150)
			c.Part("stderr", line[:n])
			line = line[n:]
			lines++
		}
		c.Write("stderr", line)
		lines++
	}
	for i := range 300 { // that are notified unchanged
		c.Write("stdout", fmt.Sprintf("planted n=%d ordinary text-%d", 10000+i, i))
		lines++
	}
	require.NoError(t, c.Err)
	unknown := plantFresh(rnd, func(i int, text string) string {
		return fmt.Sprintf(`E0101 12:00:00.000000 1 a.go:%d] "Failed to reach the store" err=%q namespace="shop"`, i, text)
	})
	other := d.container("kube-system", "store-0", "store", time.Minute)
	for _, p := range unknown {
		other.Write("stderr", p.line)
		lines++
	}
	require.NoError(t, other.Err)
	d.start()
	d.hasRead(lines)
	d.eventually("the alerts of the lines arrive", func() bool {
		got := notified(d.am)
		return got["LineInTexts"] == len(all)+300 && got["FieldsInLabels"] > 0 && got["WordsInLabels"] > 300 &&
			got["RestDistinct"] == 1 && got["RestInSequence"] == 1
	})

	n := newNeedles(slices.Concat(all, unknown, []planted{{"the configuration", []string{password}}}))
	d.shown(n)
	d.answered(n)
	for _, kind := range []string{"alerts", "episodes", "rules", "sources", "history", "unknown"} {
		for _, form := range []string{"text", "json"} {
			n.requireNone(t, "get "+kind, d.command("", "get", kind, "--url", "http://"+d.Addr, "-o", form))
		}
	}
	d.stop()
	d.kept(n)
	d.scanned(n, c.Path(), all)
}

// shown checks the output of the running daemon.
func (d *victim) shown(n *needles) {
	t := d.t
	t.Helper()
	var alerts strings.Builder
	for _, p := range d.am.Posts() {
		require.NoError(t, json.NewEncoder(&alerts).Encode(p.Alerts))
	}
	n.requireNone(t, "alerts", alerts.String())
	paths := []string{
		"/", "/rules", "/sources", "/status", "/metrics", "/unknown", "/api/v1/unknown", "/api/v1/alerts", "/api/v1/episodes", "/api/v1/rules", "/api/v1/sources",
		"/api/v1/status/config", "/api/v1/status/flags", "/api/v1/status/runtimeinfo", "/api/v1/status/buildinfo", "/-/ready", "/-/healthy",
	}
	for i, f := range d.fingerprints() {
		if i%80 == 0 {
			paths = append(paths, "/episodes/"+f, "/api/v1/episodes/"+f)
		}
	}
	require.Greater(t, len(paths), 50)
	for _, rule := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(secretRules, -1) {
		paths = append(paths, "/rules/"+rule[1])
	}
	for _, path := range paths {
		n.requireNone(t, path, d.page(path))
	}
}

// fingerprints returns those of all episodes.
func (d *victim) fingerprints() (all []string) {
	d.t.Helper()
	var list struct {
		Data struct {
			Episodes []struct{ Fingerprint string }
		}
	}
	require.NoError(d.t, json.Unmarshal([]byte(d.page("/api/v1/episodes")), &list))
	for _, e := range list.Data.Episodes {
		all = append(all, e.Fingerprint)
	}
	require.NotEmpty(d.t, all)
	return all
}

// answered checks case files, and the responses of the Model Context Protocol.
func (d *victim) answered(n *needles) {
	t := d.t
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(binary, "mcp", "--url", "http://"+d.Addr)}, nil)
	require.NoError(t, err)
	call := func(tool string, arguments map[string]any) {
		answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		require.NoError(t, err)
		require.False(t, answer.IsError, "%s: %v", tool, answer.Content)
		b, err := json.Marshal(answer)
		require.NoError(t, err)
		n.requireNone(t, "mcp "+tool, string(b))
	}
	call("alerts", nil)
	for i, f := range d.fingerprints() {
		if i%600 != 0 {
			continue
		}
		for _, form := range []string{"json", "html", "markdown"} {
			n.requireNone(t, "case "+form, d.command("", "case", "--url", "http://"+d.Addr, "-o", form, f))
		}
		call("case", map[string]any{"fingerprint": f})
	}
	require.NoError(t, session.Close())
}

// kept checks the files of a stopped daemon.
func (d *victim) kept(n *needles) {
	t := d.t
	t.Helper()
	log := d.Log()
	require.Contains(t, log, `"level":"info"`)
	n.requireNone(t, "file of the log", log)
	files := 0
	require.NoError(t, filepath.WalkDir(d.StatePath(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) > 0 {
			files++
		}
		n.requireNone(t, "file "+path, string(b))
		return err
	}))
	require.Positive(t, files)
}

// scanned checks the output of commands that read the same log.
func (d *victim) scanned(n *needles, log string, all []planted) {
	t := d.t
	t.Helper()
	pack := filepath.Join(d.Dir, "secrets.yaml")
	for _, args := range [][]string{
		{"scan", "-o", "text"}, {"scan", "-o", "jsonl"}, {"scan", "--hits", "-o", "jsonl"}, {"replay", "-o", "json"}, {"case", "-o", "json"},
	} {
		out := d.command("", append(args, "--rules", pack, log)...)
		require.NotEmpty(t, out)
		n.requireNone(t, fmt.Sprint(args), out)
	}
	for i, p := range all {
		if i%61 == 0 && !strings.Contains(p.line, "\x00") && len(p.line) < 10000 {
			out := d.command("", "explain", "--rules", pack, "--label", "container=secrets", "--line", p.line)
			require.NotEmpty(t, out)
			n.requireNone(t, "explain", out)
		}
	}
}
