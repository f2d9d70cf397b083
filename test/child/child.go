// Package child starts processes for tests and measurements: they end with the
// process that started them, and tell what they take.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Process is one that was started. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of its end; valid once done is closed
}

// Start starts cmd, which belongs to the Process from here on. On Linux the child
// is killed when this process ends, in whatever way; elsewhere it may live on.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal at our death is tied to the thread that starts the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end and returns what exec.Cmd.Wait says of it: nil if the
// status is 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal. An error means that the process has ended, or may not
// be sent it.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// End sends a signal and waits for the end, as Wait does. After patience the
// process is killed.
func (p *Process) End(sig os.Signal, patience time.Duration) error {
	_ = p.Signal(sig) // it may have ended
	guard := time.AfterFunc(patience, func() { _ = p.Signal(os.Kill) })
	defer guard.Stop()
	return p.Wait()
}

// Used waits for the end and returns the CPU time that the process took, user and
// system.
func (p *Process) Used() time.Duration {
	<-p.done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
