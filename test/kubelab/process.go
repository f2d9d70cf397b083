package kubelab

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"crowsnest/test/child"
)

const logShown = 4 << 10 // bytes of a log that are printed

// process is a program that ends with its test.
type process struct {
	t    testing.TB
	dir  string
	bin  string
	args []string

	*child.Process // nil: it does not run
}

func newProcess(t testing.TB, dir, bin string, args ...string) *process {
	p := &process{t: t, dir: dir, bin: bin, args: args}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", filepath.Base(bin), p.log())
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	out, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(p.bin, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	if p.Process, err = child.Start(cmd); err != nil {
		p.t.Fatalf("start %s: %v", p.bin, err)
	}
}

// kill kills it and waits for its end. It may not be running.
func (p *process) kill() {
	if p.Process == nil {
		return
	}
	_ = p.Signal(os.Kill) // it may have ended
	<-p.Done()
	p.Process = nil
}

func (p *process) logFile() string { return filepath.Join(p.dir, filepath.Base(p.bin)+".log") }

// log returns the end of its output.
func (p *process) log() string {
	data, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-logShown):])
}
