package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocuments does what documents show, from the top down and in one folder for
// each: it writes the files, runs the commands and compares what they print.
//
// A fence of Markdown says what its block is:
//
//	yaml FILE            the file is written; so with text FILE
//	yaml FILE append     the block is added to its end
//	console              each "$ " line is run by sh, and the lines below it are what
//	                     it prints, on both outputs; "\" at its end continues it
//	console exit=N       the last command ends with N, not 0
//
// Blocks of other kinds are for the reader alone. With UPDATE_SNAPSHOTS, as by make
// docs, what commands print now is written into the document.
func TestDocuments(t *testing.T) {
	for _, name := range []string{"tutorial.md"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(repoRoot, "docs", name)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			d := document{t: t, dir: t.TempDir(), update: os.Getenv("UPDATE_SNAPSHOTS") != ""}
			got := d.play(string(text))
			require.NotZero(t, d.commands)
			if d.update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
		})
	}
}

// document is one that is played.
type document struct {
	t        *testing.T
	dir      string
	update   bool
	commands int
}

// play returns the text with what its commands print.
func (d *document) play(text string) string {
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		info, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		require.Less(d.t, end, len(lines), "line %d begins a block that does not end", i+1)
		block := lines[i+1 : end]
		words := strings.Fields(info)
		switch {
		case len(words) > 0 && words[0] == "console":
			shown := block
			block = d.run(block, words[1:])
			if !d.update { // block by block, so that the difference is short
				assert.Equal(d.t, strings.Join(shown, "\n"), strings.Join(block, "\n"),
					"line %d: the commands print something else than the document shows; if that is right, run make docs", i+1)
			}
		case len(words) > 1:
			d.write(words[1], block, len(words) > 2 && words[2] == "append")
		}
		out = append(append(out, block...), lines[end])
		i = end
	}
	return strings.Join(out, "\n")
}

// write writes a file of the document.
func (d *document) write(name string, lines []string, more bool) {
	path := filepath.Join(d.dir, filepath.FromSlash(name))
	require.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o755))
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if more {
		flags = os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(path, flags, 0o644)
	require.NoError(d.t, err)
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	require.NoError(d.t, err)
	require.NoError(d.t, f.Close())
}

// run runs the commands of a block and returns it with what they print.
func (d *document) run(block, options []string) []string {
	wantLast := "exit=0"
	if len(options) > 0 {
		wantLast = options[0]
	}
	var out []string
	last := "exit=0"
	for i := 0; i < len(block); i++ {
		command, ok := strings.CutPrefix(block[i], "$ ")
		if !ok {
			continue
		}
		require.Equal(d.t, "exit=0", last, "only the last command of a block may fail:\n%s", strings.Join(out, "\n"))
		out = append(out, block[i])
		for strings.HasSuffix(command, `\`) {
			i++
			command += "\n" + block[i]
			out = append(out, block[i])
		}
		printed, code := d.shell(command)
		out = append(out, printed...)
		last = code
		d.commands++
	}
	require.Equal(d.t, wantLast, last, "the last command of:\n%s", strings.Join(out, "\n"))
	return out
}

// shell runs a command as a reader would.
func (d *document) shell(command string) (printed []string, code string) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Dir = d.dir
	c.Env = append(os.Environ(), "NO_COLOR=1", "TZ=UTC", "LC_ALL=C")
	data, err := c.CombinedOutput()
	code = "exit=0"
	if err != nil {
		require.ErrorAs(d.t, err, new(*exec.ExitError))
		code = "exit=" + strings.TrimPrefix(err.Error(), "exit status ")
	}
	text := strings.ReplaceAll(string(data), d.dir, "/tmp/tutorial")
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil, code
	}
	return strings.Split(text, "\n"), code
}
