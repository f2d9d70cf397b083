package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

// terminal is a program in a terminal.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{} // the output has ended

	mu  sync.Mutex
	out strings.Builder
}

// inTerminal starts a program in a terminal of 24 rows. If in is not nil it is standard
// input.
func inTerminal(t *testing.T, env []string, in io.Reader, name string, args ...string) *terminal {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "PAGER=", "NO_COLOR=", "LESS="), env...)
	master, slave, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 160}))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if in != nil {
		cmd.Stdin = in
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	x := &terminal{t: t, cmd: cmd, tty: master, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			x.mu.Lock()
			x.out.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return // EIO: no program has the terminal open
			}
		}
	}()
	t.Cleanup(func() { _ = master.Close() })
	return x
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// shows waits until the terminal has shown a text.
func (x *terminal) shows(text string) {
	x.t.Helper()
	if !wait.Until(time.Minute, func() bool { return strings.Contains(x.text(), text) }) {
		x.t.Fatalf("the terminal does not show %q:\n%s", text, x.text())
	}
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	_, err := io.WriteString(x.tty, keys)
	require.NoError(x.t, err)
}

// ends waits for the end and returns all that was shown, and the exit code.
func (x *terminal) ends() (string, int) {
	x.t.Helper()
	_ = x.cmd.Wait()
	<-x.done
	return strings.ReplaceAll(x.text(), "\r\n", "\n"), x.cmd.ProcessState.ExitCode()
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestColorsOnTerminal(t *testing.T) {
	list := []string{"rules", "list", "--rules", "../rules/packs/etcd.yaml"}
	colored, code := inTerminal(t, nil, nil, "crowsnest", list...).ends()
	require.Zero(t, code)
	require.Contains(t, colored, "\x1b[31mcritical\x1b[0m")
	plain, _ := inTerminal(t, []string{"NO_COLOR=1"}, nil, "crowsnest", list...).ends()
	require.NotContains(t, plain, "\x1b")
	require.Equal(t, plain, escape.ReplaceAllString(colored, ""), "colors move no column")
	out, _, _ := asked(nil, list...)
	require.Equal(t, plain, out)
}

// A line of progress appears while a pipe is silent, and is erased.
func TestProgressOnTerminal(t *testing.T) {
	in, feed := io.Pipe()
	x := inTerminal(t, nil, in, "crowsnest", "scan", "--rules", "../rules/packs/etcd.yaml", "-")
	_, err := io.WriteString(feed, "2026-01-01T00:00:00.000000000Z stderr F I0101 all is well\n")
	require.NoError(t, err)
	x.shows("reading, ")
	require.NoError(t, feed.Close())
	out, code := x.ends()
	require.Zero(t, code)
	require.Regexp(t, "\r\x1b\\[K0 alerts from 0 matches; 1 line", out)
}

// Ctrl-C ends the following of a log with a summary.
func TestFollowInTerminal(t *testing.T) {
	log := filepath.Join(t.TempDir(), "etcd.log")
	line := func(text string) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = io.WriteString(f, time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z")+" stderr F "+text+"\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	line("etcdserver: mvcc: database space exceeded 1")
	for _, rotate := range []bool{false, true} {
		x := inTerminal(t, nil, nil, "crowsnest", "scan", "-f", "--hits", "--rules", "../rules/packs/etcd.yaml", log)
		x.shows("space exceeded 1")
		if rotate {
			require.NoError(t, os.Rename(log, log+".1"))
		}
		line("etcdserver: mvcc: database space exceeded 2")
		x.shows("space exceeded 2")
		x.types("\x03")
		out, code := x.ends()
		require.Zero(t, code, out)
		require.Regexp(t, `\^C[23] matches; [23] lines in 1 input`, out)
	}
}

func TestFollowAlertsInTerminal(t *testing.T) {
	in, feed := io.Pipe()
	x := inTerminal(t, nil, in, "crowsnest", "scan", "-f", "--rules", "../rules/packs/etcd.yaml")
	_, err := io.WriteString(feed, time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z")+" stderr F etcdserver: mvcc: database space exceeded 1\n")
	require.NoError(t, err)
	x.shows("EtcdOutOfSpace") // while the pipe is open
	require.Contains(t, x.text(), "\x1b[31mFIRING")
	require.NoError(t, feed.Close())
	out, code := x.ends()
	require.Zero(t, code, out)
	require.Contains(t, out, "1 alert from 1 match; 1 line in 1 input")
}

// The completion of a real bash.
func TestBashCompletion(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "completion.bash")
	out, _, code := asked(nil, "completion", "bash")
	require.Zero(t, code)
	// What the package bash-completion defines, for machines without it.
	words := "\n_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=(\"${COMP_WORDS[@]}\"); cword=$COMP_CWORD; }\n"
	require.NoError(t, os.WriteFile(script, []byte(out+words), 0o600))
	x := inTerminal(t, []string{"PS1=$ ", "INPUTRC=/dev/null"}, nil, "bash", "--norc", "--noprofile", "-i")
	x.types("cd " + dir + "; . ./completion.bash; echo re''ady\n")
	x.shows("ready")
	for _, c := range []struct{ typed, shown string }{
		{"crowsnest run --log.level deb\t", "--log.level debug "},
		{"crowsnest get hist\t", "get history "},
	} {
		x.types(c.typed)
		x.shows(c.shown)
		x.types("\x15") // erase the line
	}
	x.types("exit\n")
	_, _ = x.ends()
}
