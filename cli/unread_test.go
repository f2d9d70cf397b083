package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where nothing could be read, the error is all that a person sees, and its first line is the
// reason. A document in JSON exists all the same.
func TestNothingRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	absent := filepath.Join(dir, "absent")
	pack := file("pack.yaml", `pack: {name: p, version: "1"}
rules:
- {alert: A, from: '{pod=~".+"}', match: some failure, by: [pod], severity: warning, annotations: {summary: s}}
`)
	unread := map[string][]string{
		"no such file or directory": {absent},
		"absent: no such file":      {absent, absent + "2"},
		"no logs found":             {folder},
		"the input has no text":     {file("empty.log", "")},
		"input has no text: this":   {file("nuls.log", strings.Repeat("\x00", 5000))},
		"is an address and not":     {"https://example.org/x.log"},
		"is a pack of rules, not":   {pack},
		"not text":                  {file("binary", strings.Repeat("\x00\xff\x01\x02", 500))},
		"unpack gzip":               {file("cut.gz", "\x1f\x8b\x08garbage")},
	}
	for _, command := range []string{
		"scan", "scan --hits", "scan --hits -o jsonl", "scan -o jsonl", "replay", "replay --against " + pack,
		"case", "case -o html", "discover", "discover --rules-out " + filepath.Join(dir, "new.yaml"), "discover --rules-out -",
	} {
		for why, paths := range unread {
			var out, errOut bytes.Buffer
			args := append(strings.Fields(command), append([]string{"--rules", pack}, paths...)...)
			code := Run(args, strings.NewReader(""), &out, &errOut, func(string) string { return "" })
			require.Equal(t, exitFailed, code, args)
			require.Empty(t, out.String(), args)
			require.Regexp(t, "^crowsnest: .*"+why, errOut.String(), args)
			require.Len(t, strings.Split(strings.TrimSpace(errOut.String()), "\n"), len(paths), "%s: %s", args, errOut.String())
		}
	}
	for _, command := range []string{"check rules", "test rules", "scan --rules", "replay " + pack + " --rules", "discover --rules", "export loki --rules", "case --rules", "rules list --rules"} {
		var out, errOut bytes.Buffer
		code := Run(append(strings.Fields(command), absent), strings.NewReader(""), &out, &errOut, func(string) string { return "" })
		require.Equal(t, exitFailed, code, command)
		require.Regexp(t, `^(crowsnest: load rules:\n)?\S+absent: error: read: no such file or directory \[read\]\n  fix: check the path\n$`, out.String()+errOut.String(), command)
	}
}
