package cli

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/sources/kubelet"
)

// maxSkipped bounds the lines about skipped files.
const maxSkipped = 20

// maxMemory is the memory from which garbage is collected as often as necessary. With the
// pages of the program itself, a command that reads logs then has less than 256 MiB.
const maxMemory = 192 << 20

// inputs returns where commands find recorded logs, and a function that removes the
// temporary folder, which exists until then. A signal removes it too.
func (c *cli) inputs(labels matcher.Labels) (opt inputs.Options, remove func() error, err error) {
	folder, err := makeFolder()
	if err != nil {
		return opt, nil, err
	}
	opt = inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in, Unpack: folder.path}
	release := onSignal(func() { removeAll(folder.path) })
	limit := debug.SetMemoryLimit(-1)
	if c.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(maxMemory)
	}
	return opt, func() error {
		debug.SetMemoryLimit(limit)
		release()
		return folder.remove()
	}, nil
}

// onSignal calls clean before a signal ends the process, until release is called. A
// signal that arrived before release ends the process in it: a command whose reader has
// exited returns with an error at the same time.
func onSignal(clean func()) (release func()) {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				die(s, clean)
			case <-done:
				for len(signals) > 0 {
					die(<-signals, clean)
				}
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals) // delivers what has arrived
		close(done)
		<-ended
	}
}

// die ends the process by the signal, so that the parent sees how it ended. It returns
// only from a SIGPIPE of anything but the output, such as a connection.
func die(s os.Signal, clean func()) {
	if s != syscall.SIGPIPE {
		clean()
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		select {}
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if closedPipe(f) {
			clean()
			signal.Reset(s)
			_, _ = f.WriteString("\n") // Go ignores a SIGPIPE from kill, but not from such a write
		}
	}
}

// closedPipe reports whether nothing reads from the other end of f any more.
func closedPipe(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&unix.POLLERR != 0
}

// removeAll removes a folder in which files are still made.
func removeAll(dir string) {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

// reportSkipped names the files without lines of logs.
func (c *cli) reportSkipped(account *inputs.Account) {
	all := account.Skipped()
	for _, s := range all[:min(len(all), maxSkipped)] {
		if len(s.Names) == 1 {
			fmt.Fprintf(c.err, "skipped %s: %s\n", s.Names[0], s.Problem)
		} else {
			fmt.Fprintf(c.err, "skipped %s and %s: %s\n", s.Names[0], text.Plural(len(s.Names)-1, "more file"), s.Problem)
		}
	}
	more := 0
	for _, s := range all[min(len(all), maxSkipped):] {
		more += len(s.Names)
	}
	if more > 0 {
		fmt.Fprintf(c.err, "skipped %s; scan -o json lists all\n", text.Plural(more, "more file"))
	}
}
