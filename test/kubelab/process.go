package kubelab

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

const logShown = 4 << 10 // bytes of a log that are printed

// process is a program that ends with its test.
type process struct {
	t    testing.TB
	dir  string
	bin  string
	args []string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of its end; valid once done is closed
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
	cmd, started, done := exec.Command(p.bin, p.args...), make(chan error, 1), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, out, out, attributes()
	go func() {
		// The signal at our death is tied to the thread that starts the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatalf("start %s: %v", p.bin, err)
	}
	p.cmd, p.done = cmd, done
}

// kill ends it and waits for its end. It may not run.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	p.cmd = nil
}

func (p *process) logFile() string { return filepath.Join(p.dir, filepath.Base(p.bin)+".log") }

// log returns the end of what it wrote.
func (p *process) log() string {
	data, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-logShown):])
}
