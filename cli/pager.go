package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
)

// defaultPager shows less than a screen directly, keeps colors, and leaves the text on the
// terminal.
const defaultPager = "less -FRX"

const pagedAnnotation = "paged"

// paged marks a command whose output may be longer than a screen.
func paged(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[pagedAnnotation] = "yes"
	cmd.Flags().Bool("no-pager", false, "do not show long output on a terminal with CROWSNEST_PAGER, PAGER or less")
	return cmd
}

// usePager makes the output of a command that is paged go through the pager, if it is a
// terminal.
func (c *cli) usePager(cmd *cobra.Command) {
	off, _ := cmd.Flags().GetBool("no-pager")
	if cmd.Annotations[pagedAnnotation] == "" || off || !isTerminal(c.out) || c.getenv("TERM") == "dumb" {
		return
	}
	command, set := "", false
	for _, name := range []string{"CROWSNEST_PAGER", "PAGER"} {
		if command = strings.TrimSpace(c.getenv(name)); command != "" {
			set = true
			break
		}
	}
	if !set {
		if _, err := exec.LookPath("less"); err != nil {
			return
		}
		command = defaultPager
	}
	if command == "cat" {
		return
	}
	c.pager = &pager{command: command, out: c.out, err: c.err}
	c.out = c.pager
}

// withoutPager makes the output appear as it is written, as for lines that arrive over time.
func (c *cli) withoutPager() {
	if c.pager != nil {
		c.out, c.pager = c.pager.out, nil
	}
}

func (c *cli) closePager() {
	if c.pager != nil {
		c.pager.close()
	}
}

// pager is an output that another program shows. The program is started with the first
// bytes, so that it does not disturb the progress of the command.
type pager struct {
	command  string
	out, err io.Writer
	proc     *exec.Cmd
	in       io.WriteCloser
	ended    bool // nobody reads any more
}

// Write passes bytes to the pager. If a person has ended it, the rest is discarded.
func (p *pager) Write(b []byte) (int, error) {
	if p.proc == nil {
		p.start()
	}
	if p.in == nil {
		return p.out.Write(b)
	}
	if !p.ended {
		_, err := p.in.Write(b)
		p.ended = err != nil
	}
	return len(b), nil
}

// start starts the program. If that fails, the output is written directly.
func (p *pager) start() {
	p.proc = exec.CommandContext(context.Background(), "/bin/sh", "-c", p.command) //nolint:gosec // PAGER is a shell command
	p.proc.Stdout, p.proc.Stderr = p.out, p.err
	in, err := p.proc.StdinPipe()
	if err != nil {
		return
	}
	if err := p.proc.Start(); err != nil {
		return
	}
	p.in = in
	signal.Ignore(os.Interrupt) // Ctrl-C is for the pager, which must restore the terminal
}

// close waits until a person ends the pager.
func (p *pager) close() {
	if p.in != nil {
		_ = p.in.Close()
		_ = p.proc.Wait()
		p.in = nil
	}
}
