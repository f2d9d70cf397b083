// Package child starts processes for tests and measurements. They end with the process
// that started them, and report their resource usage.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Process is a started process. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; valid once done is closed
}

// Start starts cmd, which the Process owns from then on. On Linux the child is killed
// when this process ends, even by a kill; on other systems it may survive.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal is tied to the life of the thread that starts the child.
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end and returns the result of exec.Cmd.Wait: nil if the status is
// 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal. It returns an error if the process has ended or this process
// lacks the permission.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// End sends a signal and waits for the end, like Wait. After patience it kills the
// process.
func (p *Process) End(sig os.Signal, patience time.Duration) error {
	_ = p.Signal(sig) // it may have ended
	guard := time.AfterFunc(patience, func() { _ = p.Signal(os.Kill) })
	defer guard.Stop()
	return p.Wait()
}

// Used waits for the end and returns the process's CPU time, user and system.
func (p *Process) Used() time.Duration {
	<-p.done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
