package texts

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/template"
	"crowsnest/test/child"
)

// prelude makes every tool do nothing, and the payload leave a mark. ended
// proves that the pasted text did not leave a quotation open. The first words of
// most blocks are functions, because the shell forks for a command that it does
// not find.
const prelude = `set -H
PATH=%[1]q/none
command_not_found_handle() { :; }
for f in kubectl UNSAFE_VALUE_{1..9}; do eval "$f() { :; }"; done
pwn() { echo run >> %[1]q/marks; }
ended() { ended=$((ended+1)); }
exec 2>/dev/null >/dev/null
`

// paste enters blocks of text in an interactive bash and returns how often a
// payload ran, how many blocks ended, and the files that were created.
func paste(t *testing.T, blocks []string) (ran, ended int, files []string) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err, "the test needs bash")
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o700))
	var script bytes.Buffer
	fmt.Fprintf(&script, prelude, dir)
	for _, b := range blocks {
		script.WriteString(b + "\nended\n")
	}
	fmt.Fprintf(&script, "echo $ended > %q/ended\nexit\n", dir)

	cmd := exec.Command(bash, "--norc", "--noprofile", "--noediting", "-i")
	cmd.Dir, cmd.Stdin, cmd.Env = work, &script, []string{"HOME=" + dir, "HISTFILE=", "PS1=", "PS2="}
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	_ = p.Wait() // the exit status is that of the last command

	marks, _ := os.ReadFile(filepath.Join(dir, "marks"))
	count, _ := os.ReadFile(filepath.Join(dir, "ended"))
	ended, _ = strconv.Atoi(strings.TrimSpace(string(count)))
	entries, err := os.ReadDir(work)
	require.NoError(t, err)
	for _, e := range entries {
		files = append(files, e.Name())
	}
	return bytes.Count(marks, []byte("\n")), ended, files
}

// The test setup detects payloads: the same values run if a step contains them
// unchanged.
func TestShellRunsPayloads(t *testing.T) {
	var blocks []string
	for _, v := range []string{"a; pwn", "$(pwn)", "`pwn`", "a\npwn", "a | pwn", "> mark"} {
		blocks = append(blocks, "kubectl get "+v)
	}
	ran, ended, files := paste(t, blocks)
	require.Equal(t, 5, ran)
	require.Equal(t, len(blocks), ended)
	require.Equal(t, []string{"mark"}, files)
}

// Every step of every shipped rule is pasted with every hostile value. Equal
// texts are pasted once.
func TestNoPayloadRunsInShippedSteps(t *testing.T) {
	unique, rendered := map[string]bool{}, 0
	add := func(r *rules.Rule, value string) {
		text, failed := r.Remediation.Text(withLabels(r, named(r, value)), neutral)
		require.Zero(t, failed, r.Alert)
		lines := strings.Split(text, "\n")
		if r.Remediation.Summary != nil {
			lines = lines[1:]
		}
		require.GreaterOrEqual(t, len(lines), len(r.Remediation.Steps), r.Alert)
		for i, line := range lines {
			if i < len(r.Remediation.Steps) {
				line = strings.TrimPrefix(line, strconv.Itoa(i+1)+". ")
				rendered++
			} else {
				require.True(t, strings.HasPrefix(line, "UNSAFE_VALUE_"), "%s: a line of its own: %q", r.Alert, line)
			}
			unique[line] = true
		}
	}
	values := append(hostile(), ordinary...)
	for _, r := range shipped(t) {
		for _, v := range values {
			add(r, v)
		}
	}
	blocks := slices.Sorted(maps.Keys(unique))
	ran, ended, files := paste(t, blocks)
	require.Zero(t, ran, "payloads ran")
	require.Equal(t, len(blocks), ended, "a step goes on in the next line")
	require.Empty(t, files, "files that a redirection made")
	t.Logf("%d steps rendered with %d values, %d different texts pasted", rendered, len(values), len(blocks))
}

// Ordinary names, addresses and versions are shown, not replaced.
func TestOrdinaryValuesAreShown(t *testing.T) {
	for _, v := range ordinary {
		require.True(t, template.IsSafe(v), v)
	}
	for _, v := range hostile() {
		require.False(t, template.IsSafe(v) && v != payload && strings.Trim(v, "a") != "", "%q", v)
	}
}
